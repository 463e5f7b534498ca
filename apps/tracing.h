#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "trace/file.h"
#include "trace/recorder.h"

namespace lagoon {

/// `--trace FILE` of a command: a recorder while it runs, a file at its end.
class Tracing {
 public:
  void AddOptions(CLI::App& command);

  /// Null without the option. Dies when the file cannot be written.
  TraceRecorder* Start();
  /// After what was recorded has come to rest. Dies when the file is not complete.
  void Finish();

 private:
  std::string path_;
  std::size_t capacity_ = std::size_t{1} << 20;
  std::unique_ptr<TraceRecorder> recorder_;
  std::optional<TraceFile> file_;
};

}  // namespace lagoon

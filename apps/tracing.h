#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "trace/file.h"
#include "trace/recorder.h"

namespace lagoon {

/// The option `--trace FILE` of a command: records while the command runs, and writes the file at
/// its end.
class Tracing {
 public:
  void AddOptions(CLI::App& command);

  const std::string& path() const { return path_; }  // empty without the option
  bool wanted() const { return !path_.empty(); }
  /// The recorder; null without the option. Dies if the file cannot be created.
  TraceRecorder* Start() { return Start(path_, capacity_); }
  /// The same for one of `files` files: PART comes before the ending of the file's name. Without
  /// --trace-capacity many files keep less each.
  TraceRecorder* StartPart(const std::string& part, std::size_t files);
  /// Writes the file, and frees the recorder. Call it when nothing records any more. Dies if the
  /// file cannot be written completely.
  void Finish();

 private:
  TraceRecorder* Start(const std::string& path, std::size_t capacity);

  std::string path_;
  CLI::Option* capacity_option_ = nullptr;
  std::size_t capacity_ = std::size_t{1} << 20;
  std::unique_ptr<TraceRecorder> recorder_;
  std::optional<TraceFile> file_;
};

}  // namespace lagoon

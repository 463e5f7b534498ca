#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "trace/recorder.h"

namespace lagoon {

/// The file for a trace. The file is created before the run and written after it, so that an error
/// of the path shows before anything runs.
class TraceFile {
 public:
  /// kInvalidArgument names the file and why it cannot be written.
  static Result<TraceFile> Create(const std::string& path);

  /// Call it once, when nothing is recorded any more. kResourceExhausted names the file and why the
  /// file is not complete (no space).
  Status Write(const TraceRecorder& recorder, const std::string& version);

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace lagoon

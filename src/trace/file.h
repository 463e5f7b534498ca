#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "trace/recorder.h"

namespace lagoon {

/// A file that a trace goes to in the end. It is made first, so that who cannot write learns of it
/// before anything runs.
class TraceFile {
 public:
  /// kInvalidArgument names the file and why it cannot be written.
  static Result<TraceFile> Create(const std::string& path);

  /// Once; the recorder must be at rest. kResourceExhausted names the file and why it is not
  /// complete (no space).
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

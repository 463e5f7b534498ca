#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "sched/programs/job_program.h"

namespace lagoon {

/// A shared library with a job program (LAGOON_JOB_PROGRAM). Never unloaded, because kernels are
/// code of the library. Errors name the library's path and what is wrong.
class JobLibrary {
 public:
  /// First loads the library and makes a program in a child process. A library that crashes, exits
  /// or hangs (for longer than `limit`) while it is loaded is then only an error.
  static Result<JobLibrary> Load(const std::string& path,
                                 Nanoseconds limit = std::chrono::seconds(10));

  Result<std::unique_ptr<JobProgram>> MakeProgram() const;

 private:
  using CreateFunction = JobProgram* (*)();
  JobLibrary(std::string path, CreateFunction create) : path_(std::move(path)), create_(create) {}

  std::string path_;
  CreateFunction create_;
};

}  // namespace lagoon

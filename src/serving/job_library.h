#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "sched/job_program.h"

namespace lagoon {

/// A shared library with a job program (LAGOON_JOB_PROGRAM). Never unloaded: kernels are its code.
/// Errors name its path and what is wrong.
class JobLibrary {
 public:
  /// The library is first loaded, and a program made, in a process of its own, so that one that
  /// crashes, exits or hangs (for longer than `limit`) while it is loaded is an error here and
  /// nothing else.
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

#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "sched/job_program.h"

namespace lagoon {

/// Makes the program of the shared library at `path` (LAGOON_JOB_PROGRAM). The library is first
/// loaded in a process of its own, so that one that crashes, exits or hangs (for longer than
/// `limit`) while it is loaded is an error here and nothing else. Never unloaded: kernels are its
/// code. Errors name the path and what is wrong.
Result<std::unique_ptr<JobProgram>> LoadJobProgram(const std::string& path,
                                                   Nanoseconds limit = std::chrono::seconds(10));

}  // namespace lagoon

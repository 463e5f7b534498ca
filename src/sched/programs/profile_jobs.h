#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "sched/programs/program_host.h"

namespace lagoon {

struct JobProfile {
  std::span<const void* const> inputs;  // as JobSpec::inputs
  std::size_t outputs = 0;              // of a job; they are dropped, and so is what a job sends
  std::uint32_t runs = 3;               // Paella 6
  Nanoseconds within{0};                // the longest that one run may take
};

/// Runs jobs of the program one after the other, so that policies know the remaining time of its
/// first requests (ProgramEstimate). `device`: the host's, for its clock. Returns when the last one
/// has ended; the caller must not be a thread that the host needs. An error says which run failed
/// and why: the others are not begun.
Status ProfileJobs(ProgramHost& host, const Device& device, const JobProfile& profile);

}  // namespace lagoon

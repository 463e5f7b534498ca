#pragma once

#include <cstdint>
#include <string>

#include "bench/report/report.h"

namespace lagoon::bench {

struct AdmissionOptions {
  std::uint32_t workers = 0;        // compute units of the CPU device; 0: one per core
  int requests = 2000;              // real-time posts of each case, over all rounds
  int rounds = 5;                   // of each case; the cases take turns
  int clients = 4;                  // best-effort clients in closed loops, an instance each
  double kernel_us = 8;             // time of a kernel's only block; GNMT's kernels are alike
  std::string scheduler = "reset";  // a name of docs/guide/schedulers.md
  std::uint64_t seed = 1;           // for the pauses between real-time posts
};

/// Measures, in real time on the CPU device, how long a posted job waits for the dispatcher and how
/// long a finished job waits for its answer. A thread posts real-time jobs while best-effort jobs
/// of short kernels keep the workers, and with them the dispatcher, busy. Cases: `alone` (no
/// best-effort job) and `beside`. Metrics:
///   post_to_admit_us_p50.CASE, _p99, _max    from the call of Post until the mechanism has the job
///   finish_to_answer_us_p50.CASE, _p99       from the end of a real-time job until the call of its
///                                            client's Finished()
///   best_effort_answer_us_p50.beside, _p99   the same for best-effort jobs
///   computed_to_finished_us_p50.CASE, _p99   from a real-time job's last kernel until its output
///                                            is copied and the job is finished
///   best_effort_kernels_per_second.beside    kernels of finished best-effort jobs a second
Status RunAdmission(const AdmissionOptions& options, Report& report);

}  // namespace lagoon::bench

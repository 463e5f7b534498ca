#pragma once

#include <cstdint>
#include <string>

#include "bench/report.h"

namespace lagoon::bench {

struct AdmissionOptions {
  std::uint32_t workers = 0;        // compute units of the CPU device; 0: one per core
  int requests = 2000;              // real-time posts of each case
  int rounds = 5;                   // the cases take turns
  int clients = 4;                  // best-effort ones, closed loop, each with a model of its own
  double kernel_us = 8;             // of one block; the kernels of GNMT take about as long
  std::string scheduler = "reset";  // a name of docs/guide/schedulers.md
  std::uint64_t seed = 1;           // of the pauses between real-time posts
};

/// How long a posted job waits for the dispatcher, and a finished one for its answer, in real time
/// on the CPU device: a thread posts real-time jobs while best-effort jobs of short kernels keep
/// the workers, and with them the dispatcher, busy. Cases: `alone` (no best-effort job) and
/// `beside`.
///
///   post_to_admit_us_p50.CASE, _p99, _max    from the call of Post until the mechanism has the job
///
///   finish_to_answer_us_p50.CASE, _p99       from the end of a real-time job until its client
///                                            hears of it
///
///   best_effort_answer_us_p50.beside, _p99   the same for best-effort jobs
///
///   computed_to_finished_us_p50.CASE, _p99   from a real-time job's last kernel until its output
///                                            is copied and the job is finished
///
///   best_effort_kernels_per_second.beside    how many ran meanwhile
Status RunAdmission(const AdmissionOptions& options, Report& report);

}  // namespace lagoon::bench

#pragma once

// What a replica's requests will see, by a formula in place of a simulation.

#include <cstdint>

namespace lagoon {

struct ReplicaLoad {
  double rate = 0;        // rows per second that arrive as a Poisson process, 0 or more
  std::int64_t rows = 1;  // limit of a batch
  double batch_ms = 1;    // time of a full batch, above 0
  double single_ms = 1;   // time of a batch of one row, above 0
  double slo_ms = 1;      // of a request
};

/// The part of the requests that will be late or dropped, 0 to 1, if a batch takes the requests
/// that wait as soon as the one before has ended, and requests that would be late are dropped. A
/// diffusion approximation, compared with the batch-level simulator in forecast_test.cc: near the
/// capacity within a factor of 3; far below it the rate is too low to matter.
double ViolationRate(const ReplicaLoad& load);

/// The longest time of a full batch for which ViolationRate() is at most `most_violations`, if
/// single_ms changes in proportion. 0: there is none.
double LongestBatchMs(const ReplicaLoad& load, double most_violations);

}  // namespace lagoon

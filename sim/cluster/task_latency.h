#pragma once

// What one request will see, from the state that it meets (InSS Eq. 3).

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lagoon {

struct TaskAhead {
  std::int64_t waiting = 0;  // requests before it, without those of the batch that runs
  std::int64_t rows = 1;     // of a batch, 1 or more
  double running_ms = 0;     // that the batch which runs still needs; 0: none runs
  double batch_ms = 1;       // time of a full batch
  double rate = 0;           // rows per second that arrive
};

/// The time until its answer, if batches wait until they are full, in ms. Infinite if its batch is
/// not full yet and nothing more arrives.
inline double TaskLatencyMs(const TaskAhead& ahead) {
  const auto rows = static_cast<double>(ahead.rows);
  const double with_it = static_cast<double>(ahead.waiting) + 1;
  if (with_it >= rows) return ahead.running_ms + std::ceil(with_it / rows) * ahead.batch_ms;
  const double filled_ms = 1e3 * (rows - with_it) / ahead.rate;
  return std::max(ahead.running_ms, filled_ms) + ahead.batch_ms;
}

}  // namespace lagoon

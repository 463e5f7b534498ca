#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

inline constexpr std::uint32_t kMaxPlaces = 2;  // GSLICE 3.2: more than two streams bring nothing

/// dynamic_batching: how requests that wait are joined into batches.
struct BatchingSettings {
  bool enabled = false;
  std::vector<std::int64_t> preferred;  // rows of a batch that is posted at once; ascending
  Nanoseconds max_delay{0};             // that a request waits for others; 0: for none
  std::uint32_t places = 1;             // lagoon.places: batches of a class that are posted at once
  Nanoseconds queue_timeout{0};         // longest wait for a batch; 0: no limit
  bool delay_late = false;              // behind queue_timeout a request waits on, after all others
  bool own_timeout = false;             // a request's own timeout replaces queue_timeout
  bool keep_order = false;  // preserve_ordering: answers leave in the order of the requests
};

/// Reads dynamic_batching; not enabled if `config` has none. A warning if max_batch_size is 0, so
/// that requests cannot be joined. kInvalidArgument names the field and the value.
Result<BatchingSettings> ReadBatching(const inference::ModelConfig& config,
                                      std::vector<std::string>& warnings);

}  // namespace lagoon

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cluster/batch_limiter.h"

namespace inference {
class ModelConfig;
}

namespace lagoon {

inline constexpr std::uint32_t kMaxPlaces = 2;  // GSLICE 3.2: more than two streams bring nothing

/// Who limits the rows of a batch, so that it ends within an SLO (GSLICE 3.3).
struct BatchLimitSettings {
  Nanoseconds slo{0};                  // lagoon.slo_ms; 0: none
  SloOf slo_of = SloOf::kRequest;      // lagoon.slo_of
  std::optional<std::string> limiter;  // lagoon.batching: for MakeBatchLimiter(), or kNoLimiter

  static constexpr std::string_view kNoLimiter = "off";
  static constexpr std::string_view kDefaultLimiter = "slab";

  /// The limiter of the batches of a model with this max_batch_size. Null: there is none.
  std::unique_ptr<BatchLimiter> MakeLimiter(std::int64_t most_rows) const;
  /// What a batch may take: the SLO, or half of it if it is about requests.
  Nanoseconds Budget() const { return slo_of == SloOf::kBatch ? slo : slo / 2; }
};

inline constexpr std::uint64_t kMaxPriorityLevels = 1000;

/// A queue policy: what may wait for a batch, and how long.
struct WaitPolicy {
  Nanoseconds timeout{0};       // longest wait; 0: no limit
  bool delay_late = false;      // behind the timeout a request waits on, after all others
  bool own_timeout = false;     // a request's own timeout replaces this one
  std::size_t max_waiting = 0;  // requests of a level; 0: ModelSettings::max_queue_size
};

/// dynamic_batching: how requests that wait are joined into batches.
struct BatchingSettings {
  bool enabled = false;
  std::vector<std::int64_t> preferred;  // rows of a batch that is posted at once; ascending
  Nanoseconds max_delay{0};             // that a request waits for others; 0: for none
  std::uint32_t places = 1;             // lagoon.places: batches of a class that are posted at once
  /// preserve_ordering: answers leave in the order of the requests, within a priority level.
  bool keep_order = false;
  std::uint32_t priority_levels = 0;  // requests of level 1 go first; 0: there are no levels
  std::uint32_t default_level = 0;    // default_priority_level
  WaitPolicy policy;                  // default_queue_policy
  std::map<std::uint32_t, WaitPolicy> own_policies;  // priority_queue_policy, by level
  BatchLimitSettings limit;

  /// The level of a request with this InferRequest::priority.
  std::uint32_t LevelOf(std::uint64_t priority) const {
    const bool known = priority >= 1 && priority <= priority_levels;
    return known ? static_cast<std::uint32_t>(priority) : default_level;
  }
  const WaitPolicy& PolicyOf(std::uint32_t level) const {
    const auto own = own_policies.find(level);
    return own == own_policies.end() ? policy : own->second;
  }
};

/// Reads dynamic_batching; not enabled if `config` has none. A warning if max_batch_size is 0, so
/// that requests cannot be joined. kInvalidArgument names the field and the value.
Result<BatchingSettings> ReadBatching(const inference::ModelConfig& config,
                                      std::vector<std::string>& warnings);

/// After all parameters have been read: whether they go together. A warning if lagoon.slo_ms has no
/// effect. `tuned_share`: the model has a share that follows its SLO.
Status CheckBatching(const BatchingSettings& settings, bool tuned_share,
                     std::vector<std::string>& warnings);

}  // namespace lagoon

#include "serving/config/batching_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace lagoon {
namespace {

constexpr std::uint64_t kMaxWaitUs = 3'600'000'000;  // an hour

Result<Nanoseconds> Wait(const char* field, std::uint64_t us) {
  if (us > kMaxWaitUs) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("dynamic_batching.{} is {}; it takes at most {} (an hour)", field, us,
                            kMaxWaitUs));
  }
  return std::chrono::microseconds(us);
}

}  // namespace

Result<BatchingSettings> ReadBatching(const inference::ModelConfig& config,
                                      std::vector<std::string>& warnings) {
  BatchingSettings settings;
  if (!config.has_dynamic_batching()) return settings;
  const inference::ModelDynamicBatching& batching = config.dynamic_batching();
  const inference::ModelQueuePolicy& policy = batching.default_queue_policy();
  LAGOON_ASSIGN_OR_RETURN(settings.max_delay, Wait("max_queue_delay_microseconds",
                                                   batching.max_queue_delay_microseconds()));
  LAGOON_ASSIGN_OR_RETURN(settings.queue_timeout,
                          Wait("default_queue_policy.default_timeout_microseconds",
                               policy.default_timeout_microseconds()));
  settings.delay_late = policy.timeout_action() == inference::ModelQueuePolicy::DELAY;
  settings.own_timeout = policy.allow_timeout_override();
  settings.keep_order = batching.preserve_ordering();
  for (const std::int32_t rows : batching.preferred_batch_size()) {
    if (rows < 1 || (config.max_batch_size() > 0 && rows > config.max_batch_size())) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("dynamic_batching.preferred_batch_size is {}; it takes 1 to {}, "
                              "which is max_batch_size",
                              rows, config.max_batch_size()));
    }
    settings.preferred.push_back(rows);
  }
  std::ranges::sort(settings.preferred);
  settings.enabled = config.max_batch_size() > 1;
  if (!settings.enabled) {
    warnings.push_back(fmt::format(
        "dynamic_batching: requests are not joined into batches, as max_batch_size is {}",
        config.max_batch_size()));
  }
  return settings;
}

}  // namespace lagoon

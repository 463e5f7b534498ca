#include "serving/config/batching_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "serving/config/parameter_value.h"

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

constexpr double kLeastSloMs = 0.01, kMostSloMs = 3'600'000;  // an hour

}  // namespace

std::unique_ptr<BatchLimiter> BatchLimitSettings::MakeLimiter(std::int64_t most_rows) const {
  const std::string_view kind = limiter ? std::string_view(*limiter) : kDefaultLimiter;
  if (slo == Nanoseconds(0) || kind == kNoLimiter || most_rows < 2) return nullptr;
  return *MakeBatchLimiter(kind, {.slo = slo, .slo_of = slo_of, .most = most_rows});
}

Result<bool> ReadBatchingParameter(std::string_view key, std::string_view value,
                                   BatchingSettings& settings) {
  if (key == "lagoon.places") {
    const auto places = ParseNumber<std::uint32_t>(value);
    if (!places || *places < 1 || *places > kMaxPlaces) {
      return BadParameter(key, value, fmt::format("a number from 1 to {}", kMaxPlaces));
    }
    settings.places = *places;
    return true;
  }
  if (key == "lagoon.slo_ms") {
    const auto ms = ParseNumber<double>(value);
    if (!ms || !(*ms >= kLeastSloMs && *ms <= kMostSloMs)) {
      return BadParameter(key, value,
                          fmt::format("milliseconds from {} to {}", kLeastSloMs, kMostSloMs));
    }
    settings.limit.slo =
        std::chrono::round<Nanoseconds>(std::chrono::duration<double, std::milli>(*ms));
    return true;
  }
  if (key == "lagoon.slo_of") {
    if (value != "request" && value != "batch") return BadParameter(key, value, "request or batch");
    settings.limit.slo_of = value == "batch" ? SloOf::kBatch : SloOf::kRequest;
    return true;
  }
  if (key == "lagoon.batching") {
    const bool known = value == BatchLimitSettings::kNoLimiter ||
                       MakeBatchLimiter(value, {.slo = std::chrono::seconds(1)}).has_value();
    if (!known) return BadParameter(key, value, "slab, aimd, clipper or off");
    settings.limit.limiter = std::string(value);
    return true;
  }
  return false;
}

Status CheckBatching(const BatchingSettings& settings, bool tuned_share,
                     std::vector<std::string>& warnings) {
  const BatchLimitSettings& limit = settings.limit;
  if (limit.limiter && *limit.limiter != BatchLimitSettings::kNoLimiter &&
      limit.slo == Nanoseconds(0)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("parameter 'lagoon.batching' is '{}', which limits batches so that "
                            "they end within 'lagoon.slo_ms': set that too",
                            *limit.limiter));
  }
  if (limit.slo > Nanoseconds(0) && !settings.enabled && !tuned_share) {
    warnings.push_back(
        "lagoon.slo_ms has no effect: it is for batches (dynamic_batching, and max_batch_size "
        "above 1) and for a share that is tuned (lagoon.share 'auto')");
  }
  return {};
}

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

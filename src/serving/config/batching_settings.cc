#include "serving/config/batching_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "serving/config/model_config.pb.h"

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

Result<WaitPolicy> ReadPolicy(const std::string& field, const inference::ModelQueuePolicy& policy) {
  WaitPolicy read;
  LAGOON_ASSIGN_OR_RETURN(read.timeout, Wait((field + ".default_timeout_microseconds").c_str(),
                                             policy.default_timeout_microseconds()));
  read.delay_late = policy.timeout_action() == inference::ModelQueuePolicy::DELAY;
  read.own_timeout = policy.allow_timeout_override();
  return read;
}

Status ReadLevels(const inference::ModelDynamicBatching& batching, BatchingSettings& settings) {
  const auto wrong = [](std::string_view field, std::uint64_t value, std::string_view takes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("dynamic_batching.{} is {}; it takes {}", field, value, takes));
  };
  const std::uint64_t levels = batching.priority_levels();
  if (levels > kMaxPriorityLevels) {
    return wrong("priority_levels", levels, fmt::format("at most {}", kMaxPriorityLevels));
  }
  settings.priority_levels = static_cast<std::uint32_t>(levels);
  const std::uint64_t usual = batching.default_priority_level();
  if (usual > levels || (levels > 0 && usual == 0)) {
    return wrong("default_priority_level", usual,
                 levels == 0 ? "0, as priority_levels is 0"
                             : fmt::format("1 to {}, which is priority_levels", levels));
  }
  settings.default_level = static_cast<std::uint32_t>(usual);
  // Sorted, so that the message does not change from run to run.
  const std::map<std::uint64_t, inference::ModelQueuePolicy> policies(
      batching.priority_queue_policy().begin(), batching.priority_queue_policy().end());
  for (const auto& [level, policy] : policies) {
    if (level < 1 || level > levels) {
      return wrong("priority_queue_policy", level,
                   fmt::format("levels from 1 to {}, which is priority_levels", levels));
    }
    WaitPolicy& own = settings.own_policies[static_cast<std::uint32_t>(level)];
    LAGOON_ASSIGN_OR_RETURN(own, ReadPolicy("priority_queue_policy", policy));
    own.max_waiting = policy.max_queue_size();
  }
  return {};
}

}  // namespace

std::unique_ptr<BatchLimiter> BatchLimitSettings::MakeLimiter(std::int64_t most_rows) const {
  const std::string_view kind = limiter ? std::string_view(*limiter) : kDefaultLimiter;
  if (kind == kNoLimiter || most_rows < 2) return nullptr;
  if (FixedRowsOf(kind)) {  // needs no SLO: any valid one will do
    return *MakeBatchLimiter(kind, {.slo = std::chrono::seconds(1), .most = most_rows});
  }
  if (slo == Nanoseconds(0)) return nullptr;
  return *MakeBatchLimiter(kind, {.slo = slo, .slo_of = slo_of, .most = most_rows});
}

Status CheckBatching(const BatchingSettings& settings, bool tuned_share,
                     std::vector<std::string>& warnings) {
  const BatchLimitSettings& limit = settings.limit;
  if (limit.limiter && *limit.limiter != BatchLimitSettings::kNoLimiter &&
      !FixedRowsOf(*limit.limiter) && limit.slo == Nanoseconds(0)) {
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
  LAGOON_ASSIGN_OR_RETURN(settings.max_delay, Wait("max_queue_delay_microseconds",
                                                   batching.max_queue_delay_microseconds()));
  LAGOON_ASSIGN_OR_RETURN(settings.policy,
                          ReadPolicy("default_queue_policy", batching.default_queue_policy()));
  LAGOON_RETURN_IF_ERROR(ReadLevels(batching, settings));
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

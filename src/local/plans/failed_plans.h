#pragma once

// The plans of one model that could not be made.

#include <cstddef>
#include <list>

#include "base/status.h"
#include "base/time.h"
#include "local/plans/plan_cache.h"

namespace lagoon {

/// Remembers why plans could not be made, each for a pause that doubles with every failure, so that
/// the same plan is not tried again and again. Bounded: the entry that failed longest ago goes
/// first. Not thread-safe.
class FailedPlans {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr Nanoseconds kFirstPause = std::chrono::seconds(1);
  static constexpr Nanoseconds kLongestPause = std::chrono::minutes(5);

  /// The error while the plan is not to be tried again; else null. Valid until the next call.
  const Error* Find(const PlanKey& key, TimePoint now) const;
  /// Returns true if it is the first failure of this plan, as far as is known.
  bool Add(const PlanKey& key, const Error& error, TimePoint now);
  /// The plan could be made after all.
  void Remove(const PlanKey& key);
  std::size_t size() const { return failed_.size(); }

 private:
  struct Failed {
    PlanKey key;
    Error error;
    Nanoseconds pause;
    TimePoint until;
  };
  std::list<Failed> failed_;  // in order of their last failure
};

}  // namespace lagoon

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "cluster/ewma.h"
#include "serving/config/batching_settings.h"
#include "serving/core/request.h"

namespace lagoon {

class Flight;

/// A request that waits for a batch.
struct BatchMember {
  RequestHandle handle{};
  std::shared_ptr<Flight> flight;
  std::int64_t rows = 1;
  std::uint32_t level = 0;  // BatchingSettings::LevelOf(); the smaller one goes first
  std::string shape = {};   // equal for requests that one batch can hold
  TimePoint came = {};
  TimePoint deadline = kNoDeadline;  // the answer is of no use afterwards
  TimePoint leaves = kNoDeadline;    // until then it must be in a batch (WaitPolicy)
  bool late = false;                 // `leaves` has passed, and it waits on behind the others
  std::uint32_t tenant = 0;          // JobSpec::tenant of a job of the request alone
  TimePoint gives_up = kNoDeadline;  // until then it must be in a batch, whatever WaitPolicy says
};

/// The requests of a queue that wait for a batch, and the rule that says when which of them become
/// one. Not thread-safe; no clock, no requests: tests run it with times of their own.
///
/// - A batch holds requests of one shape, in order of priority level and arrival, up to `most_rows`
///   rows.
/// - With preferred sizes, the largest one that can be formed goes at once. If none can, and the
///   requests are more than the largest, those that fit into it go at once, or the first one alone.
/// - A batch that cannot grow goes at once.
/// - Otherwise the oldest request waits for others, up to BatchingSettings::max_delay, but not so
///   long that one of the batch would miss its deadline.
/// - A batch is not made so large that its oldest request misses a deadline that a smaller one
///   meets. Exception: where such a small batch would make later requests late, and a larger batch
///   of later requests does more rows a second, the larger one runs and those ahead are dropped
///   (early drop: Nexus, SOSP 2019, 6.3). Otherwise a queue in overload would run batches of one
///   row for ever.
class BatchQueue {
 public:
  /// The expected time of a batch of so many rows of a shape, if there is a plan for it. 0: not
  /// known. nullopt: no batch of this size can run now.
  using TimeOf = std::function<std::optional<Nanoseconds>(const BatchMember&, std::int64_t rows)>;

  BatchQueue(const BatchingSettings& settings, std::int64_t most_rows)
      : settings_(settings), most_rows_(most_rows) {}

  std::size_t size() const { return members_.size(); }
  /// How many of them have this level.
  std::size_t OfLevel(std::uint32_t level) const {
    return static_cast<std::size_t>(std::ranges::count(members_, level, &BatchMember::level));
  }
  /// The time until `member` has run, if all requests ahead of it run first in full batches.
  /// Batches of other shapes are assumed to take as long as the member's. `last_is_full`: the last
  /// batch takes as long as one of the most rows.
  Nanoseconds TimeWith(const BatchMember& member, const TimeOf& time_of,
                       bool last_is_full = false) const;
  /// So many rows were asked for, whether or not they may wait.
  void Asked(std::int64_t rows) { asked_rows_ += rows; }
  /// Whether a full batch of requests comes within the time that the deadline of a `member` that
  /// comes now leaves before the batch must begin. Then a request that cannot wait for a full batch
  /// had better not wait: the batch would be small for its sake.
  bool IsCrowded(const BatchMember& member, const TimeOf& time_of) const;
  /// From now on a batch holds at most so many rows, at least one request.
  void SetMostRows(std::int64_t rows) { most_rows_ = rows; }
  std::int64_t MostRows() const { return most_rows_; }
  void Add(BatchMember member);

  struct Taken {
    std::vector<BatchMember> batch;    // empty: it is not time for one
    std::vector<BatchMember> dropped;  // would be late in `batch`, and keep it small
  };
  /// The members of the next batch, if it is time for one.
  Taken TakeBatch(TimePoint now, const TimeOf& time_of);
  struct Expired {
    std::vector<BatchMember> deadline;  // even a batch of its own would end behind it
    std::vector<BatchMember> queue_timeout;
    std::vector<BatchMember> given_up;
  };
  /// Removes the requests that have waited too long.
  Expired TakeExpired(TimePoint now, const TimeOf& time_of);
  /// Removes the first one for which `which` holds.
  std::optional<BatchMember> TakeFirst(const std::function<bool(const BatchMember&)>& which);

  /// When TakeExpired() would give something, or TakeBatch() if it will be called (`may_go`), while
  /// no request comes. Call it after those two. kNoDeadline: never.
  TimePoint NextTime(bool may_go, const TimeOf& time_of);

 private:
  using Members = std::list<BatchMember>;

  std::vector<Members::iterator> Candidates(bool& full);
  TimePoint GoesAt(const std::vector<Members::iterator>& batch, std::int64_t rows,
                   const TimeOf& time_of) const;
  void TakeOut(Members::iterator member, std::vector<BatchMember>& taken);
  std::size_t WithinPreferred(const std::vector<Members::iterator>& batch) const;
  std::size_t Preferred(const std::vector<Members::iterator>& batch) const;
  std::size_t Runnable(const std::vector<Members::iterator>& batch, TimePoint now,
                       const TimeOf& time_of) const;
  struct Choice {
    std::vector<Members::iterator> batch, dropped;
  };
  Choice Fuller(const std::vector<Members::iterator>& batch, std::size_t small, TimePoint now,
                const TimeOf& time_of);
  void LearnArrivals(TimePoint now);

  const BatchingSettings settings_;
  std::int64_t most_rows_;
  Members members_;                       // by level, then in order of arrival; late ones last
  std::int64_t asked_rows_ = 0;           // since asked_since_
  std::optional<TimePoint> asked_since_;  // a batch was taken
  Ewma rows_per_ns_{0.5};                 // asked for, between batches
};

}  // namespace lagoon

#include "serving/batch/batch_queue.h"

#include <algorithm>
#include <utility>

#include "serving/batch/wanted_rows.h"

namespace lagoon {
namespace {

// A batch that is formed to meet a deadline is formed so much earlier: the expected time is a mean.
constexpr double kMargin = 0.1;

Nanoseconds WithMargin(Nanoseconds time) {
  return time + Nanoseconds(static_cast<std::int64_t>(kMargin * static_cast<double>(time.count())));
}

// Whether even a batch of its own would not answer the request in time.
bool IsLate(const BatchMember& member, TimePoint now, const BatchQueue::TimeOf& time_of) {
  if (member.deadline == kNoDeadline) return false;
  const Nanoseconds time = time_of(member, member.rows).value_or(Nanoseconds(0));
  return member.deadline <= now || now + time > member.deadline;
}

// Saturates at kNoDeadline.
TimePoint Plus(TimePoint at, Nanoseconds time) {
  return at >= kNoDeadline - time ? kNoDeadline : at + time;
}

// The rows of a batch, and the time that it takes.
struct BatchSize {
  std::int64_t rows = 0;
  Nanoseconds time{0};

  bool DoesMoreRowsThan(const BatchSize& other) const {
    return static_cast<double>(rows) * static_cast<double>(other.time.count()) >
           static_cast<double>(other.rows) * static_cast<double>(time.count());
  }
};

// Arrivals are counted over at least so long: batches may be taken at the same time.
constexpr Nanoseconds kArrivalsWindow = std::chrono::milliseconds(1);

}  // namespace

void BatchQueue::Add(BatchMember member) {
  const auto behind = std::ranges::find_if(
      members_, [&](const BatchMember& other) { return other.late || other.level > member.level; });
  members_.insert(behind, std::move(member));
}

Nanoseconds BatchQueue::TimeWith(const BatchMember& member, const TimeOf& time_of,
                                 bool last_is_full) const {
  std::int64_t rows = member.rows;
  for (const BatchMember& waiting : members_) {
    if (waiting.level <= member.level) rows += waiting.rows;
  }
  const Nanoseconds alone = time_of(member, member.rows).value_or(Nanoseconds(0));
  const auto time = [&](std::int64_t of) {
    if (of == 0) return Nanoseconds(0);
    if (const auto known = time_of(member, of)) return *known;
    // Until there is a plan for a larger batch, smaller ones run.
    if (const auto ready = of > kReadyRows ? time_of(member, kReadyRows) : std::nullopt) {
      return *ready * of / kReadyRows;
    }
    return alone * of / member.rows;
  };
  const std::int64_t rest = rows % most_rows_;
  return rows / most_rows_ * time(most_rows_) + time(last_is_full && rest > 0 ? most_rows_ : rest);
}

bool BatchQueue::IsCrowded(const BatchMember& member, const TimeOf& time_of) const {
  const auto time = time_of(member, most_rows_);
  if (!rows_per_ns_.value() || !time || member.deadline == kNoDeadline) return false;
  const Nanoseconds left = member.deadline - member.came - *time;
  return *rows_per_ns_.value() * static_cast<double>(left.count()) >=
         static_cast<double>(most_rows_);
}

void BatchQueue::LearnArrivals(TimePoint now) {
  if (asked_since_ && now - *asked_since_ < kArrivalsWindow) return;
  if (asked_since_) {
    rows_per_ns_.Add(static_cast<double>(asked_rows_) /
                     static_cast<double>((now - *asked_since_).count()));
  }
  asked_rows_ = 0;
  asked_since_ = now;
}

// The requests that a batch with the oldest one can hold. `full`: no request that may come makes it
// larger.
std::vector<BatchQueue::Members::iterator> BatchQueue::Candidates(bool& full) {
  std::vector<Members::iterator> batch;
  std::int64_t rows = 0;
  full = false;
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    if (!batch.empty() && member->shape != batch.front()->shape) {
      if (!settings_.keep_order) continue;
      full = true;  // later requests must not pass this one
      break;
    }
    if (!batch.empty() && rows + member->rows > most_rows_) {
      full = true;
      break;
    }
    rows += member->rows;
    batch.push_back(member);
  }
  full = full || rows >= most_rows_;
  return batch;
}

// How many of the first requests make the largest preferred size; 0: none does.
std::size_t BatchQueue::Preferred(const std::vector<Members::iterator>& batch) const {
  std::size_t best = 0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    rows += batch[i]->rows;
    if (std::ranges::binary_search(settings_.preferred, rows)) best = i + 1;
  }
  return best;
}

// If the requests are more than the largest preferred size: how many of the first fit into it, at
// least one. Else 0.
std::size_t BatchQueue::WithinPreferred(const std::vector<Members::iterator>& batch) const {
  if (settings_.preferred.empty()) return 0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    rows += batch[i]->rows;
    if (rows > settings_.preferred.back()) return std::max<std::size_t>(i, 1);
  }
  return 0;
}

// How many of the first requests can run together now, so that the oldest one meets its deadline.
// At least one.
std::size_t BatchQueue::Runnable(const std::vector<Members::iterator>& batch, TimePoint now,
                                 const TimeOf& time_of) const {
  std::size_t count = batch.size();
  std::int64_t rows = 0;
  for (const auto& member : batch) rows += member->rows;
  for (; count > 1; rows -= batch[--count]->rows) {
    const std::optional<Nanoseconds> time = time_of(*batch.front(), rows);
    if (time && Plus(now, *time) <= batch.front()->deadline) break;
  }
  return count;
}

// The batch of the most rows a second that later requests fill, if it does more of them than the
// first `small` of `batch`, which are all that the oldest request's deadline allows. Only requests
// of the oldest one's level give way to each other, and only if some would be late behind the small
// batch. An empty batch: there is none.
BatchQueue::Choice BatchQueue::Fuller(const std::vector<Members::iterator>& batch,
                                      std::size_t small, TimePoint now, const TimeOf& time_of) {
  BatchSize smaller, target;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    rows += batch[i]->rows;
    if (i + 1 < small) continue;
    const BatchSize size{rows, time_of(*batch.front(), rows).value_or(Nanoseconds(0))};
    if (i + 1 == small) {
      smaller = target = size;
    } else if (size.time > Nanoseconds(0) && size.DoesMoreRowsThan(target)) {
      target = size;
    }
  }
  if (smaller.time == Nanoseconds(0) || target.rows == smaller.rows) return {};
  const BatchMember& oldest = *batch.front();
  Choice choice;
  bool some_late = false;  // behind the small batch
  rows = 0;
  for (auto member = members_.begin(); member != members_.end() && rows < target.rows; ++member) {
    if (member->shape != oldest.shape && !settings_.keep_order) continue;
    if (member->shape != oldest.shape || member->level != oldest.level ||
        member->late != oldest.late) {
      break;
    }
    if (Plus(now, target.time) > member->deadline) {
      choice.dropped.push_back(member);
      continue;
    }
    rows += member->rows;
    some_late = some_late || Plus(now, smaller.time + target.time) > member->deadline;
    choice.batch.push_back(member);
  }
  if (rows != target.rows || !some_late) return {};
  return choice;
}

// When the batch goes even if no request comes: when the oldest request has waited long enough, or
// in time for the earliest deadline.
TimePoint BatchQueue::GoesAt(const std::vector<Members::iterator>& batch, std::int64_t rows,
                             const TimeOf& time_of) const {
  TimePoint came = batch.front()->came, deadline = kNoDeadline;
  for (const auto& member : batch) {
    came = std::min(came, member->came);
    deadline = std::min(deadline, member->deadline);
  }
  const TimePoint at = Plus(came, settings_.max_delay);
  if (deadline == kNoDeadline) return at;
  const Nanoseconds time = time_of(*batch.front(), rows).value_or(Nanoseconds(0));
  return std::min(at, deadline - WithMargin(time));
}

BatchQueue::Taken BatchQueue::TakeBatch(TimePoint now, const TimeOf& time_of) {
  if (members_.empty()) return {};
  bool full = false;
  std::vector<Members::iterator> batch = Candidates(full);
  std::size_t count = Preferred(batch);
  if (count == 0) count = WithinPreferred(batch);
  if (count == 0) {
    std::int64_t rows = 0;
    for (const auto& member : batch) rows += member->rows;
    if (!full && GoesAt(batch, rows, time_of) > now) return {};
    count = batch.size();
  }
  batch.resize(count);
  const std::size_t small = Runnable(batch, now, time_of);
  Choice choice;
  if (small < count) choice = Fuller(batch, small, now, time_of);
  if (choice.batch.empty()) choice.batch.assign(batch.begin(), batch.begin() + small);
  Taken taken;  // where memory runs out, no request is lost
  taken.batch.reserve(choice.batch.size());
  taken.dropped.reserve(choice.dropped.size());
  for (const auto member : choice.batch) TakeOut(member, taken.batch);
  for (const auto member : choice.dropped) TakeOut(member, taken.dropped);
  LearnArrivals(now);
  return taken;
}

BatchQueue::Expired BatchQueue::TakeExpired(TimePoint now, const TimeOf& time_of) {
  // Everything that may throw comes before the first request is taken out, so that none is lost.
  std::vector<Members::iterator> late, timed_out, delayed, given_up;
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    if (IsLate(*member, now, time_of)) {
      late.push_back(member);
    } else if (member->gives_up <= now) {
      given_up.push_back(member);
    } else if (member->leaves <= now) {
      const bool delay = settings_.PolicyOf(member->level).delay_late;
      (delay ? delayed : timed_out).push_back(member);
    }
  }
  Expired expired;
  expired.deadline.reserve(late.size());
  expired.queue_timeout.reserve(timed_out.size());
  expired.given_up.reserve(given_up.size());
  for (const auto member : late) TakeOut(member, expired.deadline);
  for (const auto member : timed_out) TakeOut(member, expired.queue_timeout);
  for (const auto member : given_up) TakeOut(member, expired.given_up);
  for (const auto member : delayed) {
    member->late = true;
    member->leaves = kNoDeadline;
    members_.splice(members_.end(), members_, member);
  }
  return expired;
}

std::optional<BatchMember> BatchQueue::TakeFirst(
    const std::function<bool(const BatchMember&)>& which) {
  const auto found = std::ranges::find_if(members_, which);
  if (found == members_.end()) return std::nullopt;
  std::optional<BatchMember> taken = std::move(*found);
  members_.erase(found);
  return taken;
}

/// `taken` has room.
void BatchQueue::TakeOut(Members::iterator member, std::vector<BatchMember>& taken) {
  taken.push_back(std::move(*member));
  members_.erase(member);
}

TimePoint BatchQueue::NextTime(bool may_go, const TimeOf& time_of) {
  TimePoint next = kNoDeadline;
  for (const BatchMember& member : members_) {
    next = std::min({next, member.leaves, member.gives_up});
    if (member.deadline == kNoDeadline) continue;
    const Nanoseconds time = time_of(member, member.rows).value_or(Nanoseconds(0));
    next = std::min(next, member.deadline - time + Nanoseconds(time > Nanoseconds(0) ? 1 : 0));
  }
  if (!may_go || members_.empty()) return next;
  bool full = false;
  const std::vector<Members::iterator> batch = Candidates(full);
  std::int64_t rows = 0;
  for (const auto& member : batch) rows += member->rows;
  return std::min(next, GoesAt(batch, rows, time_of));
}

}  // namespace lagoon

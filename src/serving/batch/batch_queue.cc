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

}  // namespace

void BatchQueue::Add(BatchMember member) {
  const auto behind = std::ranges::find_if(
      members_, [&](const BatchMember& other) { return other.late || other.level > member.level; });
  members_.insert(behind, std::move(member));
}

Nanoseconds BatchQueue::TimeWith(const BatchMember& member, const TimeOf& time_of) const {
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
  return rows / most_rows_ * time(most_rows_) + time(rows % most_rows_);
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

// How many of the first `count` requests can run together now, so that the oldest one meets its
// deadline. At least one.
std::size_t BatchQueue::Runnable(const std::vector<Members::iterator>& batch, std::size_t count,
                                 TimePoint now, const TimeOf& time_of) const {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) rows += batch[i]->rows;
  for (; count > 1; rows -= batch[--count]->rows) {
    const std::optional<Nanoseconds> time = time_of(*batch.front(), rows);
    if (time && Plus(now, *time) <= batch.front()->deadline) break;
  }
  return count;
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

std::vector<BatchMember> BatchQueue::TakeBatch(TimePoint now, const TimeOf& time_of) {
  if (members_.empty()) return {};
  bool full = false;
  const std::vector<Members::iterator> batch = Candidates(full);
  std::size_t count = Preferred(batch);
  if (count == 0) count = WithinPreferred(batch);
  if (count == 0) {
    std::int64_t rows = 0;
    for (const auto& member : batch) rows += member->rows;
    if (!full && GoesAt(batch, rows, time_of) > now) return {};
    count = batch.size();
  }
  count = Runnable(batch, count, now, time_of);
  std::vector<BatchMember> taken;
  taken.reserve(count);  // where memory runs out, no request is lost
  for (std::size_t i = 0; i < count; ++i) TakeOut(batch[i], taken);
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

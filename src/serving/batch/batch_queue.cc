#include "serving/batch/batch_queue.h"

#include <algorithm>
#include <utility>

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
    return of == 0 ? Nanoseconds(0) : time_of(member, of).value_or(alone * of / member.rows);
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
  if (count == 0) {
    std::int64_t rows = 0;
    for (const auto& member : batch) rows += member->rows;
    if (!full && GoesAt(batch, rows, time_of) > now) return {};
    count = batch.size();
  }
  count = Runnable(batch, count, now, time_of);
  std::vector<BatchMember> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(std::move(*batch[i]));
    members_.erase(batch[i]);
  }
  return taken;
}

BatchQueue::Expired BatchQueue::TakeExpired(TimePoint now, const TimeOf& time_of) {
  Expired expired;
  Members delayed;
  for (auto member = members_.begin(); member != members_.end();) {
    const auto next = std::next(member);
    if (IsLate(*member, now, time_of)) {
      expired.deadline.push_back(std::move(*member));
      members_.erase(member);
    } else if (member->leaves <= now && !settings_.PolicyOf(member->level).delay_late) {
      expired.queue_timeout.push_back(std::move(*member));
      members_.erase(member);
    } else if (member->leaves <= now) {
      member->late = true;
      member->leaves = kNoDeadline;
      delayed.splice(delayed.end(), members_, member);
    }
    member = next;
  }
  members_.splice(members_.end(), delayed);
  return expired;
}

std::vector<BatchMember> BatchQueue::Take(const std::function<bool(const BatchMember&)>& which) {
  std::vector<BatchMember> taken;
  for (auto member = members_.begin(); member != members_.end();) {
    const auto next = std::next(member);
    if (which(*member)) {
      taken.push_back(std::move(*member));
      members_.erase(member);
    }
    member = next;
  }
  return taken;
}

TimePoint BatchQueue::NextTime(bool may_go, const TimeOf& time_of) {
  TimePoint next = kNoDeadline;
  for (const BatchMember& member : members_) {
    next = std::min(next, member.leaves);
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

#include "server/edge/inflate_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "base/compress/inflate.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/time.h"

namespace lagoon {
namespace {

constexpr std::uint64_t kSlicesPerLarge = 4;

}  // namespace

struct InflateQueue::Job {
  explicit Job(Work of)
      : work(std::move(of)),
        most(std::min(work.most, kMostInflatedBytes)),
        rest(work.input.body->data(), work.input.bytes) {}

  Result<bool> Step();
  void End(Result<Message> result);

  Work work;
  const std::size_t most;
  std::span<const std::byte> rest;  // of the input
  std::size_t used = 0;             // of the output
  Inflater inflater;
};

/// Inflates a slice. True: all is inflated.
Result<bool> InflateQueue::Job::Step() {
  RequestBody& output = *work.output;
  // Doubling copies each byte about once. One byte more than may come shows what is too long.
  const std::size_t room = std::min(std::max(2 * used, kSlice), most + 1);
  const bool full = used == output.capacity();
  const std::size_t piece = std::min(kSlice, (full ? room : output.capacity()) - used);
  // Held: nothing revokes it while it is written.
  if (!output.charge().Hold(used + piece + work.beside, Now()) ||
      (full && !output.Reserve(room, used))) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("no room to inflate {}: requests and answers in progress take it; send "
                            "it as it is, or try again later",
                            work.name));
  }
  const Inflater::Step step = inflater.Next(rest, true, {output.data() + used, piece});
  used += step.written;
  if (step.state == Inflater::State::kBad) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot be inflated: it is damaged, or not compressed as its header "
                            "says",
                            work.name));
  }
  if (used > most) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} has more than {} bytes when it is inflated, the limit; send it as "
                            "it is",
                            work.name, most));
  }
  return step.state == Inflater::State::kDone;
}

void InflateQueue::Job::End(Result<Message> result) {
  work.input = {};
  work.output.reset();
  try {
    work.done(std::move(result));
  } catch (const std::exception& error) {  // the others are inflated all the same
    spdlog::error("server: {} was dropped: {}", work.name, error.what());
  }
}

InflateQueue::InflateQueue(IoPool& pool) : strand_(pool.one_by_one()) {}

InflateQueue::~InflateQueue() = default;

void InflateQueue::Post(Work work) {
  Jobs job;
  job.push_back(std::make_unique<Job>(std::move(work)));
  {
    const MutexLock lock(mutex_);
    jobs_[0].splice(jobs_[0].end(), job);
    if (std::exchange(running_, true)) return;
  }
  RunSoon();
}

/// The strand's other work gets its turns between two slices.
void InflateQueue::RunSoon() {
  UntilMemorySuffices(
      [this] { PostSurely(strand_, [self = shared_from_this()] { self->Run(); }); });
}

InflateQueue::Jobs InflateQueue::TakeNext() {
  const auto has_some = [](const Jobs& jobs) { return !jobs.empty(); };
  const bool largest = ++slices_ % kSlicesPerLarge == 0;
  Jobs& from = largest ? *std::find_if(jobs_.rbegin(), jobs_.rend(), has_some)
                       : *std::ranges::find_if(jobs_, has_some);
  Jobs job;
  job.splice(job.end(), from, from.begin());
  return job;
}

/// Before the others of its size, unless the job has grown to that size now: one after the other
/// becomes large.
void InflateQueue::PutBack(Jobs& job) {
  const std::size_t used = job.front()->used;
  const std::size_t before = used - std::min(used, kSlice);
  const auto size_of = [](std::size_t bytes) {
    return std::size_t{bytes >= kSlice} + std::size_t{bytes >= kMedium};
  };
  Jobs& to = jobs_[size_of(used)];
  to.splice(size_of(before) == size_of(used) ? to.begin() : to.end(), job);
}

void InflateQueue::Run() {
  Jobs taken;
  {
    const MutexLock lock(mutex_);
    taken = TakeNext();
  }
  Job& job = *taken.front();
  std::optional<Result<Message>> result;
  bool ended = job.work.wanted.expired();
  if (!ended) {
    const Result<bool> step = WithoutExceptions([&] { return job.Step(); });
    if (!step) result = tl::unexpected<Error>(step.error());
    if (step && *step) result = Message{job.work.output, job.used};
    ended = result.has_value();
  }
  if (result) job.End(*std::move(result));
  if (ended) taken.clear();
  {
    const MutexLock lock(mutex_);
    if (!ended) PutBack(taken);
    const auto is_empty = [](const Jobs& jobs) { return jobs.empty(); };
    if (std::ranges::all_of(jobs_, is_empty)) {
      running_ = false;
      return;
    }
  }
  RunSoon();
}

}  // namespace lagoon

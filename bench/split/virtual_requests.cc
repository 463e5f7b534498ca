#include "bench/split/virtual_requests.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon::bench {
namespace {

// Virtual time after which a request that has not ended is a bug of the dispatcher.
constexpr Nanoseconds kDead = std::chrono::hours(24);

}  // namespace

VirtualRequests::VirtualRequests(SimStage& stage, std::span<const SplitArrival> arrivals,
                                 std::span<const Nanoseconds> limits)
    : stage_(stage), arrivals_(arrivals), limits_(limits), answers_(stage.queues().size()) {}

SplitAnswers VirtualRequests::Run() {
  SimDevice& device = stage_.device();
  begin_ = device.Now();
  const TimePoint dead = begin_ + (arrivals_.empty() ? kDead : arrivals_.back().at + kDead);
  for (std::size_t next = 0;;) {
    // Posting takes host time, in which more arrivals may become due.
    while (next < arrivals_.size() && begin_ + arrivals_[next].at <= device.Now()) {
      Post(arrivals_[next++]);
    }
    if (running_ == 0 && next == arrivals_.size()) return std::move(answers_);
    device.Wait(next < arrivals_.size() ? begin_ + arrivals_[next].at : dead);
    LAGOON_CHECK(device.Now() < dead);
  }
}

void VirtualRequests::Post(const SplitArrival& arrival) {
  Request& request = requests_.emplace_back();
  request.owner = this;
  request.model = arrival.model;
  request.from = begin_ + arrival.at;
  ++running_;
  const TimePoint deadline = limits_.empty() ? kNoDeadline : request.from + limits_[arrival.model];
  const QueueId queue = *stage_.queues()[arrival.model];
  // The queue's bound is above the number of requests of a trial.
  LAGOON_CHECK(stage_.dispatcher().Post({queue, deadline, {}, {}, &request}).has_value());
}

void VirtualRequests::Ended(const Request& request, const JobResult& result) {
  --running_;
  ModelAnswers& answers = answers_[request.model];
  if (result.outcome == Outcome::kDone) {
    answers.latencies_ms.push_back(ToMilliseconds(result.finished - request.from));
  } else {
    ++answers.refused;
  }
}

}  // namespace lagoon::bench

#include "bench/client/clients.h"

#include <sys/prctl.h>

#include <algorithm>
#include <limits>

namespace lagoon::bench {

void OpenLoopClient::Request::Finished(const JobResult& result) {
  if (result.outcome == Outcome::kDone) {
    sample.latency_ms = ToMilliseconds(result.finished - from);
    sample.from_arrival_ms = ToMilliseconds(result.finished - intended);
    sample.preemption_us = ToMicroseconds(result.first_block - result.posted);
    sample.finished = result.finished;
  }
  if (owner->left_.fetch_sub(1) == 1) owner->left_.notify_all();
}

void OpenLoopClient::Post(Request& request) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  request.owner = this;
  request.sample = {kNever, kNever, kNever, TimePoint::max()};
  const JobSpec spec{queue_, kNoDeadline, model_.inputs(), model_.outputs(), &request};
  if (!dispatcher_.Post(spec) && left_.fetch_sub(1) == 1) left_.notify_all();
}

void OpenLoopClient::WaitForAll() {
  for (std::uint32_t left; (left = left_.load()) != 0;) left_.wait(left);
}

std::vector<Sample> OpenLoopClient::Run(std::span<const TimePoint> arrivals) {
  std::vector<Request> requests(arrivals.size());
  left_.store(static_cast<std::uint32_t>(arrivals.size()));
  std::jthread producer([&] {
    prctl(PR_SET_TIMERSLACK, 1);  // in ns; the default adds 50 us to every sleep
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      requests[i].intended = requests[i].from = arrivals[i];
      std::this_thread::sleep_until(arrivals[i]);
      Post(requests[i]);
    }
  });
  producer.join();
  WaitForAll();
  std::vector<Sample> samples;
  for (const Request& request : requests) samples.push_back(request.sample);
  return samples;
}

std::vector<Sample> OpenLoopClient::RunNewest(std::span<const TimePoint> arrivals) {
  std::vector<Sample> samples;
  std::jthread producer([&] {
    prctl(PR_SET_TIMERSLACK, 1);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      std::this_thread::sleep_until(arrivals[i]);
      while (i + 1 < arrivals.size() && arrivals[i + 1] <= Now()) ++i;
      Request request;
      request.intended = arrivals[i];
      request.from = Now();
      left_.store(1);
      Post(request);
      WaitForAll();
      samples.push_back(request.sample);
    }
  });
  producer.join();
  return samples;
}

void ClosedLoopClient::Start() {
  completions_.clear();
  completions_.reserve(1 << 16);
  latencies_ms_.clear();
  latencies_ms_.reserve(1 << 16);
  stopping_.store(false);
  running_.store(true);
  Post();
}

std::vector<TimePoint> ClosedLoopClient::Stop() {
  stopping_.store(true);
  running_.wait(true);
  return std::move(completions_);
}

void ClosedLoopClient::Post() {
  const JobSpec spec{queue_, kNoDeadline, model_.inputs(), model_.outputs(), this};
  posted_ = Now();
  if (!dispatcher_.Post(spec)) {
    running_.store(false);
    running_.notify_all();
  }
}

void ClosedLoopClient::Finished(const JobResult& result) {
  completions_.push_back(result.finished);
  latencies_ms_.push_back(ToMilliseconds(result.finished - posted_));
  if (result.outcome == Outcome::kDone && !stopping_.load()) return Post();
  running_.store(false);
  running_.notify_all();
}

double Throughput(std::span<const TimePoint> completions, TimePoint begin, TimePoint end) {
  const auto first = std::lower_bound(completions.begin(), completions.end(), begin);
  const auto last = std::lower_bound(first, completions.end(), end);
  const auto count = last - first;
  if (count < 2) return 0;
  const std::chrono::duration<double> span = *(last - 1) - *first;
  return static_cast<double>(count - 1) / span.count();
}

}  // namespace lagoon::bench

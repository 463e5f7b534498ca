#include "bench/split/mixed_client.h"

#include <sys/prctl.h>

#include <thread>

namespace lagoon::bench {

void MixedClient::Request::Finished(const JobResult& result) {
  if (result.outcome == Outcome::kDone) latency_ms = ToMilliseconds(result.finished - from);
  owner->CountEnd();
}

void MixedClient::CountEnd() {
  if (left_.fetch_sub(1) == 1) left_.notify_all();
}

void MixedClient::Post(const SplitArrival& arrival, Request& request) {
  const BoundModel& model = *models_[arrival.model];
  const TimePoint deadline = limits_.empty() ? kNoDeadline : request.from + limits_[arrival.model];
  const JobSpec spec{queues_[arrival.model], deadline, model.inputs(), model.outputs(), &request};
  if (!dispatcher_.Post(spec)) CountEnd();
}

SplitAnswers MixedClient::Run(TimePoint begin, std::span<const SplitArrival> arrivals) {
  std::vector<Request> requests(arrivals.size());
  left_.store(static_cast<std::uint32_t>(arrivals.size()));
  {
    const std::jthread producer([&] {
      prctl(PR_SET_TIMERSLACK, 1);  // in ns; the default adds 50 us to every sleep
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        requests[i].owner = this;
        requests[i].from = begin + arrivals[i].at;
        std::this_thread::sleep_until(requests[i].from);
        Post(arrivals[i], requests[i]);
      }
    });
  }
  for (std::uint32_t left; (left = left_.load()) != 0;) left_.wait(left);
  SplitAnswers answers(models_.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    ModelAnswers& model = answers[arrivals[i].model];
    if (requests[i].latency_ms) {
      model.latencies_ms.push_back(*requests[i].latency_ms);
    } else {
      ++model.refused;
    }
  }
  return answers;
}

}  // namespace lagoon::bench

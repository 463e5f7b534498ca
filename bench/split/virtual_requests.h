#pragma once

#include <deque>
#include <span>
#include <vector>

#include "bench/sim/sim_stage.h"
#include "bench/split/answers.h"
#include "bench/split/scenario.h"

namespace lagoon::bench {

/// Posts the arrivals of one trial to a stage, in virtual time. One thread, one run.
class VirtualRequests {
 public:
  /// `limits`: how long after its arrival a request of each model is answered or given up; empty:
  /// no deadline. The stage has a queue for each model. Borrows all arguments.
  VirtualRequests(SimStage& stage, std::span<const SplitArrival> arrivals,
                  std::span<const Nanoseconds> limits);

  /// Returns when all requests have ended.
  SplitAnswers Run();

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override { owner->Ended(*this, result); }
    VirtualRequests* owner = nullptr;
    std::size_t model = 0;
    TimePoint from;
  };

  void Post(const SplitArrival& arrival);
  void Ended(const Request& request, const JobResult& result);

  SimStage& stage_;
  const std::span<const SplitArrival> arrivals_;
  const std::span<const Nanoseconds> limits_;
  TimePoint begin_;
  std::size_t running_ = 0;
  std::deque<Request> requests_;  // a deque, as addresses must not change
  SplitAnswers answers_;
};

}  // namespace lagoon::bench

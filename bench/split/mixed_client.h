#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/client/bound_model.h"
#include "bench/split/answers.h"
#include "bench/split/scenario.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {

/// Posts requests of several models to a dispatcher on a real device at intended times, from a
/// thread that only sleeps and posts.
class MixedClient {
 public:
  /// `queues`: by model, as `models`. `limits`: how long after its intended arrival a request of
  /// each model is answered or given up; empty: no deadline. Borrows all arguments.
  MixedClient(Dispatcher& dispatcher, std::span<const QueueId> queues,
              std::span<const std::unique_ptr<BoundModel>> models,
              std::span<const Nanoseconds> limits)
      : dispatcher_(dispatcher), queues_(queues), models_(models), limits_(limits) {}

  /// Returns when all requests have ended. Latencies count from `begin` plus the arrival.
  SplitAnswers Run(TimePoint begin, std::span<const SplitArrival> arrivals);

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override;
    MixedClient* owner = nullptr;
    TimePoint from;
    std::optional<double> latency_ms;  // empty: no answer
  };

  void Post(const SplitArrival& arrival, Request& request);
  void CountEnd();

  Dispatcher& dispatcher_;
  const std::span<const QueueId> queues_;
  const std::span<const std::unique_ptr<BoundModel>> models_;
  const std::span<const Nanoseconds> limits_;
  std::atomic<std::uint32_t> left_{0};
};

}  // namespace lagoon::bench

#pragma once

#include <atomic>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "bench/client/bound_model.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {

/// One finished real-time request.
struct Sample {
  double latency_ms = 0;       // from the intended arrival; RunNewest(): from the post
  double from_arrival_ms = 0;  // from the intended arrival
  double preemption_us = 0;    // Post() to the first block
  TimePoint finished;
};

/// Posts a model's requests at intended times, from a thread of its own that only sleeps and posts.
class OpenLoopClient {
 public:
  OpenLoopClient(Dispatcher& dispatcher, QueueId queue, BoundModel& model)
      : dispatcher_(dispatcher), queue_(queue), model_(model) {}

  /// Returns when every request has finished. A refused or failed request counts as infinitely
  /// late.
  std::vector<Sample> Run(std::span<const TimePoint> arrivals);
  /// The same as DISB's client does (DisbLoad::Late::kNewest): one request at a time. The others
  /// that were due meanwhile, except for the newest one, are dropped and have no sample.
  std::vector<Sample> RunNewest(std::span<const TimePoint> arrivals);

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override;
    OpenLoopClient* owner = nullptr;
    TimePoint intended, from;  // the arrival; where the latency begins
    Sample sample;
  };

  void Post(Request& request);
  void WaitForAll();

  Dispatcher& dispatcher_;
  QueueId queue_;
  BoundModel& model_;
  std::atomic<std::uint32_t> left_{0};
};

/// Posts the next request of a model as soon as the last one has finished.
class ClosedLoopClient final : public JobClient {
 public:
  ClosedLoopClient(Dispatcher& dispatcher, QueueId queue, BoundModel& model)
      : dispatcher_(dispatcher), queue_(queue), model_(model) {}

  void Start();
  /// Stops posting, waits for the request in flight, and returns when each request ended.
  std::vector<TimePoint> Stop();
  /// Latency of each request since Start(), from its post to its end. Call it after Stop().
  const std::vector<double>& latencies_ms() const { return latencies_ms_; }

 private:
  void Finished(const JobResult& result) override;
  void Post();

  Dispatcher& dispatcher_;
  QueueId queue_;
  BoundModel& model_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> running_{false};
  TimePoint posted_;
  std::vector<double> latencies_ms_;
  // One writer: the thread that finished the request in flight.
  std::vector<TimePoint> completions_;
};

/// Completions per second within [begin, end), measured from the first to the last completion
/// there, so that requests cut by the window's edges do not count. 0 with fewer than two.
double Throughput(std::span<const TimePoint> completions, TimePoint begin, TimePoint end);

}  // namespace lagoon::bench

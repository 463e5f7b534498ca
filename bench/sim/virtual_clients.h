#pragma once

#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/disb_run.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {

/// The results of a client in one window.
struct VirtualRun {
  /// From the intended arrival. Closed loops, and DisbLoad::Late::kNewest: from the post.
  std::vector<double> latencies_ms;
  std::vector<double> from_arrival_ms;  // kNewest: the same requests, from the intended arrival
  /// The times from there to the first block, of real-time requests that arrived while no other
  /// real-time request was under way.
  std::vector<double> starts_us;
  std::size_t ended = 0;    // requests that ended in the window
  std::size_t dropped = 0;  // kNewest: requests that a newer one took the place of
  double completed = 0;     // throughput of the window, in requests (bench/sim/disb_sim.h)
};

/// All clients of a window, posting to a dispatcher on a device whose time is virtual. One thread.
class VirtualClients {
 public:
  /// `queues`: by client; a client without a queue sends nothing. Borrows all arguments.
  VirtualClients(Device& device, Dispatcher& dispatcher, const std::vector<DisbClient>& clients,
                 const std::vector<std::optional<QueueId>>& queues);

  /// Closed loops start at once, the window begins after `settle`. Returns when all requests have
  /// ended: the results by client.
  std::vector<VirtualRun> Run(const DisbWindow& window, Nanoseconds settle);

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override { owner->Ended(*this, result); }
    VirtualClients* owner = nullptr;
    std::size_t client = 0;
    TimePoint intended, from;  // the arrival; where the latency begins
    bool first = false;        // a real-time request, posted while no other one was under way
  };
  struct Arrival {
    TimePoint at;
    std::size_t client;
  };

  // A client of an open loop that has one request under way at most (DisbLoad::Late::kNewest).
  struct OneAtATime {
    bool busy = false;
    std::optional<TimePoint> due;  // the newest arrival while it was busy
  };

  void PlanArrivals(const DisbWindow& window);
  void PostDue();
  void Arrive(const Arrival& arrival);
  void Post(std::size_t client, TimePoint intended, TimePoint from);
  void Ended(const Request& request, const JobResult& result);
  void EndedOpen(const Request& request, TimePoint at);
  void CountThroughput();
  bool TakesNewest(std::size_t client) const {
    return clients_[client].load.late == DisbLoad::Late::kNewest;
  }
  bool MayLoop() const;
  TimePoint NextArrival() const {
    return next_ < arrivals_.size() ? arrivals_[next_].at : kNoDeadline;
  }

  Device& device_;
  Dispatcher& dispatcher_;
  const std::vector<DisbClient>& clients_;
  const std::vector<std::optional<QueueId>>& queues_;
  TimePoint begin_, end_, last_call_;
  std::vector<Arrival> arrivals_;  // of open loops, ascending
  std::size_t next_ = 0;
  std::size_t open_left_ = 0;              // requests of open loops that have not ended
  std::size_t running_ = 0;                // posted requests that have not ended
  std::size_t real_time_ = 0;              // real-time requests among these
  std::vector<std::size_t> again_;         // clients in closed loops that are to post again
  std::vector<OneAtATime> one_at_a_time_;  // by client
  std::deque<Request> requests_;           // a deque, as addresses must not change
  std::vector<VirtualRun> runs_;
};

}  // namespace lagoon::bench

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
  std::vector<double> latencies_ms;  // from the intended arrival; closed loops: from the post
  /// The times from there to the first block, of real-time requests that arrived while no other
  /// real-time request was under way.
  std::vector<double> starts_us;
  double completed = 0;  // requests in the window (DISB on sim: bench/sim/disb_sim.h)
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
    TimePoint from;
    bool first = false;  // a real-time request, posted while no other one was under way
  };
  struct Arrival {
    TimePoint at;
    std::size_t client;
  };

  void PlanArrivals(const DisbWindow& window);
  void PostDue();
  void Post(std::size_t client, TimePoint from);
  void Ended(const Request& request, const JobResult& result);
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
  std::size_t open_left_ = 0;       // requests of open loops that have not ended
  std::size_t running_ = 0;         // posted requests that have not ended
  std::size_t real_time_ = 0;       // real-time requests among these
  std::vector<std::size_t> again_;  // clients in closed loops that are to post again
  std::deque<Request> requests_;    // a deque, as addresses must not change
  std::vector<VirtualRun> runs_;
};

}  // namespace lagoon::bench

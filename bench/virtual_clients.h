#pragma once

#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/disb_run.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {

/// What a client saw in one window.
struct VirtualRun {
  std::vector<double> latencies_ms;  // from the intended arrival; closed loops: from the post
  /// The same to the first block, of real-time requests that met no other one.
  std::vector<double> starts_us;
  double completed = 0;  // in the window
};

/// All clients of a window, posting to a dispatcher on a device whose time is virtual. One thread.
class VirtualClients {
 public:
  /// `queues`: one a client; nothing: it sends nothing. All borrowed.
  VirtualClients(Device& device, Dispatcher& dispatcher, const std::vector<DisbClient>& clients,
                 const std::vector<std::optional<QueueId>>& queues);

  /// Closed loops start now, the window after `settle`. Returns by client, when all requests have
  /// ended.
  std::vector<VirtualRun> Run(const DisbWindow& window, Nanoseconds settle);

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override { owner->Ended(*this, result); }
    VirtualClients* owner = nullptr;
    std::size_t client = 0;
    TimePoint from;
    bool first = false;  // real-time, and no other one was under way
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
  std::size_t running_ = 0;         // requests of all
  std::size_t real_time_ = 0;       // of those, real-time ones
  std::vector<std::size_t> again_;  // closed loops whose request has ended
  std::deque<Request> requests_;    // addresses stay
  std::vector<VirtualRun> runs_;
};

}  // namespace lagoon::bench

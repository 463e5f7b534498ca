#pragma once

#include <algorithm>
#include <vector>

#include "sched/policy.h"

namespace lagoon {

/// Clients, which are queues, take turns of the whole device, in round robin. A turn lasts for
/// PolicyConfig::quantum, during which the client's jobs run one after the other; 0: for one job.
/// Nothing of other clients fills what the client of the turn leaves idle. A client without a job
/// ends its turn. What the device already has when a turn ends still runs first: up to
/// SchedulerConfig::depth kernels.
///
/// This is how processes share a GPU without MPS. Weakness: one job on the device at a time, so
/// that most units idle. Cost: O(k) for k clients.
class TimeSlicePolicy final : public Policy {
 public:
  explicit TimeSlicePolicy(const PolicyConfig& config) : quantum_(config.quantum) {}

  Decision Pick(const SchedulingView& view) override {
    const bool over = view.now >= ends_;
    if (job_ == nullptr && !over) job_ = view.ready.OldestOf(client_);
    if (job_ == nullptr || over) BeginTurn(view);
    if (job_ == nullptr || !view.ready.IsReady(*job_)) return Decision::Wait();
    return Decision::Run(*job_);
  }

  void OnArrival(const ScheduledJob& job) override {
    const bool known = std::ranges::find(turns_, job.queue_id, &Turn::client) != turns_.end();
    if (!known) turns_.push_back({job.queue_id, 0});
  }
  void OnFinished(const ScheduledJob& job) override {
    if (job_ != &job) return;
    job_ = nullptr;
    if (quantum_ == Nanoseconds(0)) ends_ = TimePoint{};
  }

 private:
  struct Turn {
    QueueId client{};
    std::uint64_t number = 0;  // of the client's last turn; 0: it had none
  };

  // The client whose last turn is longest ago. None is ready: the turn goes on.
  void BeginTurn(const SchedulingView& view) {
    Turn* next = nullptr;
    for (Turn& turn : turns_) {
      if (view.ready.OldestOf(turn.client) == nullptr) continue;
      if (next == nullptr || turn.number < next->number) next = &turn;
    }
    if (next == nullptr) return;
    next->number = ++last_number_;
    client_ = next->client;
    job_ = view.ready.OldestOf(client_);
    ends_ = quantum_ == Nanoseconds(0) ? kNoDeadline : view.now + quantum_;
  }

  const Nanoseconds quantum_;
  std::vector<Turn> turns_;
  std::uint64_t last_number_ = 0;
  QueueId client_{};                   // of the turn
  const ScheduledJob* job_ = nullptr;  // of the client; null: the client's next one
  TimePoint ends_;
};

}  // namespace lagoon

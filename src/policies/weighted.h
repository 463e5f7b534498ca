#pragma once

#include <algorithm>
#include <vector>

#include "sched/policy.h"

namespace lagoon {

/// Each client, which is a queue, gets unit time in proportion to its weight, while it has work. A
/// client has a virtual time: the unit time of its kernels so far, divided by its weight. The
/// client with the smallest virtual time submits next, and the device runs the kernel with the
/// smallest virtual time at submission first, also between the blocks of others. Units never idle
/// while a client has work. A client without work saves up nothing: when it has work again, its
/// virtual time is at least the smallest one of the others, which counts what these have submitted
/// (SchedulerConfig::depth kernels of a job).
///
/// Source: start-time fair queueing (Goyal et al., SIGCOMM 1996). The weights hold among the jobs
/// of a class; on the device, real-time kernels go before best-effort ones. They need a depth of at
/// least 2, so that a client's next kernel is on the device when one ends. Weakness: block times
/// come from the profile; a client with wrong ones gets more or less than its share. Cost: O(k) for
/// k clients.
class WeightedPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    Client* next = nullptr;
    const ScheduledJob* job = nullptr;
    for (Client& client : clients_) {
      if (next != nullptr && client.time >= next->time) continue;
      const ScheduledJob* oldest = view.ready.OldestOf(client.id);
      if (oldest == nullptr) continue;
      next = &client;
      job = oldest;
    }
    if (next == nullptr) return Decision::Wait();
    return Decision::Run(*job, 1, static_cast<std::uint64_t>(next->time));
  }

  void OnArrival(const ScheduledJob& job) override {
    Client& client = ClientOf(job);
    Advance();
    if (client.jobs++ == 0) client.time = std::max(client.time, now_);
  }
  void OnSubmitted(const ScheduledJob& job, std::uint32_t /*kernels*/) override {
    ClientOf(job).time += static_cast<double>(job.unit_time.count()) / job.weight;
  }
  void OnFinished(const ScheduledJob& job) override {
    Advance();
    --ClientOf(job).jobs;
  }

 private:
  struct Client {
    QueueId id{};
    std::uint32_t jobs = 0;  // number of unfinished jobs
    double time = 0;         // virtual, in ns of unit time for a weight of 1
  };

  // The virtual time of the device is the smallest one of clients with work, and never goes back.
  void Advance() {
    double least = -1;
    for (const Client& client : clients_) {
      if (client.jobs > 0 && (least < 0 || client.time < least)) least = client.time;
    }
    now_ = std::max(now_, least);
  }
  Client& ClientOf(const ScheduledJob& job) {
    const auto found = std::ranges::find(clients_, job.queue_id, &Client::id);
    return found != clients_.end() ? *found : clients_.emplace_back(Client{job.queue_id});
  }

  std::vector<Client> clients_;
  double now_ = 0;
};

}  // namespace lagoon

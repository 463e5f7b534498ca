#pragma once

// Clients of a model on a simulated device that send their next request when the last one is
// answered.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sched/testing/sim_scenario.h"

namespace lagoon::testing {

/// Clients of one model, a task. It must be stopped, and its last requests be answered, before its
/// dispatcher ends.
class ClosedLoop {
 public:
  ClosedLoop(Device& device, Dispatcher& dispatcher, const SimTask& task, std::size_t clients,
             std::uint32_t tenant = 0)
      : instance_(*Instance::Create(PlanOf(task, device), device)),
        dispatcher_(dispatcher),
        tenant_(tenant) {
    QueueOptions options;
    options.name = task.name;
    options.job_class = task.job_class;
    options.instances = {instance_.get()};
    queue_ = *dispatcher.AddQueue(options);
    clients_ = std::vector<Client>(clients);
    for (Client& client : clients_) {
      client.loop = this;
      client.Send();
    }
  }
  void Stop() { stopped_ = true; }
  int answers() const { return answers_; }
  Nanoseconds longest() const { return longest_; }  // time of a request

 private:
  struct Client final : JobClient {
    void Finished(const JobResult& result) override {
      ++loop->answers_;
      loop->longest_ = std::max(loop->longest_, result.finished - result.posted);
      if (!loop->stopped_) Send();
    }
    void Send() {
      JobSpec spec{loop->queue_, kNoDeadline, request.inputs, request.outputs, this};
      spec.tenant = loop->tenant_;
      EXPECT_TRUE(loop->dispatcher_.Post(spec));
    }
    ClosedLoop* loop = nullptr;
    Request request;  // its tensors
  };

  std::unique_ptr<Instance> instance_;
  Dispatcher& dispatcher_;
  const std::uint32_t tenant_;
  QueueId queue_{};
  std::vector<Client> clients_;
  int answers_ = 0;
  Nanoseconds longest_{0};
  bool stopped_ = false;
};

}  // namespace lagoon::testing

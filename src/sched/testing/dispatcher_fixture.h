#pragma once

// A dispatcher on a FakeDevice, with queues of small chains and requests that remember how they
// ended.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sched/dispatcher.h"
#include "sched/testing/fake_device.h"

namespace lagoon::testing {

class ClassFirst final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

/// Picks the job that was posted first, but ranks jobs so that the device runs the last one first.
class LastFirstOnTheDevice final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* job = view.ready.RealTimeFirst();
    if (job == nullptr) return Decision::Wait();
    return Decision::Run(*job, ~0u, Decision::kLastRank - Raw(job->id));
  }
};

struct Request final : JobClient {
  void Finished(const JobResult& result_in) override {
    ++finished;
    result = result_in;
    if (order != nullptr) order->push_back(name);
  }
  void AlmostFinished() override { ++almost; }
  float x[4] = {1, 2, 3, 4};
  float y[4] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};
  int finished = 0, almost = 0;
  JobResult result;
  std::string name;
  std::vector<std::string>* order = nullptr;
};

class DispatcherFixture : public ::testing::Test {
 protected:
  void TearDown() override {
    if (dispatcher_ != nullptr) device_->RunAll();
  }
  void Use(const SchedulerConfig& config, std::uint32_t max_launches = 64,
           FakeDevice::Time time = FakeDevice::Time::kVirtual,
           std::unique_ptr<Policy> policy = std::make_unique<ClassFirst>(),
           std::uint32_t units = 1) {
    if (dispatcher_ != nullptr) device_->RunAll();
    dispatcher_.reset();
    instances_.clear();
    device_ = std::make_unique<FakeDevice>(max_launches, time, units);
    dispatcher_ = std::make_unique<Dispatcher>(*device_, config, std::move(policy));
  }

  QueueId AddQueue(JobClass job_class, std::uint32_t ops, std::uint32_t blocks,
                   QueueOptions options = {}) {
    return AddQueue(job_class, ChainPlan(ops, blocks), std::move(options));
  }
  QueueId AddQueue(JobClass job_class, std::shared_ptr<const LoadedPlan> plan,
                   QueueOptions options = {}) {
    instances_.push_back(*Instance::Create(std::move(plan), *device_));
    if (options.name.empty()) options.name = "chain";
    options.job_class = job_class;
    options.instances = {instances_.back().get()};
    return *dispatcher_->AddQueue(options);
  }
  Request& Add() { return requests_.emplace_back(); }
  Result<JobId> Post(QueueId queue, Request& request, TimePoint deadline = kNoDeadline) {
    return dispatcher_->Post({queue, deadline, request.inputs, request.outputs, &request});
  }

  std::deque<Request> requests_;  // outlive the dispatcher, also when a test fails half-way
  std::unique_ptr<FakeDevice> device_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

/// With the scheduler of most tests: real-time work revokes best-effort work.
class DispatcherTest : public DispatcherFixture {
 protected:
  static constexpr SchedulerConfig kReset = {.name = "reset",
                                             .preemption = SchedulerConfig::Preemption::kReset};

  void UseReset(FakeDevice::Time time = FakeDevice::Time::kVirtual) { Use(kReset, 64, time); }
};

}  // namespace lagoon::testing

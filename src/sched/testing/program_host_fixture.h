#pragma once

// A ProgramHost on a CPU device, with a program that the test defines.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "sched/programs/program_host.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {

/// A program made of two functions.
class TestProgram final : public JobProgram {
 public:
  using RunFunction = std::function<JobTask(JobContext&)>;
  using InitFunction = std::function<Status(JobSetup&)>;

  explicit TestProgram(RunFunction run, InitFunction init = {})
      : run_(std::move(run)), init_(std::move(init)) {}
  Status Init(JobSetup& setup) override { return init_ ? init_(setup) : Status(); }
  JobTask Run(JobContext& job) override { return run_(job); }

 private:
  RunFunction run_;
  InitFunction init_;
};

/// A request with one input and one output of four floats. Tests can wait for the end.
class HostedRequest final : public JobClient {
 public:
  void Finished(const JobResult& result) override {
    const std::lock_guard lock(mutex_);
    result_ = result;
    ++finished_;
    changed_.notify_all();
  }
  const JobResult& Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_ > 0; });
    EXPECT_EQ(finished_, 1);
    return result_;
  }
  bool finished() {
    const std::lock_guard lock(mutex_);
    return finished_ > 0;
  }
  /// Waits for a failure of the program and returns its message.
  std::string AwaitMessage() {
    const JobResult& result = Await();
    EXPECT_EQ(result.outcome, Outcome::kFailed);
    return result.error == nullptr ? "" : result.error->message;
  }

  float x[4] = {1, 2, 3, 4};
  float y[4] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  JobResult result_;
  int finished_ = 0;
};

/// Numbers that the kernels of a test write, in the order in which the kernels ran.
class Log {
 public:
  void Add(int entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  }
  std::vector<int> entries() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  std::mutex mutex_;
  std::vector<int> entries_;
};

class ProgramHostFixture : public ::testing::Test {
 protected:
  ProgramHostFixture() {
    CpuDeviceOptions options;
    options.workers = 2;
    device_ = *CreateCpuDevice(options);
    SchedulerConfig config{.name = "test", .preemption = SchedulerConfig::Preemption::kReset};
    dispatcher_ = std::make_unique<Dispatcher>(*device_, config, std::make_unique<ClassFirst>());
    options_.name = "program";
    options_.inputs = {{"x", DataType::kFloat32, {4}}};
    options_.outputs = {{"y", DataType::kFloat32, {4}}};
  }

  void Open(TestProgram::RunFunction run, TestProgram::InitFunction init = {}) {
    Result<std::unique_ptr<ProgramHost>> host = Create(std::move(run), std::move(init));
    ASSERT_TRUE(host) << host.error().message;
    host_ = *std::move(host);
  }
  Result<std::unique_ptr<ProgramHost>> Create(TestProgram::RunFunction run,
                                              TestProgram::InitFunction init = {}) {
    return ProgramHost::Create(options_,
                               std::make_unique<TestProgram>(std::move(run), std::move(init)),
                               *device_, *dispatcher_);
  }
  Result<JobId> Post(HostedRequest& request, TimePoint deadline = kNoDeadline) {
    JobSpec spec;
    spec.deadline = deadline;
    spec.inputs = request.inputs;
    spec.outputs = request.outputs;
    spec.client = &request;
    return host_->Post(spec);
  }

  ProgramHostOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<ProgramHost> host_;  // destroyed first
};

}  // namespace lagoon::testing

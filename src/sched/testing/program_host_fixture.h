#pragma once

// A ProgramHost on a CPU device, with a program that the test defines.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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

struct ScaleArgs {
  const float* x;
  float* y;
  float factor;
};
inline bool ScaleBody(const void* args, std::uint32_t block, BlockContext& /*ctx*/) {
  const auto& a = *static_cast<const ScaleArgs*>(args);
  a.y[block] = a.factor * a.x[block];
  return true;
}

struct NoteArgs {
  Log* log;
  int entry;
};
inline bool NoteBody(const void* args, std::uint32_t /*block*/, BlockContext& /*ctx*/) {
  const auto& a = *static_cast<const NoteArgs*>(args);
  a.log->Add(a.entry);
  return true;
}

/// Runs until its guard is raised. Commits once the gate is open.
struct GateArgs {
  const std::atomic<bool>* open;
};
inline bool GateBody(const void* args, std::uint32_t /*block*/, BlockContext& ctx) {
  const auto& a = *static_cast<const GateArgs*>(args);
  while (!a.open->load()) {
    if (ctx.ShouldLeave()) return false;
    std::this_thread::yield();
  }
  return true;
}

/// With kernels that a program loads by LoadKernels().
class ProgramHostTest : public ProgramHostFixture {
 protected:
  ~ProgramHostTest() override { open_ = true; }

  TestProgram::InitFunction LoadKernels() {
    return [this](JobSetup& setup) -> Status {
      LAGOON_ASSIGN_OR_RETURN(scale_, setup.LoadKernel("scale", ScaleBody, {}));
      LAGOON_ASSIGN_OR_RETURN(note_, setup.LoadKernel("note", NoteBody, {}));
      LAGOON_ASSIGN_OR_RETURN(gate_, setup.LoadKernel("gate", GateBody, {}));
      return {};
    };
  }

  KernelHandle scale_{}, note_{}, gate_{};
  Log log_;
  std::atomic<bool> open_{false};
};

}  // namespace lagoon::testing

// The launch path of every named scheduler does not allocate: from a job's admission to its end.

#include "base/testing/allocations.h"

#ifdef LAGOON_COUNTS_ALLOCATIONS

#include <gtest/gtest.h>

#include <array>

#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using testing::ChainPlan;
using testing::Request;

// Two best-effort clients, and a real-time client that posts while they work.
class LaunchPath {
 public:
  explicit LaunchPath(std::string_view name) : device_(*CreateSimDevice("mi50")) {
    const BlockDemand demand{.time = microseconds(50), .threads = 256};
    LAGOON_CHECK(*device_->Load({"kernel", nullptr}, {0, demand}) == KernelHandle{});
    Scheduler scheduler = *MakeScheduler(name);
    dispatcher_ =
        std::make_unique<Dispatcher>(*device_, scheduler.config, std::move(scheduler.policy));
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      instances_[i] = *Instance::Create(ChainPlan(20, 30), *device_);
      QueueOptions options;
      options.name = "chain";
      options.job_class = i == kRealTime ? JobClass::kRealTime : JobClass::kBestEffort;
      options.instances = {instances_[i].get()};
      queues_[i] = *dispatcher_->AddQueue(options);
      auto larger = std::const_pointer_cast<LoadedPlan>(ChainPlan(40, 15));
      larger->plan.arena_bytes = 4096;
      plans_[i] = *dispatcher_->AddPlan(queues_[i], larger);
    }
  }
  /// Runs one round of jobs, of the plans added later if `added`. Returns the number of
  /// allocations, those of Post() not counted.
  std::uint64_t Run(bool added) {
    added_ = added;
    const int goal = finished() + 3;
    Post(0);
    Post(1);
    std::uint64_t before = allocations.load();
    WaitFor(microseconds(500));
    std::uint64_t allocated = allocations.load() - before;
    Post(kRealTime);
    before = allocations.load();
    while (finished() < goal) device_->Wait(kNoDeadline);
    return allocated + allocations.load() - before;
  }
  std::uint64_t launches() const { return dispatcher_->Stats().launches; }

 private:
  void Post(std::size_t client) {
    Request& request = requests_[client];
    ASSERT_TRUE(dispatcher_->Post({queues_[client], kNoDeadline, request.inputs, request.outputs,
                                   &request, added_ ? plans_[client].get() : nullptr}));
  }
  void WaitFor(Nanoseconds time) {
    const TimePoint until = device_->Now() + time;
    while (device_->Now() < until) device_->Wait(until);
  }
  int finished() const {
    int count = 0;
    for (const Request& request : requests_) count += request.finished;
    return count;
  }

  static constexpr std::size_t kRealTime = 2;
  std::unique_ptr<SimDevice> device_;
  std::array<std::unique_ptr<Instance>, 3> instances_;
  std::array<Request, 3> requests_;
  std::array<QueueId, 3> queues_{};
  std::array<std::unique_ptr<QueuePlan>, 3> plans_;
  bool added_ = false;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST(LaunchPathTest, AllocatesNothingAfterAdmissionUnderAnyScheduler) {
  for (const std::string_view name : SchedulerNames()) {
    SCOPED_TRACE(name);
    LaunchPath path(name);
    for (const bool added : {false, true, false}) {
      SCOPED_TRACE(added);
      const std::uint64_t launches = path.launches();
      EXPECT_EQ(path.Run(added), 0u);
      EXPECT_GE(path.launches() - launches, 3u * (added ? 40 : 20));
    }
  }
}

}  // namespace
}  // namespace lagoon

#endif  // LAGOON_COUNTS_ALLOCATIONS

// Fairness among tenants (JobSpec::tenant), each of which may have many models. On a simulated
// device without latency; times in units of kFigureUnit.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/closed_loop.h"

namespace lagoon::testing {
namespace {

constexpr double kLength = 2000;
constexpr std::uint32_t kMany = 1, kOne = kMaxTenants;

struct Loops {
  SimTask task;
  std::size_t models = 1;
  std::uint32_t tenant = 0;
};

struct Kernels {
  std::vector<double> of_loops;  // of answered requests
  double of_many = 0, of_one = 0;
};

Kernels RunLoops(std::string_view scheduler, const std::vector<Loops>& wanted) {
  const auto device = FigureDevice(2, SimAbort::kCheck);
  Scheduler named = *MakeScheduler(scheduler);
  std::vector<std::unique_ptr<ClosedLoop>> loops;
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  for (const Loops& of : wanted) {
    for (std::size_t i = 0; i < of.models; ++i) {
      loops.push_back(std::make_unique<ClosedLoop>(*device, dispatcher, of.task, 2, of.tenant));
    }
  }
  const TimePoint end = device->Now() + FigureTime(kLength);
  while (device->Now() < end) device->Wait(end);
  Kernels kernels;
  kernels.of_many = static_cast<double>(dispatcher.TenantKernels(kMany));
  kernels.of_one = static_cast<double>(dispatcher.TenantKernels(kOne));
  auto loop = loops.begin();
  for (const Loops& of : wanted) {
    kernels.of_loops.push_back(0);
    for (std::size_t i = 0; i < of.models; ++i, ++loop) {
      const auto count = static_cast<double>(of.task.kernels.size());
      kernels.of_loops.back() += (*loop)->answers() * count;
      (*loop)->Stop();
    }
  }
  while (device->Now() < end + FigureTime(kLength)) device->Wait(end + FigureTime(kLength));
  return kernels;
}

SimTask Model(std::size_t kernels, double time) {
  return {"model", JobClass::kBestEffort, 0,
          std::vector<SimTask::Kernel>(kernels, SimTask::Kernel{2, time})};
}

TEST(OldestOf, AQueuesClientHasOnlyTheJobsWithoutATenant) {
  ReadyIndex index;
  index.AddQueue(QueueId{0});
  index.AddTenant(3);
  ScheduledJob of_tenant, of_queue;
  of_tenant.id = JobId{1};
  of_queue.id = JobId{2};
  of_tenant.tenant = 3;
  index.Update(of_tenant, true);
  index.Update(of_queue, true);
  const ReadyView view(index, {});
  EXPECT_EQ(view.OldestOf(QueueId{0}), &of_tenant);
  EXPECT_EQ(view.OldestOf(ClientOf(of_tenant)), &of_tenant);
  EXPECT_EQ(view.OldestOf(ClientOf(of_queue)), &of_queue);
  index.Update(of_tenant, false);
  EXPECT_EQ(view.OldestOf(ClientOf(of_tenant)), nullptr);
  EXPECT_EQ(view.OldestOf(QueueId{0}), &of_queue);
  index.Update(of_queue, false);
}

class Tenants : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Schedulers, Tenants,
                         ::testing::Values("paella:fairness_threshold=10,extra_blocks=0",
                                           "lagoon:fairness_threshold=10"));

TEST_P(Tenants, OneWithTenModelsGetsWhatOneWithOneModelGets) {
  const SimTask quick = Model(5, 0.2), slow = Model(20, 0.3);
  const Kernels kernels = RunLoops(GetParam(), {{quick, 10, kMany}, {slow, 1, kOne}});
  EXPECT_GT(kernels.of_one, 1000);
  EXPECT_NEAR(kernels.of_many / kernels.of_one, 1, 0.1);
}

// Why there are tenants.
TEST_P(Tenants, WithoutNamesEachModelIsAClient) {
  const SimTask quick = Model(5, 0.2), slow = Model(20, 0.3);
  const Kernels kernels = RunLoops(GetParam(), {{quick, 10, 0}, {slow, 1, 0}});
  EXPECT_EQ(kernels.of_many + kernels.of_one, 0);
  EXPECT_GT(kernels.of_loops[0], 5 * kernels.of_loops[1]);
}

// What sends a part of its requests under the name of another tenant takes from that tenant's half.
TEST_P(Tenants, ATenantThatLiesTakesFromTheNameThatItUses) {
  const SimTask quick = Model(5, 0.2), slow = Model(20, 0.3);
  const Kernels kernels =
      RunLoops(GetParam(), {{quick, 10, kMany}, {quick, 5, kMany}, {slow, 1, kOne}});
  EXPECT_NEAR(kernels.of_many / kernels.of_one, 1, 0.1);
  EXPECT_LT(kernels.of_loops[0], 0.8 * kernels.of_loops[2]);
}

// A model's requests without a name are a client of their own beside those with one.
TEST_P(Tenants, RequestsWithoutANameAreOfTheModel) {
  const SimTask quick = Model(5, 0.2);
  const Kernels kernels =
      RunLoops(GetParam(), {{quick, 4, kMany}, {quick, 1, 0}, {quick, 1, kOne}});
  EXPECT_NEAR(kernels.of_many / kernels.of_one, 1, 0.1);
  EXPECT_NEAR(kernels.of_loops[1] / kernels.of_one, 1, 0.1);
}

}  // namespace
}  // namespace lagoon::testing

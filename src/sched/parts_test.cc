// Parts of plans: what a policy sees of them, and what the device gets.

#include <gtest/gtest.h>

#include <algorithm>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

using std::chrono::microseconds;

// Notes what it sees of each job that it picks, and submits the next part.
class PartPolicy final : public Policy {
 public:
  struct Seen {
    std::uint32_t part_ops;
    std::int64_t unsubmitted_us, remaining_us;
    bool operator==(const Seen&) const = default;
  };
  explicit PartPolicy(std::vector<Seen>& seen) : seen_(seen) {}

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* next = view.ready.First();
    if (next == nullptr) return Decision::Wait();
    EXPECT_TRUE(view.ready.IsReady(*next));
    seen_.push_back(
        {next->part_ops, next->unsubmitted / microseconds(1), next->remaining / microseconds(1)});
    return Decision::Run(*next, next->part_ops);
  }

 private:
  std::vector<Seen>& seen_;
};

class Parts : public DispatcherFixture {
 protected:
  void UseParts(bool one_part) {
    Use({.name = "parts", .depth = 0, .one_part = one_part}, 64, FakeDevice::Time::kVirtual,
        std::make_unique<PartPolicy>(seen_));
  }
  // Kernels of 10 us, one block each.
  static std::shared_ptr<const LoadedPlan> Cut(std::uint32_t ops,
                                               std::vector<std::uint32_t> part_ends) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(ops, 1));
    for (PlanOp& op : loaded->plan.ops) op.cost.kernel = microseconds(10);
    loaded->plan.part_ends = std::move(part_ends);
    return loaded;
  }

  std::vector<PartPolicy::Seen> seen_;
};

TEST_F(Parts, APolicySeesTheKernelsToTheEndOfThePartAndWhatIsNotSubmitted) {
  UseParts(/*one_part=*/true);
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, Cut(6, {1, 4, 6})), Add()));
  device_->RunAll();
  using Seen = PartPolicy::Seen;
  // The fake device's clock stands still, so that kernels take no time and the expected times fall
  // with each observation; they are not compared after the first part.
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_EQ(seen_[0], (Seen{1, 60, 60}));
  EXPECT_EQ(seen_[1].part_ops, 3u);
  EXPECT_EQ(seen_[2].part_ops, 2u);
}

TEST_F(Parts, APlanWithoutPartsIsOne) {
  UseParts(/*one_part=*/true);
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, Cut(3, {})), Add()));
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_EQ(seen_[0].part_ops, ~0u);
  device_->RunAll();
}

// Counts launches in flight after each block.
TEST_F(Parts, OnePartKeepsOnePartOfOneJobOnTheDevice) {
  for (const bool one_part : {true, false}) {
    SCOPED_TRACE(one_part);
    UseParts(one_part);
    const QueueId first = AddQueue(JobClass::kBestEffort, Cut(6, {3, 6}));
    const QueueId second = AddQueue(JobClass::kBestEffort, Cut(4, {2, 4}));
    ASSERT_TRUE(Post(first, Add()));
    ASSERT_TRUE(Post(second, Add()));
    std::size_t most = device_->launches();
    while (device_->RunBlock()) most = std::max<std::size_t>(most, device_->launches());
    if (one_part) {
      EXPECT_LE(most, 3u + 2u);  // kernels, and copies of an input and an output
    } else {
      EXPECT_GE(most, 6u + 4u);
    }
    EXPECT_EQ(device_->launches(), 0u);
  }
}

TEST_F(Parts, ARevokedJobCountsItsKernelsAsUnsubmittedAgain) {
  Use({.name = "reset", .preemption = SchedulerConfig::Preemption::kReset, .depth = 0}, 64,
      FakeDevice::Time::kVirtual, std::make_unique<PartPolicy>(seen_));
  const QueueId queue = AddQueue(JobClass::kBestEffort, Cut(4, {2, 4}));
  const QueueId urgent = AddQueue(JobClass::kRealTime, Cut(1, {}));
  ASSERT_TRUE(Post(queue, Add()));
  ASSERT_EQ(seen_.back().unsubmitted_us, 20);  // the last pick submitted the second part
  ASSERT_TRUE(Post(urgent, Add()));
  device_->RunAll();
  const auto again = std::ranges::find_if(seen_.begin() + 3, seen_.end(), [](const auto& seen) {
    return seen.part_ops == 2 && seen.unsubmitted_us > 20;
  });
  EXPECT_NE(again, seen_.end());
}

}  // namespace
}  // namespace lagoon::testing

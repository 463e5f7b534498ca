#include "trace/recent_work.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"
#include "trace/recorder.h"

namespace lagoon::testing {
namespace {

struct Expected {
  std::uint64_t blocks = 0, left = 0;
  Nanoseconds busy{0};
};

// REEF's figure 6, seen by a TraceRecorder, which keeps each block, and by RecentWork.
class RecentWorkOfReefExample : public ::testing::Test {
 protected:
  void Run(RecentWork::Options options) {
    device_ = FigureDevice(kReefUnits, SimAbort::kCheck);
    start_ = device_->Now();
    recorder_.Attach(*device_);
    options.blocks_to = &recorder_;
    options.events_to = &recorder_;
    recent_.emplace(*device_, options);
    Scheduler named = *MakeScheduler("reef");
    Dispatcher dispatcher(*device_, named.config, std::move(named.policy), &*recent_);
    const std::vector<SimTask> tasks = ReefExample();
    RunTasks(*device_, dispatcher, tasks);
  }
  TimePoint At(double units) const {
    return start_ + Nanoseconds(static_cast<std::int64_t>(units * kFigureUnit.count()));
  }
  /// By job, of blocks that lie inside the span.
  std::map<JobId, Expected> OfRecorder(TimePoint from, TimePoint to) const {
    std::map<LaunchId, JobId> jobs;
    for (std::size_t i = 0; i < recorder_.events().size(); ++i) {
      const SchedEvent& event = recorder_.events()[i];
      if (event.kind == SchedEvent::Kind::kLaunched) jobs[event.launch] = event.job;
    }
    std::map<JobId, Expected> sums;
    for (const auto& ring : recorder_.blocks()) {
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const TraceRecorder::Block& block = ring[i];
        if (block.end <= from || block.begin >= to) continue;
        Expected& sum = sums[jobs.at(block.launch)];
        ++sum.blocks;
        if (!block.committed) ++sum.left;
        sum.busy += std::min(block.end, to) - std::max(block.begin, from);
      }
    }
    return sums;
  }

  std::unique_ptr<Device> device_;
  TimePoint start_;
  TraceRecorder recorder_{{4096, 16384}};
  std::optional<RecentWork> recent_;
};

TEST_F(RecentWorkOfReefExample, TellsWhoHadTheUnitsAndForHowLong) {
  Run({});
  const RecentWork::Report report = recent_->Between(start_, At(100));
  EXPECT_TRUE(report.complete);
  EXPECT_TRUE(report.blocks_known);
  const std::map<JobId, Expected> expected = OfRecorder(start_, At(100));
  ASSERT_EQ(report.jobs.size(), expected.size());
  for (const RecentWork::Work& work : report.jobs) {
    const Expected& of_job = expected.at(work.job);
    EXPECT_EQ(work.blocks, of_job.blocks) << work.model;
    EXPECT_EQ(work.left, of_job.left) << work.model;
    EXPECT_EQ(work.busy, of_job.busy) << work.model;
    EXPECT_EQ(work.opaque, Nanoseconds(0));
    EXPECT_EQ(work.job_class, work.model == "v1" ? JobClass::kRealTime : JobClass::kBestEffort);
    EXPECT_GT(work.launches, 0u);
  }
  EXPECT_TRUE(std::ranges::is_sorted(report.jobs, std::greater{}, &RecentWork::Work::busy));
}

TEST_F(RecentWorkOfReefExample, CutsASpanOut) {
  Run({});
  const RecentWork::Report before = recent_->Between(start_, At(1.5));
  for (const RecentWork::Work& work : before.jobs) EXPECT_NE(work.model, "v1");
  const std::map<JobId, Expected> expected = OfRecorder(At(1.5), At(7.5));
  const RecentWork::Report inside = recent_->Between(At(1.5), At(7.5));
  std::size_t ran = 0;
  for (const RecentWork::Work& work : inside.jobs) {
    if (work.blocks == 0) continue;  // its launches went to the device, and did not begin
    ++ran;
    EXPECT_EQ(work.busy, expected.at(work.job).busy) << work.model;
  }
  EXPECT_EQ(ran, expected.size());
  EXPECT_EQ(inside.jobs.front().model, "v1");
  EXPECT_TRUE(recent_->Between(At(90), At(95)).jobs.empty());
}

TEST_F(RecentWorkOfReefExample, SaysThatTheBeginningIsGone) {
  Run({.records = 2, .launches = 64});
  EXPECT_FALSE(recent_->Between(start_, At(100)).complete);
  EXPECT_TRUE(recent_->Between(At(90), At(100)).complete);
}

// A reader sees whole records only, in order, whatever the writer does meanwhile.
TEST(RecentRing, GivesWholeRecordsWhileItIsWritten) {
  RecentRing<3> ring(16);
  EXPECT_TRUE(ring.Read().records.empty());
  constexpr std::uint64_t kRecords = 200'000;
  std::jthread writer([&] {
    for (std::uint64_t i = 1; i <= kRecords; ++i) ring.Push({i, i * 3, i * 7});
  });
  std::uint64_t last = 0;
  while (last < kRecords) {
    const auto copy = ring.Read();
    ASSERT_LE(copy.records.size(), 16u);
    for (std::size_t i = 0; i < copy.records.size(); ++i) {
      const auto [number, three, seven] = copy.records[i];
      ASSERT_EQ(three, number * 3);
      ASSERT_EQ(seven, number * 7);
      if (i > 0) {
        ASSERT_EQ(number, copy.records[i - 1][0] + 1);
      }
    }
    if (!copy.records.empty()) {
      ASSERT_GE(copy.records.back()[0], last);
      last = copy.records.back()[0];
      ASSERT_EQ(copy.lost, copy.records.front()[0] > 1);
    }
  }
}

}  // namespace
}  // namespace lagoon::testing

// Which CUDA stream the next grid goes into.

#include "device/cuda/kernel_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/testing/paths.h"
#include "device/conformance/suite.h"
#include "device/cuda/testing/fake_device.h"

namespace lagoon::cuda {
namespace {

constexpr Rank kBestEffort = Rank{1} << 63;
constexpr std::uint32_t kDepth = 2;

class KernelStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::OpenFake().Reset(fake::EmulatedSettings(16));
    const auto driver = Driver::Load(FakeCudaLibrary());
    ASSERT_TRUE(driver.has_value());
    auto session = GpuSession::Open(*driver, 0);
    ASSERT_TRUE(session.has_value());
    session_ = *session;
    auto streams = KernelStreams::Create(session_, {.least = 0, .greatest = -2}, kDepth);
    ASSERT_TRUE(streams.has_value()) << streams.error().message;
    streams_ = *std::move(streams);
  }

  /// The index of the run with these units, which are prepared if they are not yet.
  std::uint32_t NewRun(UnitRange units) {
    const std::uint32_t known = streams_->FindRun(units);
    if (known != kNoIndex) return known;
    auto granules = UnitGranules::Split(session_);
    EXPECT_TRUE(granules.has_value());
    auto green = (*granules)->CreateRun(units);
    EXPECT_TRUE(green.has_value());
    auto run = streams_->Prepare(*std::move(green));
    EXPECT_TRUE(run.has_value());
    return streams_->AddRun(*std::move(run));
  }
  /// Puts a grid of `blocks` tiles into the stream.
  const Issue& Put(std::uint32_t stream, Rank rank, std::uint32_t blocks = 1) {
    Grid& grid = grids_.emplace_back(blocks);
    grid.work.progress = grid.record.get();
    grid.work.rank = rank;
    grid.issue = {&grid.work, 1, stream, blocks, 0};
    streams_->Add(grid.issue);
    return grid.issue;
  }
  /// Puts a grid of that rank where it belongs. Returns the priority, 0 the lowest.
  std::uint64_t PriorityOfNext(Rank rank) {
    const std::uint32_t stream = streams_->FreeStream(rank, 0);
    if (stream == kNoIndex) return ~std::uint64_t{0};
    Put(stream, rank);
    for (const fake::Call& call : fake::OpenFake().TakeLog()) created_[call.stream] = call.value;
    return created_.at(reinterpret_cast<std::uint64_t>(streams_->handle(stream)));
  }

  std::shared_ptr<const GpuSession> session_;
  struct Grid {
    explicit Grid(std::uint32_t blocks) : record(blocks) {}
    conformance::Record record;
    Work work;
    Issue issue;
  };
  std::deque<Grid> grids_;
  std::map<std::uint64_t, std::uint64_t> created_;  // priority by the driver's stream
  std::unique_ptr<KernelStreams> streams_;
};

TEST_F(KernelStreamsTest, BestEffortTakesTheLowestPriorityAndRealTimeTheMiddleOne) {
  EXPECT_EQ(PriorityOfNext(kBestEffort), 0u);
  EXPECT_EQ(PriorityOfNext(5), 1u);
}

TEST_F(KernelStreamsTest, AGridGoesAboveWorseAndBelowBetterRanks) {
  EXPECT_EQ(PriorityOfNext(5), 1u);
  EXPECT_EQ(PriorityOfNext(4), 2u) << "better than the one in flight";
  EXPECT_EQ(PriorityOfNext(6), 0u) << "worse";
  EXPECT_EQ(PriorityOfNext(4), 2u) << "as good as one";
}

TEST_F(KernelStreamsTest, WithoutAPriorityLeftAboveAGridSharesTheHighest) {
  EXPECT_EQ(PriorityOfNext(5), 1u);
  EXPECT_EQ(PriorityOfNext(4), 2u);
  EXPECT_EQ(PriorityOfNext(3), 2u);
}

TEST_F(KernelStreamsTest, BestEffortGridsLeaveTheBestPriorityToOthers) {
  std::uint64_t best = 0;
  // Each is better than those before, so that it wants a better priority.
  for (Rank rank = kBestEffort + 9;; --rank) {
    const std::uint64_t priority = PriorityOfNext(rank);
    if (priority == ~std::uint64_t{0}) break;
    best = std::max(best, priority);
  }
  EXPECT_EQ(best, 1u);
  EXPECT_EQ(PriorityOfNext(5), 2u);
}

TEST_F(KernelStreamsTest, OnlyIdleStreamsAreFree) {
  std::vector<const Issue*> issues;
  std::uint32_t stream = 0;
  while ((stream = streams_->FreeStream(5, 0)) != kNoIndex) issues.push_back(&Put(stream, 5));
  EXPECT_EQ(issues.size() % 3, 0u) << "as many for each priority";
  streams_->Remove(*issues[1]);
  EXPECT_EQ(streams_->FreeStream(5, 0), issues[1]->stream);
}

TEST_F(KernelStreamsTest, AStreamTakesSoManyGridsOfItsRun) {
  const std::uint32_t stream = streams_->FreeStream(5, 0);
  Put(stream, 5);
  EXPECT_TRUE(streams_->TakesMore(stream, 0));
  EXPECT_FALSE(streams_->TakesMore(stream, 1)) << "of another run";
  Put(stream, 5);
  EXPECT_FALSE(streams_->TakesMore(stream, 0));
}

TEST_F(KernelStreamsTest, OnlyFirstGridsOfTheSameOrABetterRankTakeUnits) {
  const std::uint32_t stream = streams_->FreeStream(5, 0);
  const Issue& first = Put(stream, 5, 16);
  Put(stream, 5, 100);
  EXPECT_EQ(streams_->BlocksInFront(), 16u);
  EXPECT_FALSE(streams_->HasRoom(5, 0, 1));
  EXPECT_TRUE(streams_->HasRoom(4, 0, 1)) << "of a better rank";
  EXPECT_TRUE(streams_->HasRoom(5, 0, 2)) << "two blocks in each unit";
  first.work->progress->Mirror(1);
  EXPECT_TRUE(streams_->HasRoom(5, 0, 1)) << "a block has ended";
}

TEST_F(KernelStreamsTest, RunsHaveStreamsOfTheirOwnAndContendWhereTheyOverlap) {
  const std::uint32_t low = NewRun({0, 8});
  const std::uint32_t high = NewRun({8, 8});
  const std::uint32_t both = NewRun({0, 16});
  EXPECT_EQ(both, 0u) << "all units: the run that is always there";
  EXPECT_EQ(streams_->FindRun({8, 8}), high);
  EXPECT_EQ(streams_->FindRun({0, 4}), kNoIndex);
  const std::uint32_t stream = streams_->FreeStream(5, low);
  EXPECT_NE(stream, streams_->FreeStream(5, 0));
  EXPECT_TRUE(streams_->TakesMore(stream, low));
  Put(stream, 5, 8);
  EXPECT_FALSE(streams_->HasRoom(5, low, 1));
  EXPECT_TRUE(streams_->HasRoom(5, high, 1));
  EXPECT_TRUE(streams_->HasRoom(5, 0, 1)) << "eight units are left";
  Put(streams_->FreeStream(5, 0), 5, 8);
  EXPECT_FALSE(streams_->HasRoom(5, high, 1)) << "a grid without a share may use these units";
}

}  // namespace
}  // namespace lagoon::cuda

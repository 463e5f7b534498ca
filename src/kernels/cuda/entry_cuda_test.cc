// The bodies with the block protocol: entry kernels, launches beside each other, revocation and
// resubmission.

#include <algorithm>
#include <random>

#include "kernels/cuda/testing/any_body.h"
#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"
#include "simt/emulator.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::RandomFloats;
using testing::BoundBody;
using testing::Bytes;
using testing::BytesOf;

constexpr u32 kRing = 4096;
constexpr u32 kTag = 7;

/// A record with its part in device memory. The words contain the values of another tag.
struct Record {
  u64 done = Tagged(kTag - 1, 3);
  std::vector<u64> claims;
  u32 blocks;

  explicit Record(u32 count) : claims((count + 31) / 32, Tagged(kTag - 1, 5)), blocks(count) {}
  RecordRef ref() { return {&done, claims.data(), kTag, blocks}; }
  u32 Done() const { return TagOf(done) == kTag ? DoneOf(done, blocks) : 0; }
};

/// Launches of kernels, which run at the same time. Outputs are poisoned at first.
class Launches {
 public:
  explicit Launches(std::vector<BoundBody> bodies)
      : bodies_(std::move(bodies)), states_(bodies_.size()), claimants_(bodies_.size(), 3) {
    for (const BoundBody& body : bodies_) records_.emplace_back(body.kernel().blocks);
  }

  /// The second kernel waits for all of the first. Its blocks that start too early leave, so it
  /// gets many claimants.
  void Chain(u32 claimants) {
    chained_ = true;
    claimants_[1] = claimants;
  }

  /// A block for each tile, and a note after every `interval` tiles. The first issue opens the
  /// record.
  void OnePerTile(u32 interval) {
    one_per_tile_ = true;
    interval_ = interval;
  }

  bool Complete() const {
    return std::all_of(records_.begin(), records_.end(),
                       [](const Record& record) { return record.Done() == record.blocks; });
  }

  /// Issues every launch once, and runs until all blocks have left.
  void Issue(u64 seed, std::uint64_t revoke_at) {
    simt::Emulator emulator({.seed = seed});
    u32 word = 0;
    emulator.OnBarrier([&](const simt::BarrierEvent& event) {
      if (event.barriers == revoke_at) word = 1;
    });
    ++round_;
    std::vector<GridParams> params;
    for (std::size_t i = 0; i < bodies_.size(); ++i) params.push_back(ParamsOf(i, word));
    std::vector<u32> grids;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      grids.push_back(one_per_tile_ ? records_[i].blocks - records_[i].Done() : claimants_[i]);
      if (grids[i] == 0) continue;
      emulator.Submit(
          {.name = "entry",
           .grid = {grids[i]},
           .block = {kBodyThreads},
           .shared_bytes = bodies_[i].kernel().shared_bytes + kProtocolSharedBytes,
           .kernel = [&, i] { RunBlock<testing::AnyBody>(params[i], simt::DynamicShared()); },
           .done = [](const Status& status) { EXPECT_TRUE(status) << status.error().message; }});
    }
    while (emulator.Step()) {
    }
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      EXPECT_LE(records_[i].Done(), records_[i].blocks);
      if (grids[i] == 0) continue;
      const bool opened = params[i].opening != 0;
      EXPECT_EQ(opened ? ValueOf(records_[i].done) >> kLeftShift : ValueOf(states_[i].left),
                grids[i]);
      ExpectEndedIsLast(params[i].issue);
    }
    barriers_ = emulator.barriers();
  }

  std::uint64_t barriers() const { return barriers_; }
  BoundBody& body(std::size_t i) { return bodies_[i]; }
  /// Counts the notes of one kind among all posted notes.
  std::size_t Notes(Note kind) const {
    return static_cast<std::size_t>(
        std::count_if(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(head_),
                      [&](u64 entry) { return (entry >> 60 & 7) == static_cast<u64>(kind); }));
  }

 private:
  // The host takes no note of an issue that has ended.
  void ExpectEndedIsLast(u32 issue) const {
    std::vector<Note> notes;
    for (std::size_t i = 0; i < head_; ++i) {
      if ((ring_[i] >> 32 & 0xffffff) == issue)
        notes.push_back(static_cast<Note>(ring_[i] >> 60 & 7));
    }
    EXPECT_EQ(std::count(notes.begin(), notes.end(), Note::kEnded), 1);
    EXPECT_EQ(notes.back(), Note::kEnded);
  }

  GridParams ParamsOf(std::size_t index, const u32& word) {
    const CudaKernel& kernel = bodies_[index].kernel();
    GridParams params{};
    params.state = &states_[index];
    params.ring = {ring_.data(), &head_, kRing, 0};
    params.issue = round_ * 2 + static_cast<u32>(index);
    params.tiles_per_block = one_per_tile_ ? 1 : 0;
    params.opening = one_per_tile_ && round_ == 1 ? 1 : 0;
    params.count_interval = interval_;
    params.started = round_ > 1 ? 1 : 0;
    params.record = records_[index].ref();
    params.guards[0].word = &word;
    params.body = static_cast<u32>(kernel.body);
    if (chained_ && index == 1) {
      params.deps[0] = {&records_[0].done, kTag, records_[0].blocks};
      params.dep_count = 1;
    }
    std::memcpy(params.args, kernel.args.data(), kernel.args.size());
    return params;
  }

  std::vector<BoundBody> bodies_;
  std::vector<Record> records_;
  std::vector<IssueState> states_;
  std::vector<u32> claimants_;
  std::vector<u64> ring_ = std::vector<u64>(kRing);
  u64 head_ = 0;
  u32 round_ = 0;  // number of calls of Issue()
  bool chained_ = false, one_per_tile_ = false;
  u32 interval_ = 0;
  std::uint64_t barriers_ = 0;
};

CudaKernel ProductOf(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  const Conv2dSpec spec{.window = {.height = m, .out_height = m},
                        .in_channels = k,
                        .out_channels = n,
                        .epilogue = {}};
  return MakeCudaConv2d(spec, {.tile_rows = 64, .tile_columns = 64, .splits = 1})->product;
}

std::vector<BoundBody> Bodies() {
  std::vector<BoundBody> bodies;
  bodies.emplace_back(ProductOf(150, 100, 300),
                      std::vector<Bytes>{BytesOf(RandomFloats(150 * 300)),
                                         BytesOf(RandomFloats(100 * 300, -1, 1, 2))},
                      std::vector<std::size_t>{150 * 100 * 4});
  const SoftmaxSpec softmax{.outer = 40, .axis = 70};
  bodies.emplace_back(*MakeCudaSoftmax(softmax), std::vector<Bytes>{BytesOf(RandomFloats(2800))},
                      std::vector<std::size_t>{2800 * 4});
  return bodies;
}

std::vector<Bytes> Undisturbed() {
  std::vector<Bytes> outputs;
  for (BoundBody& body : Bodies()) {
    EXPECT_EQ(body.Run(body.AllTiles(), {}), body.AllTiles());
    outputs.push_back(body.outputs()[0]);
  }
  return outputs;
}

TEST(CudaEntry, LaunchesBesideEachOtherCompleteInOneIssue) {
  Launches launches(Bodies());
  ASSERT_NO_FATAL_FAILURE(launches.Issue(1, testing::kNever));
  EXPECT_TRUE(launches.Complete());
  EXPECT_EQ(launches.Notes(Note::kEnded), 2u);
  EXPECT_EQ(launches.Notes(Note::kPlaced), 2u);
  EXPECT_EQ(launches.Notes(Note::kCount), 2u);
  const std::vector<Bytes> want = Undisturbed();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(launches.body(i).outputs()[0], want[i]);
}

TEST(CudaEntry, AnOpeningIssueTellsWhatItsBlocksDidBeforeItsEnd) {
  const std::vector<Bytes> want = Undisturbed();
  for (u64 seed = 0; seed < 8; ++seed) {
    Launches launches(Bodies());
    launches.OnePerTile(seed % 2 == 0 ? 0 : 2);
    ASSERT_NO_FATAL_FAILURE(launches.Issue(seed, testing::kNever));
    ASSERT_TRUE(launches.Complete());
    EXPECT_EQ(launches.Notes(Note::kPlaced), 2u);
    const u32 blocks[] = {launches.body(0).kernel().blocks, launches.body(1).kernel().blocks};
    const std::size_t counts = seed % 2 == 0 ? 2 : 2 + blocks[0] / 2 + blocks[1] / 2;
    EXPECT_EQ(launches.Notes(Note::kCount), counts);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(launches.body(i).outputs()[0], want[i]);
  }
}

TEST(CudaEntry, RevokedAtRandomBarriersAndIssuedAgainGivesTheSameBits) {
  const std::vector<Bytes> want = Undisturbed();
  std::mt19937 random(5);
  for (u64 seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Launches launches(Bodies());
    if (seed % 2 == 1) launches.Chain(3);
    if (seed % 3 == 2) launches.OnePerTile(static_cast<u32>(seed % 4));
    std::uint64_t barriers = 60;
    for (int issue = 0; !launches.Complete(); ++issue) {
      ASSERT_LT(issue, 50) << "no progress";
      const bool revoke = issue < 6;
      const std::uint64_t at = random() % std::max<std::uint64_t>(barriers, 1);
      ASSERT_NO_FATAL_FAILURE(
          launches.Issue(seed * 100 + static_cast<u64>(issue), revoke ? at : testing::kNever));
      barriers = launches.barriers();
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(launches.body(i).outputs()[0], want[i]) << "launch " << i;
    }
  }
}

TEST(CudaEntry, SuccessorSeesAllThatItsPredecessorWrote) {
  constexpr std::size_t kCount = 150 * 100;
  // Short tiles, so that blocks of the successor start while the last tile is being written.
  const auto chain = [] {
    std::vector<BoundBody> bodies;
    bodies.emplace_back(ProductOf(150, 100, 16),
                        std::vector<Bytes>{BytesOf(RandomFloats(150 * 16)),
                                           BytesOf(RandomFloats(100 * 16, -1, 1, 2))},
                        std::vector<std::size_t>{kCount * 4});
    const UnarySpec relu{.op = UnaryOp::kRelu, .count = kCount};
    bodies.emplace_back(*MakeCudaUnary(relu), std::vector<Bytes>{Bytes(kCount * 4)},
                        std::vector<std::size_t>{kCount * 4});
    bodies[1].BindInput(0, bodies[0].outputs()[0]);
    return bodies;
  };
  std::vector<BoundBody> one_by_one = chain();
  for (BoundBody& body : one_by_one) ASSERT_EQ(body.Run(body.AllTiles(), {}), body.AllTiles());
  for (u64 seed = 0; seed < 60; ++seed) {
    Launches launches(chain());
    launches.Chain(24);
    if (seed % 2 == 1) launches.OnePerTile(0);
    for (u64 issue = 0; !launches.Complete(); ++issue) {
      ASSERT_LT(issue, 20u);
      ASSERT_NO_FATAL_FAILURE(launches.Issue(seed * 20 + issue, testing::kNever));
    }
    ASSERT_EQ(launches.body(1).outputs(), one_by_one[1].outputs()) << "seed " << seed;
  }
}

TEST(CudaEntry, WhatIsUnderWayLeavesWhenTheGuardRises) {
  Launches launches(Bodies());
  // The first barrier comes after the first block's claim, before any guard check of a body.
  ASSERT_NO_FATAL_FAILURE(launches.Issue(1, 0));
  EXPECT_TRUE(launches.body(0).Untouched());
  EXPECT_TRUE(launches.body(1).Untouched());
  ASSERT_NO_FATAL_FAILURE(launches.Issue(2, testing::kNever));
  EXPECT_TRUE(launches.Complete());
}

}  // namespace
}  // namespace lagoon::cuda

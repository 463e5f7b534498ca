// Plans that share an instance: how its arena grows, what their argument images point to, and what
// is freed when.

#include "plan/instance.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/testing/allocations.h"

namespace lagoon {
namespace {

constexpr std::size_t kKiB = 1024;

// Memory of the host with a limit, and a count of what is in use.
class Memory final : public DeviceControl, public MemoryOwner {
 public:
  explicit Memory(std::size_t limit = 1024 * kKiB) : limit_(limit) {}

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind) override {
    if (used_.fetch_add(bytes) + bytes > limit_) {
      used_.fetch_sub(bytes);
      return Fail(ErrorCode::kResourceExhausted, "no memory");
    }
    // The owner outlives the buffers of a test.
    return Buffer(::operator new(bytes), bytes,
                  std::shared_ptr<MemoryOwner>(std::shared_ptr<void>(), this));
  }
  void Free(void* data, std::size_t bytes) override {
    ::operator delete(data);
    used_.fetch_sub(bytes);
  }
  Result<KernelHandle> Load(const CodeImage&, const KernelSpec&) override { return KernelHandle{}; }
  Result<StreamId> CreateStream(const StreamOptions&) override { return StreamId{1}; }
  Result<ShareId> CreateShare(const std::string&, UnitRange) override { return kAllUnits; }
  Status PrepareUnits(UnitRange) override { return {}; }
  Result<GuardId> CreateGuard() override { return GuardId{}; }
  const std::atomic<std::uint32_t>* GuardWord(GuardId) const override { return nullptr; }

  std::size_t used() const { return used_.load(); }

 private:
  DeviceInfo info_;
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

struct Args {
  const std::byte* weight = nullptr;
  std::byte* arena = nullptr;
  std::uint64_t blocks = 0;  // of the version
};

std::shared_ptr<const WeightChunk> Chunk(std::size_t offset, std::size_t bytes) {
  static std::byte memory[256];
  return std::make_shared<WeightChunk>(
      WeightChunk{offset, Buffer(memory + offset, bytes, [](void*, std::size_t) {})});
}

void SetBlocks(std::vector<std::byte>& args, std::uint64_t blocks) {
  std::memcpy(args.data() + offsetof(Args, blocks), &blocks, sizeof(blocks));
}

// Two ops that each have a pointer to the weights and one to the end of the arena. The second has
// two versions, and makes the output.
std::shared_ptr<LoadedPlan> PlanOfArena(std::size_t arena_bytes) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->weights = {Chunk(0, 64), Chunk(128, 64)};
  Plan& plan = loaded->plan;
  plan.arena_bytes = arena_bytes;
  for (std::uint32_t i = 0; i < 2; ++i) {
    PlanOp& op = plan.ops.emplace_back();
    op.blocks = 2;
    op.args.resize(sizeof(Args));
    SetBlocks(op.args, op.blocks);
    op.relocations = {{offsetof(Args, weight), Region::kWeights, i * 128 + 16},
                      {offsetof(Args, arena), Region::kArena, arena_bytes - 8}};
    if (i == 1) {
      op.deps = {0};
      op.versions = {{"coarse", op.args, 2, 0, {}}, {"fine", op.args, 80, 0, {}}};
      for (OpVersion& version : op.versions) SetBlocks(version.args, version.blocks);
    }
  }
  const auto bytes = static_cast<std::int64_t>(arena_bytes);
  plan.inputs.push_back({{"x", DataType::kUInt8, {bytes}}, {Region::kArena, 0, arena_bytes}, {0}});
  plan.outputs.push_back({{"y", DataType::kUInt8, {1}}, {Region::kArena, 0, 1}, {1}});
  return loaded;
}

Args ArgsOf(const Instance& instance, std::size_t op) {
  Args args;
  std::memcpy(&args, instance.launch(op).args, sizeof(args));
  return args;
}

// Checks that all ops have the arguments and dependencies of their versions in use, and that all
// pointers of the selected plan lead into the present arena and to the weights.
void ExpectBound(Instance& instance) {
  const Plan& plan = instance.plan();
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    const Args args = ArgsOf(instance, op);
    EXPECT_EQ(args.arena, instance.arena({Region::kArena, plan.arena_bytes - 8, 8}));
    EXPECT_EQ(args.weight, PlanOfArena(64)->Weight(op * 128 + 16));
    EXPECT_EQ(args.blocks, instance.progress(op).blocks());
  }
  // An op waits for all blocks of those before it, and for the copies of its inputs.
  ASSERT_EQ(instance.launch(0).deps.size(), 1U);
  EXPECT_EQ(instance.launch(0).deps[0].on, instance.InputCopy(0, nullptr).progress);
  ASSERT_EQ(instance.launch(1).deps.size(), 1U);
  EXPECT_EQ(instance.launch(1).deps[0].on, &instance.progress(0));
  EXPECT_EQ(instance.launch(1).deps[0].blocks, instance.progress(0).blocks());
  const Copy output = instance.OutputCopy(0, nullptr);
  ASSERT_EQ(output.deps.size(), 1U);
  EXPECT_EQ(output.deps[0].on, &instance.progress(1));
  EXPECT_EQ(output.deps[0].blocks, instance.progress(1).blocks());
}

TEST(LoadedPlanTest, FindsTheChunkOfAWeight) {
  const auto loaded = PlanOfArena(64);
  const std::byte* const base = loaded->weights[0]->memory.data();
  for (const std::size_t offset : {0, 1, 63, 64, 128, 191, 192}) {
    EXPECT_EQ(loaded->Weight(offset), base + offset);
  }
}

TEST(InstanceTest, AllPlansUseTheArenaThatALargerPlanBrings) {
  Memory memory;
  const auto instance = *Instance::Create(PlanOfArena(64 * kKiB), memory);
  EXPECT_EQ(memory.used(), 64 * kKiB);
  ExpectBound(*instance);
  const auto small = *instance->Bind(PlanOfArena(16 * kKiB));
  EXPECT_EQ(memory.used(), 64 * kKiB);
  const auto large = *instance->Bind(PlanOfArena(200 * kKiB));
  EXPECT_GE(memory.used(), 264 * kKiB);  // a job may be running in the first arena
  ExpectBound(*instance);

  std::byte* const before = instance->arena({});
  instance->Select(*small);
  EXPECT_EQ(instance->arena({}), before);  // it needs no larger one
  ExpectBound(*instance);
  instance->Select(*large);
  EXPECT_NE(instance->arena({}), before);
  ExpectBound(*instance);
  std::memset(instance->arena({}), 1, 200 * kKiB);
  std::byte* const after = instance->arena({});
  for (PlanBinding* plan : {small.get(), instance->first(), large.get()}) {
    instance->Select(*plan);
    EXPECT_EQ(instance->arena({}), after);
    EXPECT_EQ(&instance->plan(), &plan->plan());
    ExpectBound(*instance);
  }
}

TEST(InstanceTest, EveryVersionPointsToTheNewArena) {
  Memory memory;
  const auto instance = *Instance::Create(PlanOfArena(kKiB), memory);
  const auto large = *instance->Bind(PlanOfArena(8 * kKiB));
  instance->Select(*large);
  instance->Select(*instance->first());
  instance->Reset();
  instance->UseVersion(1, 1);
  EXPECT_EQ(instance->progress(1).blocks(), 80u);
  ExpectBound(*instance);
  instance->Reset();
  EXPECT_EQ(instance->progress(1).blocks(), 2u);
  ExpectBound(*instance);
}

TEST(InstanceTest, ABoundPlanRunsWithoutTheDataThatOnlyBindingNeeds) {
  Memory memory;
  const auto instance = Instance::Create(memory);
  const auto loaded = PlanOfArena(kKiB);
  loaded->plan.ops[0].reads = loaded->plan.ops[0].writes = {{Region::kArena, 0, 8}};
  loaded->plan.buffers = {{"x", {Region::kArena, 0, 8}}};
  const auto binding = *instance->Bind(loaded);
  FreeUnboundData(loaded->plan);
  for (const PlanOp& op : loaded->plan.ops) {
    EXPECT_EQ(op.args.capacity() + op.deps.capacity(), 0U);
    EXPECT_EQ(op.reads.capacity() + op.writes.capacity(), 0U);
  }
  EXPECT_EQ(loaded->plan.buffers.capacity(), 0U);
  instance->Select(*binding);
  instance->Reset();
  ExpectBound(*instance);
  const auto larger = *instance->Bind(PlanOfArena(8 * kKiB));
  instance->Select(*larger);
  instance->Select(*binding);  // in another arena than before
  instance->UseVersion(1, 1);
  ExpectBound(*instance);
  instance->Reset();
  ExpectBound(*instance);
}

TEST(InstanceTest, TheReplacedArenaIsFreedByTheNextBindOrFreeUnused) {
  Memory memory;
  const auto instance = *Instance::Create(PlanOfArena(64 * kKiB), memory);
  const auto large = *instance->Bind(PlanOfArena(128 * kKiB));
  const std::size_t both = memory.used();
  instance->Select(*large);
  EXPECT_EQ(memory.used(), both);
  const auto small = *instance->Bind(PlanOfArena(kKiB));
  EXPECT_EQ(memory.used(), both - 64 * kKiB);
  const auto larger = *instance->Bind(PlanOfArena(256 * kKiB));
  instance->Select(*larger);
  instance->FreeUnused();
  EXPECT_GE(memory.used(), 256 * kKiB);
  EXPECT_LE(memory.used(), 288 * kKiB);  // rounded up by an eighth at most
  instance->Select(*small);
  ExpectBound(*instance);
}

TEST(InstanceTest, AnArenaForPlansThatAreGoneIsFreed) {
  Memory memory;
  const auto instance = *Instance::Create(PlanOfArena(64 * kKiB), memory);
  auto first = *instance->Bind(PlanOfArena(100 * kKiB));
  auto second = *instance->Bind(PlanOfArena(200 * kKiB));
  EXPECT_LE(memory.used(), (64 + 225) * kKiB);  // the arena of 100 KiB was of no use any more
  second = nullptr;
  instance->FreeUnused();
  EXPECT_GT(memory.used(), 264 * kKiB);  // `first` needs the arena
  const auto small = *instance->Bind(PlanOfArena(kKiB));
  first = nullptr;
  instance->FreeUnused();
  EXPECT_EQ(memory.used(), 64 * kKiB);
  instance->Select(*small);
  ExpectBound(*instance);
  const auto third = *instance->Bind(PlanOfArena(80 * kKiB));
  instance->Select(*third);
  ExpectBound(*instance);
}

TEST(InstanceTest, APlanThatWasDestroyedKeepsNoArena) {
  Memory memory;
  {
    const auto instance = *Instance::Create(PlanOfArena(kKiB), memory);
    auto first = *instance->Bind(PlanOfArena(64 * kKiB));
    instance->Select(*first);
    auto second = *instance->Bind(PlanOfArena(128 * kKiB));
    instance->Select(*second);
    instance->FreeUnused();
    EXPECT_LE(memory.used(), 144 * kKiB);
    const auto third = *instance->Bind(PlanOfArena(512 * kKiB));  // never selected
  }
  EXPECT_EQ(memory.used(), 0u);
}

/// A kernel of an engine whose last run failed.
class FailedOp final : public OpaqueOp {
 public:
  bool assumed() const override { return false; }
  bool outdated() const override { return false; }
  std::shared_ptr<const MadeTensor> Take(const void* status, std::size_t output) const override {
    if (output != 1) return nullptr;
    std::int64_t failed = 0;
    std::memcpy(&failed, status, sizeof(failed));
    return std::make_shared<const MadeTensor>(MadeTensor{DataType::kInt64, {failed}, {}});
  }
  const std::vector<std::string>& ops() const override { return none_; }
  const std::string& why() const override { return why_; }
  Nanoseconds longest() const override { return Nanoseconds(1); }
  std::shared_ptr<const Error> TakeError(const void*) const override { return error_; }

 private:
  std::vector<std::string> none_;
  std::string why_;
  const std::shared_ptr<const Error> error_ =
      std::make_shared<const Error>(Error{ErrorCode::kInternal, "the engine failed"});
};

TEST(InstanceTest, ASetStatusSaysThatAnEngineFailed) {
  Memory memory;
  std::shared_ptr<LoadedPlan> loaded = PlanOfArena(kKiB);
  loaded->plan.opaque = {1};
  loaded->plan.ops[1].opaque = std::make_shared<FailedOp>();
  loaded->plan.ops[1].status = 128;
  const auto instance = Instance::Create(loaded, memory);
  ASSERT_TRUE(instance.has_value());
  EXPECT_EQ((*instance)->Failure(), nullptr);
  const std::int64_t status = 1;
  std::memcpy((*instance)->arena({Region::kArena, 128, 8}), &status, sizeof(status));
  ASSERT_NE((*instance)->Failure(), nullptr);
  EXPECT_EQ((*instance)->Failure()->message, "the engine failed");
}

TEST(InstanceTest, WhatAnEngineMadeIsTakenByThePlaceOfItsStatus) {
  Memory memory;
  std::shared_ptr<LoadedPlan> loaded = PlanOfArena(kKiB);
  loaded->plan.ops[1].opaque = std::make_shared<FailedOp>();
  loaded->plan.ops[1].status = 128;
  loaded->plan.outputs.resize(2);
  loaded->plan.outputs[1].made = OpaqueOutput{1, 1};
  const auto instance = *Instance::Create(loaded, memory);
  EXPECT_TRUE(instance->TakeMade().empty());
  loaded->plan.makes_outputs = true;
  const std::int64_t status = 5;
  std::memcpy(instance->arena({Region::kArena, 128, 8}), &status, sizeof(status));
  const auto made = instance->TakeMade();
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0], nullptr);
  ASSERT_NE(made[1], nullptr);
  EXPECT_EQ(made[1]->dims, Dims{5});
}

/// Makes strings in each run.
class StringOp final : public OpaqueOp {
 public:
  bool assumed() const override { return false; }
  bool outdated() const override { return false; }
  std::shared_ptr<const MadeTensor> Take(const void*, std::size_t) const override {
    return nullptr;
  }
  void TakeStrings(const void* status,
                   std::vector<std::shared_ptr<const MadeTensor>>& to) const override {
    std::int64_t run = 0;
    std::memcpy(&run, status, sizeof(run));
    to.push_back(std::make_shared<const MadeTensor>(MadeTensor{DataType::kString, {run}, {}, {}}));
  }
  const std::vector<std::string>& ops() const override { return none_; }
  const std::string& why() const override { return why_; }
  Nanoseconds longest() const override { return Nanoseconds(1); }
  std::shared_ptr<const Error> TakeError(const void*) const override { return nullptr; }

 private:
  std::vector<std::string> none_;
  std::string why_;
};

TEST(InstanceTest, OwnersOfStringsAreTakenBehindTheOutputs) {
  Memory memory;
  std::shared_ptr<LoadedPlan> loaded = PlanOfArena(kKiB);
  loaded->plan.opaque = {1};
  loaded->plan.ops[1].opaque = std::make_shared<StringOp>();
  loaded->plan.ops[1].status = 128;
  loaded->plan.outputs.resize(2);
  const auto instance = *Instance::Create(loaded, memory);
  const std::int64_t run = 7;
  std::memcpy(instance->arena({Region::kArena, 128, 8}), &run, sizeof(run));
  const auto made = instance->TakeMade();
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(made[0], nullptr);
  EXPECT_EQ(made[1], nullptr);
  EXPECT_EQ(made[2]->dims, Dims{7});
}

TEST(InstanceTest, WithoutMemoryTheOtherPlansStayUsable) {
  Memory memory(100 * kKiB);
  const auto instance = *Instance::Create(PlanOfArena(10 * kKiB), memory);
  const auto failed = instance->Bind(PlanOfArena(91 * kKiB));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(memory.used(), 10 * kKiB);
  ExpectBound(*instance);
  // 89 KiB are there, but not the 96 KiB that it would be rounded up to.
  const auto fits = instance->Bind(PlanOfArena(89 * kKiB));
  ASSERT_TRUE(fits);
  instance->Select(**fits);
  ExpectBound(*instance);
}

TEST(InstanceTest, CreatedWithoutAPlanItTakesNoMemoryUntilItNeedsSome) {
  Memory memory;
  const auto instance = Instance::Create(memory);
  EXPECT_EQ(instance->first(), nullptr);
  EXPECT_EQ(memory.used(), 0u);
  const auto plan = *instance->Bind(PlanOfArena(3000));
  EXPECT_EQ(memory.used(), 3000u);
  instance->Select(*plan);
  ExpectBound(*instance);
}

TEST(InstanceTest, AnArenaOfTheCallerDoesNotGrow) {
  std::byte arena[64];
  const auto instance = Instance::CreateOver(arena, PlanOfArena(64));
  ExpectBound(*instance);
  EXPECT_TRUE(instance->Bind(PlanOfArena(32)));
  const auto larger = instance->Bind(PlanOfArena(65));
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().message,
            "the plan needs an arena of 65 bytes; the instance has one of 64 bytes that cannot "
            "grow");
}

TEST(InstanceTest, ABindingKeepsItsPlanAndWeights) {
  Memory memory;
  const auto instance = Instance::Create(memory);
  auto loaded = PlanOfArena(64);
  const std::weak_ptr<LoadedPlan> plan = loaded;
  const std::weak_ptr<const WeightChunk> weights = loaded->weights.front();
  auto binding = *instance->Bind(std::move(loaded));
  EXPECT_FALSE(plan.expired() || weights.expired());
  binding = nullptr;
  EXPECT_TRUE(plan.expired() && weights.expired());
}

TEST(InstanceTest, RecordsOutliveTheirPlanForThoseThatShareThem) {
  Memory memory;
  const auto instance = Instance::Create(memory);
  auto binding = *instance->Bind(PlanOfArena(64));
  instance->Select(*binding);
  instance->Reset();
  const std::shared_ptr<const ProgressRecords> records = instance->records();
  const Guard guard{&instance->progress(0).done_word(), 1, false};
  EXPECT_FALSE(instance->progress(0).Commit());
  EXPECT_TRUE(instance->progress(0).Commit());
  binding = nullptr;
  EXPECT_TRUE(guard.Raised());
}

#ifdef LAGOON_COUNTS_ALLOCATIONS
TEST(InstanceTest, SelectNeitherAllocatesNorFrees) {
  Memory memory;
  const auto instance = *Instance::Create(PlanOfArena(kKiB), memory);
  const auto large = *instance->Bind(PlanOfArena(64 * kKiB));
  const std::size_t used = memory.used();
  const std::uint64_t before = allocations.load();
  instance->Select(*large);
  instance->Reset();
  instance->Select(*instance->first());
  instance->Reset();
  instance->UseVersion(1, 1);
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(memory.used(), used);
}
#endif

// Plans come on one thread and run on another, as under a dispatcher. Every plan writes all of its
// arena: under the sanitizers, an arena that was freed too early is an error.
TEST(InstanceTest, PlansComeWhileOthersRun) {
  constexpr int kPlans = 300;
  Memory memory(64 * 1024 * kKiB);
  const auto instance = Instance::Create(memory);
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<PlanBinding>> ready;  // at most 4
  std::jthread compiler([&] {
    for (int i = 0; i < kPlans; ++i) {
      const std::size_t bytes = kKiB + static_cast<std::size_t>(i * 7919 % 211) * kKiB;
      auto binding = *instance->Bind(PlanOfArena(bytes));
      if (i % 7 == 0) continue;  // evicted before it ran
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ready.size() < 4; });
      ready.push_back(std::move(binding));
      changed.notify_all();
    }
    const std::lock_guard lock(mutex);
    ready.push_back(nullptr);
    changed.notify_all();
  });
  std::deque<std::unique_ptr<PlanBinding>> kept;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !ready.empty(); });
      if (ready.front() == nullptr) break;
      kept.push_back(std::move(ready.front()));
      ready.pop_front();
      changed.notify_all();
    }
    for (const auto& plan : kept) {
      instance->Select(*plan);
      instance->Reset();
      ExpectBound(*instance);
      std::memset(instance->arena({}), 1, plan->plan().arena_bytes);
    }
    if (kept.size() > 3) kept.pop_front();
  }
  instance->FreeUnused();
  EXPECT_LE(memory.used(), 240 * kKiB);
}

}  // namespace
}  // namespace lagoon

// All interleavings of the CPU device's workers and its caller around a launch that is guarded by a
// partial done count: such a launch must retire, whatever happens at the same time.
//
// The code is the device's own: RunBlocks() of block.h and the Watchers over model atomics, and the
// LaunchTable itself. The table has no model atomics, so it cannot be a part of the explored state.
// Its history is: each change of the table is one step. To make a step, the changes before it are
// made again on a fresh table.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/block.h"
#include "device/cpu/launch_table.h"
#include "device/cpu/watchers.h"
#include "device/testing/interleaving.h"

namespace lagoon {
namespace {

using interleaving::Explorer;
using interleaving::Memory;
using interleaving::ModelAtomics;
using interleaving::ModelDep;
using interleaving::ModelGuard;
using interleaving::ModelProgress;

// Two launches: a kernel of two blocks, and one of one block that leaves as soon as the first has
// more than 0 blocks done.
enum Which : std::size_t { kCounting, kGuarded, kLaunches };
constexpr std::array<std::uint32_t, kLaunches> kBlocks = {2, 1};
constexpr std::size_t kMaxWorkers = 2;

bool Nothing(const void*, std::uint32_t, BlockContext&) { return true; }

// The words that the lock does not protect, at the moment of a change of the table.
struct Words {
  std::array<std::uint32_t, kLaunches> done;
  std::array<std::uint64_t, kLaunches> unclaimed;
  std::uint32_t guard;
};

struct Change {
  enum class Kind : std::uint8_t { kSubmit, kSettleNewest, kSettleAll, kPick, kFinish };
  Kind kind;
  std::size_t which;  // kSubmit: the launch; kPick and kFinish: the worker
  Leave why;          // of kFinish only
  Words words;
};

// A table and its records, made anew for each step.
class World {
 public:
  World() {
    for (std::size_t i = 0; i < kLaunches; ++i) {
      progress_[i] = std::make_unique<Progress>(kBlocks[i], std::span(&bitmaps_[i], 1));
    }
  }

  void Make(const Change& change) {
    for (std::size_t i = 0; i < kLaunches; ++i) {
      progress_[i]->Mirror(change.words.done[i]);
      bitmaps_[i].store(change.words.unclaimed[i]);
    }
    guards_.word(guard_).store(change.words.guard);
    switch (change.kind) {
      case Change::Kind::kSubmit:
        Submit(change.which);
        break;
      case Change::Kind::kSettleNewest:
        table_.SettleNewest();
        break;
      case Change::Kind::kSettleAll:
        table_.SettleAll();
        break;
      case Change::Kind::kPick:
        held_[change.which] = table_.Pick(0);
        break;
      case Change::Kind::kFinish:
        table_.Finish(*held_[change.which], change.why, Now());
        held_[change.which].reset();
        break;
    }
    std::array<DeviceEvent, 16> events;
    for (const DeviceEvent& event : std::span(events).first(table_.events().Pop(events))) {
      reported_[Raw(event.launch)] |= 1u << static_cast<unsigned>(event.kind);
    }
  }

  std::uint64_t unclaimed(std::size_t launch) const { return bitmaps_[launch].load(); }
  bool retired(std::size_t launch) const {
    return (reported_[launch] >> static_cast<unsigned>(DeviceEvent::Kind::kRetired) & 1) != 0;
  }
  std::uint32_t watchers() const { return table_.watchers(); }
  /// 0: nothing; else one more than launch * 2 + tile.
  std::uint64_t Picked(std::size_t worker) const {
    const auto& held = held_[worker];
    return held ? 1 + 2 * Raw(held->id) + held->tile : 0;
  }
  /// Equal if the tables are in the same state: what was submitted, what was reported and what
  /// workers hold determine all that a table keeps.
  std::uint64_t State() const {
    std::uint64_t state = submitted_;
    for (const std::uint32_t reported : reported_) state = state * 16 + reported;
    for (std::size_t worker = 0; worker < kMaxWorkers; ++worker) state = state * 8 + Picked(worker);
    return state;
  }

 private:
  void Submit(std::size_t launch) {
    Launch kernel_launch{.progress = progress_[launch].get()};
    kernel_launch.guards[0] = launch == kCounting ? Guard{&guards_.word(guard_), 0}
                                                  : Guard{&progress_[kCounting]->done_word(), 0};
    ++submitted_;
    const LaunchId id{launch};
    LAGOON_CHECK(table_.Add(kernel_launch.As(id, kUnordered, launch), Nothing) ==
                 SubmitResult::kOk);
  }

  std::array<std::atomic<std::uint64_t>, kLaunches> bitmaps_{};
  std::array<std::unique_ptr<Progress>, kLaunches> progress_;
  GuardWords guards_{1};
  const GuardId guard_ = guards_.Create("test").value();
  const DeviceInfo info_ = [] {
    DeviceInfo info;
    info.units = 4;
    info.share_granule = 1;
    info.max_shares = 4;
    return info;
  }();
  Shares shares_{info_};
  LaunchTable table_{{.launches = kLaunches, .streams = 1, .events = 16}, guards_, shares_};
  std::array<std::optional<LaunchTable::Assignment>, kMaxWorkers> held_;
  std::uint64_t submitted_ = 0;
  std::array<std::uint32_t, kLaunches> reported_{};  // bit k: an event of kind k
};

struct Shape {
  std::size_t workers;
  /// The caller revokes the counting kernel at any moment.
  bool raise = false;
  /// The second block of the counting kernel ends only after the guarded launch has retired: the
  /// first block's commit has to be enough.
  bool second_block_waits = false;
};

class Model {
 public:
  explicit Model(const Shape& shape) : shape_(shape) {
    for (std::size_t i = 0; i < kLaunches; ++i) {
      bitmaps_[i] = std::make_unique<ModelProgress::Word>((std::uint64_t{1} << kBlocks[i]) - 1);
      progress_[i] = std::make_unique<ModelProgress>(kBlocks[i], std::span(bitmaps_[i].get(), 1));
      retired_[i] = explorer_.AddWord(0);
    }
    guards_[kCounting] = {&guard_word_, 0};
    guards_[kGuarded] = {&progress_[kCounting]->done_word(), 0};
    for (std::size_t i = 0; i < shape.workers; ++i) {
      explorer_.AddThread(i == 0 ? "a" : "b", [this, i] { Work(i); });
    }
    explorer_.AddThread("caller", [this] { Call(); });
  }

  Explorer::Outcome Run() { return explorer_.Run(); }

 private:
  // Stands for the launch table in Watchers::Enter().
  struct Newest {
    Model& model;
    std::uint32_t watchers() const { return model.CountWatchers(); }
    void SettleNewest() const { model.MakeChange(Change::Kind::kSettleNewest); }
  };

  void Call() {
    for (const std::size_t launch : {kCounting, kGuarded}) {
      Lock();
      MakeChange(Change::Kind::kSubmit, launch);
      Newest newest{*this};
      watchers_.Enter(newest);
      Unlock();
    }
    if (shape_.raise) {
      guard_word_.store(1, std::memory_order_relaxed);
      Settle();
    }
    Explorer::Await([this](const Memory& memory) { return AllRetired(memory); });
  }

  // WorkerDevice's loop; an idle worker looks again after each change of the table.
  void Work(std::size_t worker) {
    for (;;) {
      Explorer::Checkpoint(0);
      Lock();
      const std::uint64_t picked = MakeChange(Change::Kind::kPick, worker);
      watchers_.Publish(CountWatchers());
      const std::uint64_t seen = Read(history_);
      Unlock();
      if (picked == 0) {
        const bool over =
            Explorer::Access(1, [&](Memory& memory, unsigned) {
              if (AllRetired(memory)) return std::optional<std::uint64_t>(1);
              return memory[history_] == seen ? std::nullopt : std::optional<std::uint64_t>(0);
            }) != 0;
        if (over) return;
        continue;
      }
      RunPicked(worker, (picked - 1) / 2, static_cast<std::uint32_t>((picked - 1) % 2));
    }
  }

  void RunPicked(std::size_t worker, std::size_t launch, std::uint32_t tile) {
    const std::span<const ModelGuard> guards(&guards_[launch], 1);
    const auto run = [&](std::uint32_t block) {
      Explorer::Checkpoint(1 + 2 * launch + block);
      if (shape_.second_block_waits && launch == kCounting && block == 1) {
        Explorer::Await([this](const Memory& memory) { return memory[retired_[kGuarded]] != 0; });
      }
      return !Revoked(guards, /*started=*/true);
    };
    const auto yield = [&] {
      Explorer::Checkpoint(5 + launch);
      if (watchers_.Any()) Settle();
      return false;
    };
    const Leave why = RunBlocks(*progress_[launch], std::span<const ModelDep>(), guards, run, yield,
                                std::optional(tile));
    Explorer::Checkpoint(16 + 8 * launch + static_cast<std::uint64_t>(why));
    Lock();
    MakeChange(Change::Kind::kFinish, worker, why);
    watchers_.Publish(CountWatchers());
    Unlock();
  }

  void Settle() {
    Lock();
    MakeChange(Change::Kind::kSettleAll);
    watchers_.Publish(CountWatchers());
    Unlock();
  }

  // One step. Returns what a pick found.
  std::uint64_t MakeChange(Change::Kind kind, std::size_t which = 0, Leave why = {}) {
    return Explorer::Access(1, [&](Memory& memory, unsigned) -> std::optional<std::uint64_t> {
      const Change change{kind, which, why, WordsIn(memory)};
      const std::unique_ptr<World> world = WorldAfter(memory[history_], change);
      const std::uint64_t picked = kind == Change::Kind::kPick ? world->Picked(which) : 0;
      if (kind == Change::Kind::kPick && picked == 0) return 0;  // nothing has changed
      memory[history_] = NumberOf(world->State(), memory[history_], change);
      memory[watching_] = world->watchers();
      for (std::size_t i = 0; i < kLaunches; ++i) {
        memory[bitmaps_[i]->word()] = world->unclaimed(i);
        memory[retired_[i]] = world->retired(i) ? 1 : 0;
      }
      return picked;
    });
  }

  Words WordsIn(const Memory& memory) const {
    Words words{};
    for (std::size_t i = 0; i < kLaunches; ++i) {
      words.done[i] = static_cast<std::uint32_t>(memory[progress_[i]->done_word().word()]);
      words.unclaimed[i] = memory[bitmaps_[i]->word()];
    }
    words.guard = static_cast<std::uint32_t>(memory[guard_word_.word()]);
    return words;
  }

  // Histories have numbers, one for each state of the table; 0 is the empty history.
  struct History {
    std::uint64_t before;
    Change last;
  };

  std::uint64_t NumberOf(std::uint64_t state, std::uint64_t history, const Change& change) {
    const auto [known, is_new] = numbers_.try_emplace(state, histories_.size() + 1);
    if (is_new) histories_.push_back({history, change});
    return known->second;
  }

  std::unique_ptr<World> WorldAfter(std::uint64_t history, const Change& last) const {
    std::vector<const Change*> changes = {&last};
    for (; history != 0; history = histories_[history - 1].before) {
      changes.push_back(&histories_[history - 1].last);
    }
    auto world = std::make_unique<World>();
    for (std::size_t i = changes.size(); i-- > 0;) world->Make(*changes[i]);
    return world;
  }

  void Lock() {
    Explorer::Access(1, [this](Memory& memory, unsigned) {
      return std::exchange(memory[locked_], 1) == 0 ? std::optional<std::uint64_t>(0)
                                                    : std::nullopt;
    });
  }
  void Unlock() {
    Explorer::Access(1, [this](Memory& memory, unsigned) {
      memory[locked_] = 0;
      return std::optional<std::uint64_t>(0);
    });
  }
  static std::uint64_t Read(std::size_t word) {
    return Explorer::Access(1,
                            [=](Memory& memory, unsigned) { return std::optional(memory[word]); });
  }
  std::uint32_t CountWatchers() const { return static_cast<std::uint32_t>(Read(watching_)); }
  bool AllRetired(const Memory& memory) const {
    return memory[retired_[kCounting]] != 0 && memory[retired_[kGuarded]] != 0;
  }

  const Shape shape_;
  Explorer explorer_;
  ModelAtomics::Atomic<std::uint32_t> guard_word_{0};
  BasicWatchers<ModelAtomics> watchers_;
  std::array<std::unique_ptr<ModelProgress::Word>, kLaunches> bitmaps_;
  std::array<std::unique_ptr<ModelProgress>, kLaunches> progress_;
  std::array<ModelGuard, kLaunches> guards_;
  std::array<std::size_t, kLaunches> retired_{};
  const std::size_t history_ = explorer_.AddWord(0), watching_ = explorer_.AddWord(0),
                    locked_ = explorer_.AddWord(0);
  std::map<std::uint64_t, std::uint64_t> numbers_;  // of histories, by the state they led to
  std::vector<History> histories_;
};

void ExploreAndExpectNoViolation(const Shape& shape) {
  const Explorer::Outcome outcome = Model(shape).Run();
  std::printf("%llu states, %llu steps, %llu endings\n",
              static_cast<unsigned long long>(outcome.states),
              static_cast<unsigned long long>(outcome.steps),
              static_cast<unsigned long long>(outcome.endings));
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.endings, 0u);
}

TEST(LaunchTableModel, APartialCountsLaunchRetiresThoughTheWorkerThatCountedIsRevoked) {
  ExploreAndExpectNoViolation({.workers = 1, .raise = true});
}

TEST(LaunchTableModel, APartialCountsLaunchRetiresAtTheCommitThoughItIsJustBeingSubmitted) {
  ExploreAndExpectNoViolation({.workers = 1, .second_block_waits = true});
}

TEST(LaunchTableModel, SoItDoesWithTwoWorkers) {
  ExploreAndExpectNoViolation({.workers = 2, .raise = true});
  ExploreAndExpectNoViolation({.workers = 2, .second_block_waits = true});
}

}  // namespace
}  // namespace lagoon

// All interleavings of the block protocol on a small model: the code of block.h itself, two
// workers, three kernels in a chain, one revocation at any moment and one relaunch that does not
// wait for the old blocks. A worker takes any launch it may take at any time, in any order of
// preference, so that the result holds for every scheduler and every rank.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "device/block.h"
#include "device/testing/interleaving.h"

namespace lagoon {
namespace {

using interleaving::Explorer;
using interleaving::Memory;
using interleaving::ModelAtomics;
using interleaving::ModelDep;
using interleaving::ModelGuard;
using interleaving::ModelProgress;

constexpr std::size_t kKernels = 3;
constexpr std::size_t kLaunches = 2;  // the first one and the relaunch
constexpr std::size_t kWorkers = 2;
constexpr std::size_t kHost = kWorkers;  // index of its thread
using Blocks = std::array<std::uint32_t, kKernels>;

struct Shape {
  Blocks blocks;
  bool only_before_start = false;
};

// The device's table of launches, reduced to what its lock protects; every change is one step.
struct LaunchWords {
  std::size_t submitted, active, started, retired;
};

// What the test itself keeps about a tile, beside the protocol's own words.
struct TileWords {
  std::size_t owners, committing, committed;
};

class Model {
 public:
  explicit Model(const Shape& shape) : shape_(shape) {
    for (std::size_t k = 0; k < kKernels; ++k) {
      const std::uint64_t all = (std::uint64_t{1} << shape.blocks[k]) - 1;
      bitmaps_[k] = std::make_unique<ModelProgress::Word>(all);
      progress_[k] =
          std::make_unique<ModelProgress>(shape.blocks[k], std::span(bitmaps_[k].get(), 1));
      if (k > 0) deps_[k] = {progress_[k - 1].get(), shape.blocks[k - 1]};
      for (std::uint32_t tile = 0; tile < shape.blocks[k]; ++tile) {
        tiles_[k].push_back({explorer_.AddWord(0), explorer_.AddWord(0), explorer_.AddWord(0)});
      }
    }
    for (std::size_t i = 0; i < kLaunches; ++i) {
      launches_[i] = {explorer_.AddWord(i == 0), explorer_.AddWord(0), explorer_.AddWord(0),
                      explorer_.AddWord(0)};
    }
    frozen_ = explorer_.AddWord(0);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      explorer_.AddThread(i == 0 ? "a" : "b", [this, i] { Work(static_cast<std::uint32_t>(i)); });
    }
    explorer_.AddThread("host", [this] { Host(); });
    explorer_.SetInvariant([this](const Memory& memory) { return WhatIsWrong(memory); });
    ModelAtomics::on_access = [this](const Memory& memory, std::size_t thread, std::size_t) {
      Explorer::Require(memory[frozen_] == 0 || thread == kHost,
                        "a block touched a record that is being reused");
    };
  }
  ~Model() { ModelAtomics::on_access = nullptr; }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Explorer::Outcome Run() { return explorer_.Run(); }

 private:
  // A worker: takes any launch that has not retired, until all have.
  void Work(std::uint32_t worker) {
    for (;;) {
      Explorer::Checkpoint(0);
      const std::uint64_t option = Enter();
      if (option == kLaunches * kKernels) return;
      WorkOn(option / kKernels, option % kKernels, worker);
    }
  }

  // Chooses a launch and makes this worker active in it: one step, under the device's
  // lock.
  std::uint64_t Enter() {
    return Explorer::Access(
        kLaunches * kKernels + 1,
        [this](Memory& memory, unsigned choice) -> std::optional<std::uint64_t> {
          if (choice == kLaunches * kKernels) {
            return AllRetired(memory) ? std::optional<std::uint64_t>(choice) : std::nullopt;
          }
          const LaunchWords& launch = launches_[choice / kKernels];
          if (memory[launch.submitted] == 0 || memory[launch.retired] != 0) return std::nullopt;
          ++memory[launch.active];
          return choice;
        });
  }

  void WorkOn(std::size_t launch, std::size_t kernel, std::uint32_t worker) {
    const std::uint64_t label = 1 + 8 * (launch * kKernels + kernel);
    Explorer::Checkpoint(label);
    const ModelGuard guard{&guard_word_, static_cast<std::uint32_t>(launch),
                           shape_.only_before_start};
    const std::span<const ModelGuard> guards(&guard, 1);
    const std::span<const ModelDep> deps(&deps_[kernel], kernel == 0 ? 0 : 1);
    ModelProgress& progress = *progress_[kernel];
    const std::uint32_t from = progress.FirstOf(worker, kWorkers);

    const bool started = Read(launches_[launch].started) != 0;
    if (!Revoked(guards, started) && DepsMet(deps)) {
      if (const std::optional<std::uint32_t> tile = progress.Claim(from)) {
        Write(launches_[launch].started, 1);
        const auto run = [&](std::uint32_t block) {
          Explorer::Checkpoint(label + 1 + block);
          return RunTile(kernel, block, guards);
        };
        const auto yield = [&] {
          Explorer::Checkpoint(label + 4);
          return false;
        };
        RunBlocks(progress, deps, guards, run, yield, tile, from);
      }
    }
    Explorer::Checkpoint(label + 5);
    Change(launches_[launch].active, -1);
  }

  // A body: checks the guard once on its way, then writes its tile.
  bool RunTile(std::size_t kernel, std::uint32_t block, std::span<const ModelGuard> guards) {
    const TileWords& tile = tiles_[kernel][block];
    Step([&](Memory& memory) {
      Explorer::Require(++memory[tile.owners] == 1, "two owners of a tile");
      Explorer::Require(memory[tile.committed] == 0, "a tile that is done runs again");
      Explorer::Require(kernel == 0 || AllCommitted(memory, kernel - 1),
                        "a kernel reads what its predecessor has not finished");
    });
    if (Revoked(guards, /*started=*/true)) {
      Change(tile.owners, -1);
      return false;
    }
    Write(tile.committing, 1);
    Step([&](Memory& memory) {
      memory[tile.committing] = 0;
      memory[tile.owners] -= 1;
      Explorer::Require(++memory[tile.committed] == 1, "a tile is committed twice");
    });
    return true;
  }

  // Raises the guard at any moment, relaunches at once, and reuses the records after both have
  // retired.
  void Host() {
    guard_word_.store(1, std::memory_order_relaxed);
    if (!shape_.only_before_start) {
      Write(launches_[1].submitted, 1);
      Retire(0);
    } else if (!Retire(0)) {
      Write(launches_[1].submitted, 1);  // revoked before it started
    } else {
      Step([this](Memory& memory) {
        memory[launches_[1].submitted] = memory[launches_[1].retired] = 1;  // not needed
      });
    }
    if (Read(launches_[1].retired) == 0) Retire(1);
    Step([this](Memory& memory) {
      memory[frozen_] = 1;
      for (std::size_t k = 0; k < kKernels; ++k) {
        Explorer::Require(AllCommitted(memory, k),
                          "everything retired, but a kernel is incomplete");
      }
    });
    for (const auto& progress : progress_) progress->Reset();
  }

  // The device's rule: no worker in it, and complete or revoked. One step, under the device's lock.
  // Returns whether the launch had completed.
  bool Retire(std::size_t index) {
    const LaunchWords& launch = launches_[index];
    return Explorer::Access(1, [&](Memory& memory, unsigned) -> std::optional<std::uint64_t> {
             const bool exempt = shape_.only_before_start && memory[launch.started] != 0;
             const bool complete = Complete(memory);
             if (memory[launch.active] != 0) return std::nullopt;
             if (!complete && (exempt || memory[guard_word_.word()] <= index)) return std::nullopt;
             memory[launch.retired] = 1;
             return complete;
           }) != 0;
  }

  const char* WhatIsWrong(const Memory& memory) const {
    if (memory[frozen_] != 0) return nullptr;
    for (std::size_t k = 0; k < kKernels; ++k) {
      std::uint64_t committed = 0;
      for (const TileWords& tile : tiles_[k]) {
        committed += memory[tile.committed];
        if (memory[DoneWord(k)] == shape_.blocks[k] && memory[tile.committing] != 0) {
          return "a kernel is complete while a tile of it is being committed";
        }
      }
      if (memory[DoneWord(k)] > committed) return "more tiles counted than committed";
    }
    return nullptr;
  }

  std::size_t DoneWord(std::size_t kernel) const { return progress_[kernel]->done_word().word(); }
  bool Complete(const Memory& memory) const {
    for (std::size_t k = 0; k < kKernels; ++k) {
      if (memory[DoneWord(k)] != shape_.blocks[k]) return false;
    }
    return true;
  }
  bool AllCommitted(const Memory& memory, std::size_t kernel) const {
    for (const TileWords& tile : tiles_[kernel]) {
      if (memory[tile.committed] == 0) return false;
    }
    return true;
  }
  bool AllRetired(const Memory& memory) const {
    return memory[launches_[0].retired] != 0 && memory[launches_[1].retired] != 0;
  }

  template <typename F>
  static void Step(F change) {
    Explorer::Access(1, [&](Memory& memory, unsigned) {
      change(memory);
      return std::optional<std::uint64_t>(0);
    });
  }
  static void Write(std::size_t word, std::uint64_t value) {
    Step([=](Memory& memory) { memory[word] = value; });
  }
  static void Change(std::size_t word, int by) {
    Step([=](Memory& memory) { memory[word] += static_cast<std::uint64_t>(by); });
  }
  static std::uint64_t Read(std::size_t word) {
    return Explorer::Access(1,
                            [=](Memory& memory, unsigned) { return std::optional(memory[word]); });
  }

  const Shape shape_;
  Explorer explorer_;
  ModelAtomics::Atomic<std::uint32_t> guard_word_{0};
  std::array<std::unique_ptr<ModelProgress::Word>, kKernels> bitmaps_;
  std::array<std::unique_ptr<ModelProgress>, kKernels> progress_;
  std::array<ModelDep, kKernels> deps_;
  std::array<std::vector<TileWords>, kKernels> tiles_;
  std::array<LaunchWords, kLaunches> launches_;
  std::size_t frozen_ = 0;
};

void ExploreAndExpectNoViolation(const Shape& shape) {
  const auto begin = std::chrono::steady_clock::now();
  const Explorer::Outcome outcome = Model(shape).Run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("blocks %u,%u,%u: %llu states, %llu steps, %llu endings, %.1f s\n", shape.blocks[0],
              shape.blocks[1], shape.blocks[2], static_cast<unsigned long long>(outcome.states),
              static_cast<unsigned long long>(outcome.steps),
              static_cast<unsigned long long>(outcome.endings), seconds.count());
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.endings, 0u);
}

TEST(BlockModel, EveryInterleavingKeepsTheProtocol) {
  ExploreAndExpectNoViolation({.blocks = {2, 2, 1}});
}

TEST(BlockModel, EveryInterleavingKeepsTheProtocolWhenOnlyQueuedLaunchesLeave) {
  ExploreAndExpectNoViolation({.blocks = {2, 1, 1}, .only_before_start = true});
}

}  // namespace
}  // namespace lagoon

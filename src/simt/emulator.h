#pragma once

// Runs CUDA kernels, compiled as C++, on one thread of the CPU: one fiber per CUDA thread, several
// blocks at once, in an order drawn from a seed. It is as strict as the language, not as lenient as
// some GPU: a barrier that not all threads of a block reach at the same place is an error, shared
// memory starts with all bits set, and an asynchronous copy arrives no earlier than the wait for
// it. It is sequentially consistent, so it cannot show races between blocks that come from a weaker
// memory model.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;

  unsigned count() const { return x * y * z; }
};

struct Block;
struct LaunchState;

struct Grid {
  std::string name;  // of the kernel, for messages
  Dim3 grid, block;  // a block has at most kMaxThreads threads
  std::size_t shared_bytes = 0;
  int priority = 0;                              // blocks of launches with a higher one begin first
  std::function<void()> kernel;                  // what every thread runs
  std::function<void(const Status&)> done = {};  // called once, by Step(); may be empty
};

/// Reported when all threads of a block have met at a barrier, before any thread goes on.
struct BarrierEvent {
  const std::string& kernel;
  unsigned block;          // linear index
  std::uint64_t barrier;   // number within this block, from 0
  std::uint64_t barriers;  // number among all barriers of the emulator, from 0
};

struct EmulatorOptions {
  std::uint64_t seed = 1;
  unsigned multiprocessors = 2;
  unsigned blocks_per_multiprocessor = 2;
  /// A launch that has not ended after so many steps fails: it waits for something that never
  /// comes.
  std::uint64_t max_steps = std::uint64_t{1} << 26;
};

inline constexpr unsigned kMaxThreads = 1024;

/// Not thread-safe: one thread calls it. Kernels run inside of Step(). Callbacks must not call
/// Step(). Callbacks and kernels may write memory that other kernels read.
class Emulator {
 public:
  explicit Emulator(const EmulatorOptions& options = {});
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  /// Launches run beside each other, in no order. `done` is called when the launch has ended, with
  /// its status. kInternal: the kernel is wrong (message: kernel, block, threads, place).
  /// kDeadlineExceeded: max_steps.
  void Submit(Grid launch);

  /// Runs one warp of one block until all its threads wait or have ended. False: nothing to do.
  bool Step();

  /// Submits the launch and steps until it has ended. Other launches go on meanwhile.
  Status Run(Grid launch);

  /// For tests: Step() calls `hook` at every barrier.
  void OnBarrier(std::function<void(const BarrierEvent&)> hook) { on_barrier_ = std::move(hook); }

  std::uint64_t barriers() const { return barriers_; }

 private:
  std::uint64_t Random();
  void Fill();
  void Begin(Block& block, LaunchState& launch, unsigned index);
  void RunWarp(Block& block);
  void Settle(Block& block);
  void ReleaseBarrier(Block& block);
  void End(Block& block);
  void Fail(LaunchState& launch, ErrorCode code, const std::string& message);
  void Retire(LaunchState& launch, const Status& status);

  EmulatorOptions options_;
  std::uint64_t random_;
  unsigned stay_ = 1;         // average number of steps that a block has in a row: 1, 8 or 64
  Block* running_ = nullptr;  // the block of the last step; null: none yet
  std::uint64_t barriers_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;  // one per place; idle: no launch
  std::vector<unsigned> resident_;              // indices of the places that are taken
  std::vector<std::unique_ptr<LaunchState>> launches_;
  std::function<void(const BarrierEvent&)> on_barrier_;
};

}  // namespace lagoon::simt

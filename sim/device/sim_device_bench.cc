// How fast the simulator is: blocks placed and ended per second of one core. Only the device, with
// the host's calls. `events` counts placements and completions.

#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "base/check.h"
#include "sim/device/sim_device.h"

namespace lagoon {
namespace {

struct Record {
  explicit Record(std::uint32_t blocks)
      : words(Progress::WordsFor(blocks)), progress(blocks, words) {
    progress.Reset();
  }
  std::vector<std::atomic<std::uint64_t>> words;
  Progress progress;
};

// Closed-loop clients with jobs that are chains of kernels: when a kernel retires, the one `depth`
// further on is submitted, as a dispatcher would.
class Clients {
 public:
  static constexpr std::size_t kKernels = 64, kDepth = 4;

  Clients(SimDevice& device, std::size_t clients, std::uint32_t blocks, const BlockDemand& demand)
      : device_(device), kernel_(*device.Load({"bench", nullptr}, {0, demand})), chains_(clients) {
    for (Chain& chain : chains_) {
      for (std::size_t i = 0; i < kKernels; ++i) {
        chain.records.push_back(std::make_unique<Record>(blocks));
      }
      chain.deps.resize(kKernels);
      for (std::size_t i = 0; i < kKernels; ++i) {
        chain.deps[i] = {&chain.records[i]->progress, blocks};
      }
    }
    for (std::size_t client = 0; client < clients; ++client) {
      for (std::size_t i = 0; i < kDepth; ++i) Submit(client);
    }
  }

  // Runs until `blocks` more have ended.
  void Run(std::uint64_t blocks) {
    const std::uint64_t end = device_.blocks_ended() + blocks;
    std::array<DeviceEvent, 64> events;
    while (device_.blocks_ended() < end) {
      const std::size_t count = device_.Poll(events);
      for (std::size_t i = 0; i < count; ++i) {
        if (events[i].kind == DeviceEvent::Kind::kRetired) Submit(Raw(events[i].launch));
      }
      if (count == 0) device_.Wait(kNoDeadline);
    }
  }

 private:
  struct Chain {
    std::vector<std::unique_ptr<Record>> records;
    std::vector<Dep> deps;
    std::size_t next = 0;  // counts all kernels ever submitted
  };

  void Submit(std::size_t client) {
    Chain& chain = chains_[client];
    const std::size_t at = chain.next++ % kKernels;
    Record& record = *chain.records[at];
    record.progress.Reset();
    Launch launch{.kernel = kernel_, .progress = &record.progress};
    if (chain.next > 1) launch.deps = {&chain.deps[(at + kKernels - 1) % kKernels], 1};
    const SubmitResult result = device_.Submit(launch.As(LaunchId{client}, kUnordered, client));
    LAGOON_CHECK(result == SubmitResult::kOk);
  }

  SimDevice& device_;
  KernelHandle kernel_;
  std::vector<Chain> chains_;
};

void Measure(benchmark::State& state, const BlockDemand& demand) {
  const auto device = *CreateSimDevice("gv100");
  Clients clients(*device, static_cast<std::size_t>(state.range(0)),
                  static_cast<std::uint32_t>(state.range(1)), demand);
  constexpr std::uint64_t kBlocks = 100'000;
  for (auto _ : state) clients.Run(kBlocks);
  state.counters["events"] =
      benchmark::Counter(2.0 * kBlocks * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

// Blocks of a kernel take equal times: they start and end in groups.
void BM_EqualBlocks(benchmark::State& state) {
  Measure(state, {.time = std::chrono::microseconds(50), .threads = 256});
}
BENCHMARK(BM_EqualBlocks)
    ->ArgNames({"clients", "blocks"})
    ->Args({1, 1})
    ->Args({6, 80})
    ->Args({6, 800})
    ->Args({64, 8});

// Every block ends at a time of its own: blocks cannot be grouped.
void BM_UnequalBlocks(benchmark::State& state) {
  Measure(state, {.time = std::chrono::microseconds(50), .time_spread = 0.3, .threads = 256});
}
BENCHMARK(BM_UnequalBlocks)
    ->ArgNames({"clients", "blocks"})
    ->Args({1, 1})
    ->Args({6, 80})
    ->Args({6, 800})
    ->Args({64, 8});

}  // namespace
}  // namespace lagoon

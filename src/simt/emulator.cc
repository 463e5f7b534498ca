#include "simt/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "simt/block.h"

namespace lagoon::simt {
namespace {

constexpr std::size_t kSharedAlignment = 128;

/// Allocates exactly `bytes`, so that AddressSanitizer sees accesses behind them. All bits are set.
std::unique_ptr<unsigned char, FreeShared> AllocateShared(std::size_t bytes) {
  void* memory = nullptr;
  LAGOON_CHECK(posix_memalign(&memory, kSharedAlignment, std::max<std::size_t>(bytes, 1)) == 0);
  std::memset(memory, 0xff, bytes);
  return std::unique_ptr<unsigned char, FreeShared>(static_cast<unsigned char*>(memory));
}

Dim3 Unflatten(unsigned linear, const Dim3& dim) {
  return {linear % dim.x, linear / dim.x % dim.y, linear / dim.x / dim.y};
}

std::string DescribeLane(const Lane& lane) {
  switch (lane.state) {
    case LaneState::kReady:
      return "can run";
    case LaneState::kAtBarrier:
      return fmt::format("at the barrier of {}:{}", lane.site.file, lane.site.line);
    case LaneState::kInWarpCall:
      return fmt::format("in the warp call of {}:{} with mask {:#x}", lane.site.file,
                         lane.site.line, lane.mask);
    case LaneState::kEnded:
      return "ended";
  }
  return "";
}

/// "96 threads (from 32 on) at the barrier of x.cuh:3, 32 threads (from 0 on) ended".
std::string DescribeThreads(const Block& block) {
  struct Group {
    std::string what;
    unsigned first, count;
  };
  std::vector<Group> groups;
  for (unsigned i = 0; i < block.threads; ++i) {
    const std::string what = DescribeLane(*block.lanes[i]);
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const Group& group) { return group.what == what; });
    if (same == groups.end()) same = groups.insert(groups.end(), {what, i, 0});
    ++same->count;
  }
  std::string text;
  for (const Group& group : groups) {
    text += fmt::format("{}{} threads (from {} on) {}", text.empty() ? "" : ", ", group.count,
                        group.first, group.what);
  }
  return text;
}

}  // namespace

void FreeShared::operator()(unsigned char* memory) const { std::free(memory); }

Emulator::Emulator(const EmulatorOptions& options)
    : options_(options), random_(options.seed * 0x2545f4914f6cdd1du + 1) {
  stay_ = 1u << Random() % 3 * 3;
  const unsigned places = options.multiprocessors * options.blocks_per_multiprocessor;
  LAGOON_CHECK(places > 0);
  for (unsigned i = 0; i < places; ++i) {
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->multiprocessor = i % options.multiprocessors;
    blocks_.back()->random = &random_;
  }
}

Emulator::~Emulator() = default;

std::uint64_t Emulator::Random() { return NextRandom(random_); }

void Emulator::Submit(Grid launch) {
  LAGOON_CHECK(launch.kernel != nullptr && launch.grid.count() > 0);
  LAGOON_CHECK(launch.block.count() > 0 && launch.block.count() <= kMaxThreads);
  auto state = std::make_unique<LaunchState>();
  state->launch = std::move(launch);
  // CUDA does not say in which order the blocks of a grid begin.
  for (unsigned i = 0; i < state->launch.grid.count(); ++i) state->order.push_back(i);
  for (std::size_t i = state->order.size(); i > 1; --i) {
    std::swap(state->order[i - 1], state->order[Random() % i]);
  }
  launches_.push_back(std::move(state));
}

void Emulator::Fill() {
  for (unsigned place = 0; place < blocks_.size(); ++place) {
    if (blocks_[place]->launch != nullptr) continue;
    std::vector<LaunchState*> waiting;
    for (const auto& launch : launches_) {
      if (launch->begun == launch->order.size()) continue;
      const int best = waiting.empty() ? launch->launch.priority : waiting[0]->launch.priority;
      if (launch->launch.priority < best) continue;
      if (launch->launch.priority > best) waiting.clear();
      waiting.push_back(launch.get());
    }
    if (waiting.empty()) return;
    LaunchState& launch = *waiting[Random() % waiting.size()];
    resident_.push_back(place);
    Begin(*blocks_[place], launch, launch.order[launch.begun++]);
  }
}

void Emulator::Begin(Block& block, LaunchState& launch, unsigned number) {
  const Grid& spec = launch.launch;
  block.launch = &launch;
  block.index = number;
  block.threads = spec.block.count();
  block.ended = block.at_barrier = block.true_at_barrier = 0;
  block.barriers = 0;
  block.yielded = false;
  block.fault.clear();
  block.dynamic_shared = AllocateShared(spec.shared_bytes);
  block.ready.assign((block.threads + kWarpLanes - 1) / kWarpLanes, 0);
  while (block.lanes.size() < block.threads) block.lanes.push_back(std::make_unique<Lane>());
  for (unsigned i = 0; i < block.threads; ++i) {
    Lane& lane = *block.lanes[i];
    lane.block = &block;
    lane.id = i;
    lane.index = {Unflatten(i, spec.block), Unflatten(number, spec.grid), spec.block, spec.grid};
    lane.state = LaneState::kReady;
    ++block.ready[i / kWarpLanes];
    StartLane(lane);
  }
}

bool Emulator::Step() {
  Fill();
  if (resident_.empty()) return false;
  // A block that runs on while others stand still shows other mistakes than turns of one step do.
  const bool stays = running_ != nullptr && running_->launch != nullptr && Random() % stay_ != 0;
  if (!stays) running_ = blocks_[resident_[Random() % resident_.size()]].get();
  Block& block = *running_;
  RunWarp(block);
  Settle(block);
  return true;
}

void Emulator::RunWarp(Block& block) {
  auto warp = static_cast<unsigned>(Random() % block.ready.size());
  while (block.ready[warp] == 0) warp = (warp + 1) % static_cast<unsigned>(block.ready.size());
  const unsigned first = warp * kWarpLanes;
  const unsigned lanes = std::min(kWarpLanes, block.threads - first);
  block.yielded = false;
  while (block.ready[warp] > 0 && !block.yielded && block.fault.empty()) {
    const std::uint64_t random = Random();
    const unsigned start = random % lanes;
    const unsigned stride = (random >> 32 & 1) == 0 ? 1 : lanes - 1;
    for (unsigned i = 0; i < lanes && block.fault.empty(); ++i) {
      Lane& lane = *block.lanes[first + (start + i * stride) % lanes];
      if (lane.state == LaneState::kReady) RunLane(lane);
    }
  }
}

void Emulator::Settle(Block& block) {
  LaunchState& launch = *block.launch;
  if (++launch.steps > options_.max_steps) {
    Fail(launch, ErrorCode::kDeadlineExceeded,
         fmt::format("kernel '{}' has not ended after {} steps; block {}: {}", launch.launch.name,
                     options_.max_steps, block.index, DescribeThreads(block)));
  } else if (!block.fault.empty()) {
    Fail(launch, ErrorCode::kInternal,
         fmt::format("kernel '{}', block {}: {}", launch.launch.name, block.index, block.fault));
  } else if (block.ended == block.threads) {
    End(block);
  } else if (block.at_barrier == block.threads) {
    ReleaseBarrier(block);
  } else if (std::all_of(block.ready.begin(), block.ready.end(),
                         [](unsigned ready) { return ready == 0; })) {
    Fail(launch, ErrorCode::kInternal,
         fmt::format("kernel '{}', block {}: deadlock: {}", launch.launch.name, block.index,
                     DescribeThreads(block)));
  }
}

void Emulator::ReleaseBarrier(Block& block) {
  const Site site = block.lanes[0]->site;
  for (unsigned i = 0; i < block.threads; ++i) {
    if (block.lanes[i]->site == site) continue;
    Fail(*block.launch, ErrorCode::kInternal,
         fmt::format("kernel '{}', block {}: threads meet at different barriers: {}",
                     block.launch->launch.name, block.index, DescribeThreads(block)));
    return;
  }
  const BarrierEvent event{block.launch->launch.name, block.index, block.barriers++, barriers_++};
  block.barrier_result = block.true_at_barrier;
  block.at_barrier = block.true_at_barrier = 0;
  for (unsigned i = 0; i < block.threads; ++i) {
    block.lanes[i]->state = LaneState::kReady;
    ++block.ready[i / kWarpLanes];
  }
  if (on_barrier_) on_barrier_(event);
}

void Emulator::End(Block& block) {
  LaunchState& launch = *block.launch;
  block.launch = nullptr;
  std::erase_if(resident_, [&](unsigned place) { return blocks_[place].get() == &block; });
  if (++launch.ended == launch.order.size()) Retire(launch, {});
}

void Emulator::Fail(LaunchState& launch, ErrorCode code, const std::string& message) {
  for (const unsigned place : resident_) {
    Block& block = *blocks_[place];
    if (block.launch != &launch) continue;
    for (unsigned i = 0; i < block.threads; ++i) DropLane(*block.lanes[i]);
    block.launch = nullptr;
  }
  std::erase_if(resident_, [&](unsigned place) { return blocks_[place]->launch == nullptr; });
  Retire(launch, lagoon::Fail(code, message));
}

void Emulator::Retire(LaunchState& launch, const Status& status) {
  const auto found = std::find_if(launches_.begin(), launches_.end(),
                                  [&](const auto& other) { return other.get() == &launch; });
  const std::unique_ptr<LaunchState> owned = std::move(*found);
  launches_.erase(found);
  if (owned->launch.done) owned->launch.done(status);
}

Status Emulator::Run(Grid launch) {
  bool ended = false;
  Status result;
  auto done = std::move(launch.done);
  launch.done = [&](const Status& status) {
    ended = true;
    result = status;
    if (done) done(status);
  };
  Submit(std::move(launch));
  while (!ended) LAGOON_CHECK(Step());
  return result;
}

}  // namespace lagoon::simt

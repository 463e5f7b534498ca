#include "simt/thread.h"

#include <cstring>

#include "base/check.h"
#include "simt/block.h"

namespace lagoon::simt {
namespace {

constinit thread_local Lane* current = nullptr;

Lane& Current() {
  LAGOON_CHECK(current != nullptr);
  return *current;
}

unsigned& ReadyOf(Lane& lane) { return lane.block->ready[lane.id / kWarpLanes]; }

void Wait(Lane& lane, LaneState state, Site site) {
  lane.state = state;
  lane.site = site;
  --ReadyOf(lane);
  lane.fiber.Pause();
}

void Arrive(Lane& lane, std::size_t copies) {
  for (std::size_t i = 0; i < copies; ++i) {
    const AsyncCopy& copy = lane.copies[i];
    auto* target = static_cast<unsigned char*>(copy.target);
    if (copy.bytes != 0) std::memcpy(target, copy.source, copy.bytes);
    std::memset(target + copy.bytes, 0, copy.target_bytes - copy.bytes);
  }
  lane.copies.erase(lane.copies.begin(), lane.copies.begin() + static_cast<std::ptrdiff_t>(copies));
}

/// The last lane to call computes for all. False: some lanes are still missing.
bool TryWarpCall(Lane& caller) {
  const unsigned first = caller.id / kWarpLanes * kWarpLanes;
  WarpCall call{{}, {}, caller.mask};
  for (unsigned l = 0; l < kWarpLanes; ++l) {
    if ((caller.mask >> l & 1) == 0) continue;
    if (first + l >= caller.block->threads)
      Trap("a warp call names a lane that is not there", caller.site);
    const Lane& lane = *caller.block->lanes[first + l];
    if (&lane != &caller && lane.state != LaneState::kInWarpCall) return false;
    if (lane.op != caller.op || lane.mask != caller.mask) return false;
    call.in[l] = lane.in;
    call.out[l] = lane.out;
  }
  caller.op(call);
  for (unsigned l = 0; l < kWarpLanes; ++l) {
    if ((caller.mask >> l & 1) == 0 || first + l == caller.id) continue;
    caller.block->lanes[first + l]->state = LaneState::kReady;
    ++ReadyOf(caller);
  }
  return true;
}

void RunThread(void* argument) {
  auto& lane = *static_cast<Lane*>(argument);
  lane.block->launch->launch.kernel();
  lane.state = LaneState::kEnded;
  --ReadyOf(lane);
  ++lane.block->ended;
}

}  // namespace

thread_local constinit ThreadIndex index;

bool Site::operator==(const Site& other) const {
  return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
}

void StartLane(Lane& lane) {
  lane.copies.clear();
  lane.groups.clear();
  lane.fiber.Start(RunThread, &lane);
}

void DropLane(Lane& lane) { lane.fiber.Drop(); }

void RunLane(Lane& lane) {
  current = &lane;
  index = lane.index;
  lane.fiber.Resume();
  current = nullptr;
}

unsigned Barrier(bool predicate, Site site) {
  Lane& lane = Current();
  ++lane.block->at_barrier;
  if (predicate) ++lane.block->true_at_barrier;
  Wait(lane, LaneState::kAtBarrier, site);
  return lane.block->barrier_result;
}

void CallWarp(WarpOp op, std::uint32_t mask, const void* in, void* out, Site site) {
  Lane& lane = Current();
  lane.op = op;
  lane.mask = mask;
  lane.in = in;
  lane.out = out;
  lane.site = site;
  if ((mask >> LaneId() & 1) == 0) Trap("a warp call whose mask lacks the calling lane", site);
  if (!TryWarpCall(lane)) Wait(lane, LaneState::kInWarpCall, site);
}

unsigned LaneId() { return Current().id % kWarpLanes; }
unsigned MultiprocessorId() { return Current().block->multiprocessor; }

void CopyAsync(void* target, const void* source, std::size_t bytes, std::size_t target_bytes) {
  LAGOON_CHECK(bytes <= target_bytes);
  std::memset(target, 0xff, target_bytes);
  Current().copies.push_back({target, source, bytes, target_bytes});
}

void CommitCopies() {
  Lane& lane = Current();
  std::size_t open = lane.copies.size();
  for (const std::size_t group : lane.groups) open -= group;
  lane.groups.push_back(open);
}

void WaitCopies(unsigned pending) {
  Lane& lane = Current();
  while (lane.groups.size() > pending) {
    Arrive(lane, lane.groups.front());
    lane.groups.erase(lane.groups.begin());
  }
}

void WaitAllCopies() {
  Lane& lane = Current();
  Arrive(lane, lane.copies.size());
  lane.groups.clear();
}

void MayYield() {
  if ((NextRandom(*Current().block->random) & 7) == 0) Yield();
}

void Yield() {
  Lane& lane = Current();
  lane.block->yielded = true;
  lane.fiber.Pause();
}

void Trap(const char* message, Site site) {
  Lane& lane = Current();
  lane.block->fault = std::string(message) + " (" + site.file + ":" + std::to_string(site.line) +
                      ", thread " + std::to_string(lane.id) + ")";
  for (;;) lane.fiber.Pause();
}

unsigned char* DynamicShared() { return Current().block->dynamic_shared.get(); }

}  // namespace lagoon::simt

#pragma once

// Bodies that measure the GPU itself: how soon blocks see a written word, and how soon they leave.

#include "bench/gpu/plain.cuh"
#include "bench/gpu/probe_args.cuh"
#include "device/cuda/gpu/entry.cuh"

namespace lagoon::cuda::probe {

LAGOON_DEVICE bool Watch(const WatchArgs& args, u32 tile) {
  if (threadIdx.x != 0) return true;
  const u64 end = TimerNanoseconds() + args.patience_ns;
  u64 told = 0;
  while (told <= args.last && TimerNanoseconds() < end) {
    const u64 seen = u64{1} + (args.pinned != 0 ? LoadFromHost(args.word) : LoadRelaxed(args.word));
    if (seen == told) continue;
    StoreToHost(args.seen + tile, seen);
    told = seen;
  }
  return true;
}

LAGOON_DEVICE bool Busy(const BusyArgs& args, u32 tile) {
  constexpr u32 kReadsPerLook = 256;
  const u64 end = TimerNanoseconds() + args.patience_ns;
  u32 at = (tile * blockDim.x + threadIdx.x) * 4;
  float sum = 0;
  if (threadIdx.x == 0) *args.running = 1;
  for (;;) {
    const bool leave =
        threadIdx.x == 0 && (LoadFromHost(args.stop) != 0 || TimerNanoseconds() > end);
    if (__syncthreads_or(leave ? 1 : 0) != 0) break;
    for (u32 i = 0; i < kReadsPerLook; ++i) {
      sum = sum * 0.5F + args.data[at & (args.elements - 1)];
      at += gridDim.x * blockDim.x * 4;
    }
  }
  if (sum > 1e30F) *args.sink = sum;
  return true;
}

LAGOON_DEVICE bool Spin(const SpinArgs& args, const BlockControl& control) {
  for (u32 i = 0; i < args.pieces; ++i) {
    if (args.look != 0 && control.SyncShouldLeave()) return false;
    const u64 end = TimerNanoseconds() + args.piece_ns;
    while (TimerNanoseconds() < end) {
    }
  }
  return true;
}

struct Bodies {
  static constexpr u32 kThreads = probe::kThreads;
  // Figures of several versions are comparable only if a multiprocessor holds as many blocks in
  // each: how soon one of them ends depends on their number. So the protocol's registers must not
  // decide about it.
  static constexpr u32 kMinBlocks = 5;
  static constexpr u32 kArgsBytes = kMostArgsBytes;

  LAGOON_DEVICE static bool Run(u32 body, const void* args, u32 tile, unsigned char*,
                                const BlockControl& control) {
    switch (static_cast<Body>(body)) {
      case Body::kWatch:
        return Watch(*static_cast<const WatchArgs*>(args), tile);
      case Body::kBusy:
        return Busy(*static_cast<const BusyArgs*>(args), tile);
      case Body::kSpin:
        return Spin(*static_cast<const SpinArgs*>(args), control);
    }
    return true;
  }
};

}  // namespace lagoon::cuda::probe

LAGOON_CUDA_ENTRY(lagoon_probe, lagoon::cuda::probe::Bodies)
LAGOON_CUDA_PLAIN_ENTRY(lagoon_watch, lagoon::cuda::probe::Bodies)
LAGOON_CUDA_PLAIN_ENTRY(lagoon_busy, lagoon::cuda::probe::Bodies)

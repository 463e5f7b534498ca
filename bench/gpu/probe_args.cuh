#pragma once

// The arguments of the bodies in probe_bodies.cuh, for host and device.

#include "device/cuda/types.cuh"

namespace lagoon::cuda::probe {

inline constexpr u32 kThreads = 256;  // of a block

enum class Body : u32 { kWatch, kBusy, kSpin };

/// Thread 0 looks at a word and says what it sees.
struct WatchArgs {
  const u32* word;  // counts up from 0
  u64* seen;        // pinned, a word a tile: what it saw last, plus 1
  u32 last;         // leaves at this value
  u32 pinned;       // 1: `word` is host memory
  u64 patience_ns;  // leaves after so long, whatever happens
};

/// Reads memory and multiplies, until it is told to leave.
struct BusyArgs {
  const float* data;
  float* sink;      // never written, but the compiler cannot know
  const u32* stop;  // pinned: not 0, leave
  u32* running;     // pinned: 1 from the first block on
  u32 elements;     // of data, a power of two
  u32 unused;
  u64 patience_ns;
};

/// Takes its time in pieces, between which it may look at its guards.
struct SpinArgs {
  u64 piece_ns;
  u32 pieces;
  u32 look;  // 1: between pieces; 0: never
};

}  // namespace lagoon::cuda::probe

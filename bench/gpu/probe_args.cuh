#pragma once

// The arguments of the bodies in probe_bodies.cuh. Host and device code include this file.

#include "device/cuda/gpu/types.cuh"

namespace lagoon::cuda::probe {

inline constexpr u32 kThreads = 256;  // threads of a block

enum class Body : u32 { kWatch, kBusy, kSpin };

/// Thread 0 reads a word again and again, and reports each new value.
struct WatchArgs {
  const u32* word;  // counts up from 0
  u64* seen;        // pinned, one word per tile: the last value seen, plus 1
  u32 last;         // the body ends when `word` has this value
  u32 pinned;       // 1: `word` is in host memory
  u64 patience_ns;  // the body ends after this time in any case
};

/// Reads memory and multiplies, until `stop` is set.
struct BusyArgs {
  const float* data;
  float* sink;      // never written, but the compiler must not find out
  const u32* stop;  // pinned: the body ends when this word is not 0
  u32* running;     // pinned: 1 as soon as a block runs
  u32 elements;     // number of elements of `data`, a power of two
  u32 unused;
  u64 patience_ns;  // the body ends after this time in any case
};

/// Waits in pieces, and may check its guards before each piece.
struct SpinArgs {
  u64 piece_ns;
  u32 pieces;
  u32 look;  // 1: checks before each piece; 0: never checks
};

/// Bytes of the largest arguments.
inline constexpr u32 kMostArgsBytes = sizeof(BusyArgs);
static_assert(sizeof(WatchArgs) <= kMostArgsBytes && sizeof(SpinArgs) <= kMostArgsBytes);

}  // namespace lagoon::cuda::probe

#pragma once

// The bodies of the conformance suite as CUDA bodies. Each gets a pointer to the suite's arguments.
// The layouts of the arguments are repeated here; a host test compares them.

#include "device/cuda/gpu/entry.cuh"

namespace lagoon::cuda::suite {

struct CountArgs {
  int runs, inside, most_inside;
  long long work_ns;
};
struct GateArgs {
  int waiting;
  bool open;
};
struct LogArgs {
  int* next;
  int* list;
  int name;
};
struct MixArgs {
  const unsigned long* x;
  u32 x_count;
  unsigned long* y;
  bool in_place;
  int checks;
  int* check_count;
  int stop_at;
  bool* stopped;
  bool* resume;
  int* left;
  long long work_ns;
};
enum class Body : u32 { kCount, kGate, kLog, kMix };

/// Spins for at least this long. Other blocks go on meanwhile.
LAGOON_DEVICE void Spin(long long nanoseconds) {
  if (nanoseconds <= 0) return;
  const u64 until = TimerNanoseconds() + static_cast<u64>(nanoseconds);
  while (TimerNanoseconds() < until) __nanosleep(100);
}

template <typename T>
LAGOON_DEVICE T Add(T* word, T value) {
#if LAGOON_CUDA_COMPILER
  return atomicAdd_system(word, value);
#else
  return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
#endif
}

LAGOON_DEVICE bool Read(const bool* word) {
#if LAGOON_CUDA_COMPILER
  return *static_cast<const volatile bool*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

LAGOON_DEVICE void Set(bool* word) {
#if LAGOON_CUDA_COMPILER
  __threadfence_system();
  *static_cast<volatile bool*>(word) = true;
#else
  __atomic_store_n(word, true, __ATOMIC_RELEASE);
#endif
}

LAGOON_DEVICE void Maximize(int* word, int value) {
#if LAGOON_CUDA_COMPILER
  atomicMax_system(word, value);
#else
  int seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (value > seen && !__atomic_compare_exchange_n(word, &seen, value, false, __ATOMIC_SEQ_CST,
                                                      __ATOMIC_RELAXED)) {
  }
#endif
}

/// Waits with the whole block until thread 0 reads true.
LAGOON_DEVICE void Await(const bool* word) {
  while (__syncthreads_or(threadIdx.x == 0 && Read(word) ? 1 : 0) == 0) {
  }
}

LAGOON_DEVICE bool RunCount(CountArgs& args) {
  if (threadIdx.x == 0) {
    Maximize(&args.most_inside, Add(&args.inside, 1) + 1);
    Spin(args.work_ns);
    Add(&args.inside, -1);
    Add(&args.runs, 1);
  }
  return true;
}

LAGOON_DEVICE bool RunGate(GateArgs& args) {
  if (threadIdx.x == 0) Add(&args.waiting, 1);
  Await(&args.open);
  return true;
}

LAGOON_DEVICE bool RunLog(const LogArgs& args) {
  if (threadIdx.x == 0) args.list[Add(args.next, 1)] = args.name;
  return true;
}

LAGOON_DEVICE unsigned long Mix(unsigned long a, unsigned long b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccd;
}

LAGOON_DEVICE bool RunMix(const MixArgs& args, u32 tile, const BlockControl& control) {
  unsigned long value = args.in_place ? args.y[tile] : tile;
  for (u32 i = 0; i < args.x_count; ++i) value = Mix(value, args.x[i]);
  value = Mix(value, tile + 1);
  for (int i = 0; i < args.checks; ++i) {
    bool stop = false;
    if (threadIdx.x == 0 && args.check_count != nullptr) {
      stop = Add(args.check_count, 1) + 1 == args.stop_at;
      if (stop) Set(args.stopped);
    }
    if (__syncthreads_or(stop ? 1 : 0) != 0) Await(args.resume);
    if (control.SyncShouldLeave()) {
      if (threadIdx.x == 0 && args.left != nullptr) Add(args.left, 1);
      return false;
    }
    if (threadIdx.x == 0) Spin(args.work_ns);
  }
  if (threadIdx.x == 0) args.y[tile] = value;
  return true;
}

struct Bodies {
  // One warp: the bodies have work for one thread.
  static constexpr u32 kThreads = 32;
  static constexpr u32 kMinBlocks = 1;
  static constexpr u32 kArgsBytes = sizeof(void*);

  LAGOON_DEVICE static bool Run(u32 body, const void* args, u32 tile, unsigned char*,
                                const BlockControl& control) {
    void* const own = *static_cast<void* const*>(args);
    switch (static_cast<Body>(body)) {
      case Body::kCount:
        return RunCount(*static_cast<CountArgs*>(own));
      case Body::kGate:
        return RunGate(*static_cast<GateArgs*>(own));
      case Body::kLog:
        return RunLog(*static_cast<const LogArgs*>(own));
      case Body::kMix:
        return RunMix(*static_cast<const MixArgs*>(own), tile, control);
    }
    return true;
  }
};

}  // namespace lagoon::cuda::suite

LAGOON_CUDA_ENTRY(lagoon_suite, lagoon::cuda::suite::Bodies)

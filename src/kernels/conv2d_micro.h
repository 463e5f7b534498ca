#pragma once

#include <cstddef>
#include <cstdint>

namespace lagoon {

/// Where finished values go: y[row * pitch + column] = limit(sum + residual[same as y]).
struct ConvStore {
  float* y;
  const float* residual;  // null: none
  std::size_t pitch;      // floats between rows
  float low, high;
};

/// Memory to ask for during the arithmetic: kPrefetchBytes from `next` on, then `stride` bytes
/// further, and so on.
struct PrefetchStream {
  const std::byte* next;
  std::size_t stride;
  std::uint32_t steps;  // each of kDepthStep floats of the depth
};
inline constexpr std::uint32_t kDepthStep = 4;
inline constexpr std::size_t kPrefetchBytes = 128;

/// One call of the micro-kernel: some rows (pixels) times one panel (channels) over a part of the
/// depth. Sums start from `bias`, or with `resume` from `acc`.
struct MicroTile {
  const std::byte* a;       // input of row 0 at the first tap
  std::size_t pitch;        // bytes between rows
  const float* weights;     // of the panel at the first tap: [depth][panel width], 64-byte aligned
  std::uint32_t taps;       // how many
  std::uint32_t tap_depth;  // floats of each
  std::uint32_t column;     // the first tap's kernel column
  std::uint32_t columns;    // taps of a kernel row
  std::ptrdiff_t next_column,
      next_row;  // bytes to the next tap, in the same or in the next kernel row
  std::uint32_t zero_first, zero_last;  // bit c: at column c the first, last row is padding
  const std::byte* zeros;               // tap_depth zeros, for those
  const float* bias;                    // [panel width]
  float* acc;                           // [row][panel width], 64-byte aligned
  bool resume;
  bool finish;  // store to `store` instead of leaving the sums in `acc`
  ConvStore store;
  PrefetchStream* prefetch;  // one after the other; the last never ends. Left as far as it came.
  std::uint32_t prefetch_burst;  // requests of a stream in one step, at least 1
};

}  // namespace lagoon

#pragma once

#include <cstddef>
#include <cstdint>

namespace lagoon {

/// Where finished values go: y[row's place + column] = limit(sum + residual[same as y]).
struct ConvStore {
  float* y;
  const float* residual;    // null: none
  std::size_t pitch;        // floats between rows
  const std::size_t* rows;  // null: none; else the floats from y to each row, instead of the pitch
  float low, high;
};

/// A stream of prefetches during the arithmetic: kPrefetchBytes at `next`, then at `next` +
/// `stride`, and so on.
struct PrefetchStream {
  const std::byte* next;
  std::size_t stride;
  std::uint32_t steps;  // remaining steps, of kDepthStep floats of the depth each
};
inline constexpr std::uint32_t kDepthStep = 4;
inline constexpr std::size_t kPrefetchBytes = 128;

/// One call of the micro-kernel: some rows (pixels) times one panel (channels) over a part of the
/// depth. Sums start from `bias`, or with `resume` from `acc`.
///
/// The rows are neighbours, `pitch` bytes apart, or a list: then each has a pointer of its own.
/// Outside the image, `zeros` are read instead. A tap that is outside for all rows of a list is
/// skipped.
struct MicroTile {
  const std::byte* a;  // input of row 0 at the first tap; list: less rows[0]
  std::size_t pitch;   // neighbours: bytes between rows
  /// Neighbours: bit c: at column c, the first or last row is padding.
  std::uint32_t zero_first, zero_last;
  const std::ptrdiff_t* rows;  // list: the input of each row, in bytes from `a`
  /// List: bit r of element k: kernel row or column k of row r is inside the image.
  const std::uint32_t *inside_rows, *inside_columns;
  const std::byte* zeros;  // tap_depth zeros
  /// Weights of the panel at the first tap: [depth][panel width], 64-byte aligned.
  const float* weights;
  std::uint32_t taps;       // number of taps
  std::uint32_t tap_depth;  // floats per tap
  std::uint32_t row;        // list: kernel row of the first tap
  std::uint32_t column;     // kernel column of the first tap
  std::uint32_t columns;    // taps per kernel row
  /// Bytes to the next tap, if it lies in the same kernel row and if it lies in the next one.
  std::ptrdiff_t next_column, next_row;
  const float* bias;  // [panel width]
  float* acc;         // [row][panel width], 64-byte aligned
  bool resume;
  bool finish;  // true: write results to `store`; false: leave the sums in `acc`
  ConvStore store;
  std::uint32_t store_columns;  // columns of the panel that exist: only these are stored
  /// Neighbours with one tap: as many such tiles, one behind the other in the input and in y; their
  /// sums lie `acc_pitch` floats apart.
  std::uint32_t repeats;
  std::size_t acc_pitch;
  /// Streams that are walked one after the other; the last one has no end. A call leaves the
  /// pointer and the stream at the position that it reached.
  PrefetchStream* prefetch;
  std::uint32_t prefetch_burst;  // requests of a stream in one step, at least 1
};

}  // namespace lagoon

// The micro-kernel of conv2d, once per Highway target. Include after foreach_target.h.

#if defined(LAGOON_KERNELS_CONV2D_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_CONV2D_MICRO_INL_H_
#undef LAGOON_KERNELS_CONV2D_MICRO_INL_H_
#else
#define LAGOON_KERNELS_CONV2D_MICRO_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/cache_control.h"
#include "kernels/conv/conv2d_micro.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace conv {

using simd::D;
using simd::V;
namespace hn = simd::hn;

// A micro-tile has two vectors of columns, and as many rows as leave two registers for the weights
// and one for the input.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kMaxRows = 14;
#else
inline constexpr int kMaxRows = 6;
#endif
inline constexpr int kMaxVectors = 2;

HWY_INLINE const float* Floats(const std::byte* p) { return reinterpret_cast<const float*>(p); }

/// Pointers to the input of `kRows` pixels, `pitch` bytes apart. The first and the last pixel have
/// pointers of their own because they may be padding. One pointer serves three rows through [p +
/// pitch] and [p + 2 * pitch]: with one pointer per row, x86 would run out of registers.
template <int kRows>
struct RowPointers {
  static constexpr int kGroups = kRows > 2 ? kRows / 3 : 0;
  const std::byte* first;
  const std::byte* last;
  std::array<const std::byte*, kGroups + 1> middle{};  // one too many: arrays cannot be empty

  HWY_INLINE RowPointers(const MicroTile& tile, const std::byte* a, std::uint32_t tap) {
    first = (tile.zero_first >> tap & 1) != 0 ? tile.zeros : a;
    last = (tile.zero_last >> tap & 1) != 0 ? tile.zeros : a + (kRows - 1) * tile.pitch;
    LAGOON_UNROLL for (int g = 0; g < kGroups; ++g) middle[g] = a + (1 + 3 * g) * tile.pitch;
  }
  HWY_INLINE const std::byte* Row(int row, std::size_t pitch) const {
    if (row == 0) return first;
    if (row == kRows - 1) return last;
    return middle[(row - 1) / 3] + (row - 1) % 3 * pitch;
  }
  HWY_INLINE void Advance(std::size_t bytes) {
    first += bytes;
    last += bytes;
    LAGOON_UNROLL for (int g = 0; g < kGroups; ++g) middle[g] += bytes;
  }
};

template <int kRows, int kVectors>
struct Accumulators {
  V v[kRows][kVectors];

  HWY_INLINE void Load(const float* from) {
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
        v[r][j] = hn::Load(D(), from + (r * kVectors + j) * hn::MaxLanes(D()));
      }
    }
  }
  HWY_INLINE void Fill(const float* bias) {
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
        v[r][j] = hn::LoadU(D(), bias + j * hn::MaxLanes(D()));
      }
    }
  }
  HWY_INLINE void Store(float* to) const {
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
        hn::Store(v[r][j], D(), to + (r * kVectors + j) * hn::MaxLanes(D()));
      }
    }
  }
  /// One step of the depth. `b`: the row of the panel for this step; `k`: byte offset of the step
  /// from the row pointers.
  HWY_INLINE void Step(const RowPointers<kRows>& rows, std::size_t pitch, const float* b,
                       std::size_t k) {
    V weights[kVectors];
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      weights[j] = hn::Load(D(), b + j * hn::MaxLanes(D()));
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(D(), *Floats(rows.Row(r, pitch) + k));
      LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) v[r][j] = hn::MulAdd(a, weights[j], v[r][j]);
    }
  }
};

/// Writes the rows of a panel one after the other; all columns of the panel exist.
template <int kVectors>
class RowStore {
 public:
  explicit HWY_INLINE RowStore(const ConvStore& store)
      : low_(hn::Set(D(), store.low)),
        high_(hn::Set(D(), store.high)),
        y_(store.y),
        residual_(store.residual),
        pitch_(store.pitch) {}
  template <bool kResidual>
  HWY_INLINE void Write(const V* sums) {
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      constexpr std::size_t kLanes = hn::MaxLanes(D());
      V v = sums[j];
      if constexpr (kResidual) v = hn::Add(v, hn::LoadU(D(), residual_ + j * kLanes));
      hn::StoreU(simd::Clamp(v, low_, high_), D(), y_ + j * kLanes);
    }
    y_ += pitch_;
    if constexpr (kResidual) residual_ += pitch_;
  }

 private:
  const V low_, high_;
  float* y_;
  const float* residual_;
  const std::size_t pitch_;
};

/// y = limit(sums + residual), from registers.
template <bool kResidual, int kRows, int kVectors>
HWY_INLINE void Finish(const Accumulators<kRows, kVectors>& acc, const ConvStore& store) {
  RowStore<kVectors> rows(store);
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) rows.template Write<kResidual>(acc.v[r]);
}

/// Walks the prefetch streams. Save() stores the position, so that the next call continues there.
/// Copies field by field: a copy of the whole struct would read several fields at once that were
/// written one by one, and would wait for these writes.
class Prefetcher {
 public:
  explicit HWY_INLINE Prefetcher(const MicroTile& tile)
      : stream_(tile.prefetch), burst_(tile.prefetch_burst) {
    Load();
  }
  HWY_INLINE void Step() {
    std::uint32_t requests = burst_;
    do {
      hwy::Prefetch(next_);
      hwy::Prefetch(next_ + kPrefetchBytes / 2);
      next_ += stride_;
    } while (--requests != 0);
    if (HWY_UNLIKELY(--steps_ == 0)) {
      ++stream_;
      Load();
    }
  }
  HWY_INLINE void Save(MicroTile& tile) const {
    stream_->next = next_;
    stream_->steps = steps_;
    tile.prefetch = stream_;
  }

 private:
  HWY_INLINE void Load() {
    next_ = stream_->next;
    stride_ = stream_->stride;
    steps_ = stream_->steps;
  }

  PrefetchStream* stream_;
  const std::byte* next_;
  std::size_t stride_;
  std::uint32_t steps_;
  const std::uint32_t burst_;
};

/// The micro-kernel. Not inlined, because inlined code would spill registers.
template <int kRows, int kVectors>
HWY_NOINLINE void Multiply(MicroTile& tile) {
  constexpr std::size_t kWidth = kVectors * hn::MaxLanes(D());
  const std::size_t pitch = tile.pitch;
  Accumulators<kRows, kVectors> acc;
  if (tile.resume) {
    acc.Load(tile.acc);
  } else {
    acc.Fill(tile.bias);
  }
  Prefetcher prefetcher(tile);
  const float* b = tile.weights;
  const std::byte* a = tile.a;
  std::uint32_t column = tile.column;
  for (std::uint32_t tap = 0; tap < tile.taps; ++tap) {
    RowPointers<kRows> rows(tile, a, column);
    std::uint32_t left = tile.tap_depth;
    for (; left >= kDepthStep; left -= kDepthStep) {
      prefetcher.Step();
      LAGOON_UNROLL for (std::size_t u = 0; u < kDepthStep; ++u) {
        acc.Step(rows, pitch, b + u * kWidth, u * sizeof(float));
      }
      b += kDepthStep * kWidth;
      rows.Advance(kDepthStep * sizeof(float));
    }
    for (; left > 0; --left) {
      acc.Step(rows, pitch, b, 0);
      b += kWidth;
      rows.Advance(sizeof(float));
    }
    const bool wraps = ++column == tile.columns;
    a += wraps ? tile.next_row : tile.next_column;
    if (wraps) column = 0;
  }
  prefetcher.Save(tile);
  if (!tile.finish) {
    acc.Store(tile.acc);
  } else if (tile.store.residual != nullptr) {
    Finish<true>(acc, tile.store);
  } else {
    Finish<false>(acc, tile.store);
  }
}

using MultiplyFn = void (*)(MicroTile&);

template <int kVectors, std::size_t... kRow>
constexpr std::array<MultiplyFn, kMaxRows> MultiplyTable(std::index_sequence<kRow...>) {
  return {&Multiply<static_cast<int>(kRow) + 1, kVectors>...};
}

inline constexpr std::array<MultiplyFn, kMaxRows> kMultiply[kMaxVectors] = {
    MultiplyTable<1>(std::make_index_sequence<kMaxRows>()),
    MultiplyTable<2>(std::make_index_sequence<kMaxRows>()),
};

/// The same from scratch memory, for a panel whose columns all exist.
template <int kVectors, bool kResidual>
HWY_INLINE void StoreWhole(const float* acc, std::size_t count, const ConvStore& store) {
  RowStore<kVectors> rows(store);
  for (std::size_t row = 0; row < count; ++row) {
    V v[kVectors];
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      v[j] = hn::Load(D(), acc + j * hn::MaxLanes(D()));
    }
    rows.template Write<kResidual>(v);
    acc += kVectors * hn::MaxLanes(D());
  }
}

/// The same for a panel of which only the first `columns` columns exist.
inline void StorePart(const float* acc, std::size_t rows, std::size_t vectors, std::size_t columns,
                      const ConvStore& store) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const V low = hn::Set(D(), store.low), high = hn::Set(D(), store.high);
  const auto finish = [&](std::size_t row, std::size_t column, const auto& move) HWY_ATTR {
    V v = hn::Load(D(), acc + row * vectors * kLanes + column);
    const std::size_t at = row * store.pitch + column;
    if (store.residual != nullptr) v = hn::Add(v, move.Load(store.residual + at));
    move.Store(simd::Clamp(v, low, high), store.y + at);
  };
  const std::size_t whole = columns / kLanes * kLanes;
  const simd::Part part(columns - whole);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < whole; column += kLanes) {
      finish(row, column, simd::Whole());
    }
    if (whole < columns) finish(row, whole, part);
  }
}

/// `vectors`: vectors of the panel; `columns`: number of its columns that exist.
inline void StoreRows(const float* acc, std::size_t rows, std::size_t vectors, std::size_t columns,
                      const ConvStore& store) {
  if (columns < vectors * hn::MaxLanes(D())) return StorePart(acc, rows, vectors, columns, store);
  if (vectors == 1) {
    return store.residual != nullptr ? StoreWhole<1, true>(acc, rows, store)
                                     : StoreWhole<1, false>(acc, rows, store);
  }
  return store.residual != nullptr ? StoreWhole<2, true>(acc, rows, store)
                                   : StoreWhole<2, false>(acc, rows, store);
}

}  // namespace conv
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_CONV2D_MICRO_INL_H_

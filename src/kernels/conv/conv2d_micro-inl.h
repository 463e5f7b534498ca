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
#include <type_traits>
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

/// Pointers to the input of `kRows` neighbours, `pitch` bytes apart. The first and the last pixel
/// have pointers of their own because they may be padding. One pointer serves three rows through
/// [p + pitch] and [p + 2 * pitch]: with one pointer per row, x86 would run out of registers.
template <int kRows>
class Neighbours {
 public:
  explicit HWY_INLINE Neighbours(const MicroTile& tile, std::size_t repeat)
      : pitch_(tile.pitch), tap_(tile.a + repeat * kRows * tile.pitch), column_(tile.column) {}
  HWY_INLINE bool Enter(const MicroTile& tile) {
    first_ = (tile.zero_first >> column_ & 1) != 0 ? tile.zeros : tap_;
    last_ = (tile.zero_last >> column_ & 1) != 0 ? tile.zeros : tap_ + (kRows - 1) * pitch_;
    LAGOON_UNROLL for (int g = 0; g < kGroups; ++g) middle_[g] = tap_ + (1 + 3 * g) * pitch_;
    return true;
  }
  HWY_INLINE void Next(const MicroTile& tile) {
    const bool wraps = ++column_ == tile.columns;
    tap_ += wraps ? tile.next_row : tile.next_column;
    if (wraps) column_ = 0;
  }
  HWY_INLINE const float* Row(int row) const {
    if (row == 0) return Floats(first_);
    if (row == kRows - 1) return Floats(last_);
    return Floats(middle_[(row - 1) / 3] + (row - 1) % 3 * pitch_);
  }
  HWY_INLINE void Advance(std::size_t bytes) {
    first_ += bytes;
    last_ += bytes;
    LAGOON_UNROLL for (int g = 0; g < kGroups; ++g) middle_[g] += bytes;
  }

 private:
  static constexpr int kGroups = kRows > 2 ? kRows / 3 : 0;
  const std::size_t pitch_;
  const std::byte* tap_;
  std::uint32_t column_;
  const std::byte* first_ = nullptr;
  const std::byte* last_ = nullptr;
  std::array<const std::byte*, kGroups + 1> middle_{};  // one too many: arrays cannot be empty
};

/// Pointers to the input of `kRows` pixels of a list. They stay while all pixels are inside the
/// image, and a common distance leads to the tap.
template <int kRows>
class Listed {
 public:
  explicit HWY_INLINE Listed(const MicroTile& tile, std::size_t /*repeat*/)
      : row_(tile.row), column_(tile.column) {
    PointInside(tile);
  }
  /// Returns false if the tap is outside the image for all rows.
  HWY_INLINE bool Enter(const MicroTile& tile) {
    constexpr std::uint32_t kAll = (1u << kRows) - 1;
    const std::uint32_t inside = tile.inside_rows[row_] & tile.inside_columns[column_];
    at_ = tap_;
    if (HWY_LIKELY(inside == kAll)) {
      if (HWY_UNLIKELY(!all_inside_)) PointInside(tile);
      all_inside_ = true;
      return true;
    }
    if (inside == 0) return false;
    all_inside_ = false;
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      from_[r] = (inside >> r & 1) != 0 ? tile.a + tile.rows[r] : tile.zeros - tap_;
    }
    return true;
  }
  HWY_INLINE void Next(const MicroTile& tile) {
    const bool wraps = ++column_ == tile.columns;
    tap_ += wraps ? tile.next_row : tile.next_column;
    if (!wraps) return;
    column_ = 0;
    ++row_;
  }
  HWY_INLINE const float* Row(int row) const { return Floats(from_[row] + at_); }
  HWY_INLINE void Advance(std::size_t bytes) { at_ += static_cast<std::ptrdiff_t>(bytes); }

 private:
  HWY_INLINE void PointInside(const MicroTile& tile) {
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) from_[r] = tile.a + tile.rows[r];
  }

  std::uint32_t row_, column_;
  bool all_inside_ = true;
  std::ptrdiff_t tap_ = 0, at_ = 0;  // bytes from the first tap
  std::array<const std::byte*, kRows> from_{};
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
  /// One step of the depth, `k` floats behind the row pointers. `b`: the row of the panel for it.
  template <class Rows>
  HWY_INLINE void Step(const Rows& rows, const float* b, std::size_t k) {
    V weights[kVectors];
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      weights[j] = hn::Load(D(), b + j * hn::MaxLanes(D()));
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(D(), rows.Row(r)[k]);
      LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) v[r][j] = hn::MulAdd(a, weights[j], v[r][j]);
    }
  }
};

/// Writes rows of a panel whose columns all exist.
template <int kVectors>
class RowStore {
 public:
  explicit HWY_INLINE RowStore(const ConvStore& store)
      : low_(hn::Set(D(), store.low)),
        high_(hn::Set(D(), store.high)),
        y_(store.y),
        residual_(store.residual) {}
  template <bool kResidual>
  HWY_INLINE void Write(const V* sums, std::size_t place) {
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      constexpr std::size_t kLanes = hn::MaxLanes(D());
      V v = sums[j];
      if constexpr (kResidual) v = hn::Add(v, hn::LoadU(D(), residual_ + place + j * kLanes));
      hn::StoreU(simd::Clamp(v, low_, high_), D(), y_ + place + j * kLanes);
    }
  }

 private:
  const V low_, high_;
  float* const y_;
  const float* const residual_;
};

/// y = limit(sums + residual), from registers. `place`: floats from y to the first row.
template <bool kListed, bool kResidual, int kRows, int kVectors>
HWY_INLINE void Finish(const Accumulators<kRows, kVectors>& acc, const ConvStore& store,
                       std::size_t place) {
  RowStore<kVectors> rows(store);
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    if constexpr (kListed) place = store.rows[r];
    rows.template Write<kResidual>(acc.v[r], place);
    place += store.pitch;
  }
}

/// The same for a panel of which only the first `columns` columns exist.
template <bool kListed, int kRows, int kVectors>
HWY_INLINE void FinishPart(const Accumulators<kRows, kVectors>& acc, const ConvStore& store,
                           std::size_t columns, std::size_t place) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const V low = hn::Set(D(), store.low), high = hn::Set(D(), store.high);
  const simd::Part part(columns - (kVectors - 1) * kLanes);
  const auto finish = [&](V v, std::size_t at, const auto& move) HWY_ATTR {
    if (store.residual != nullptr) v = hn::Add(v, move.Load(store.residual + at));
    move.Store(simd::Clamp(v, low, high), store.y + at);
  };
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    if constexpr (kListed) place = store.rows[r];
    LAGOON_UNROLL for (int j = 0; j < kVectors - 1; ++j) {
      finish(acc.v[r][j], place + j * kLanes, simd::Whole());
    }
    finish(acc.v[r][kVectors - 1], place + (kVectors - 1) * kLanes, part);
    place += store.pitch;
  }
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
template <int kRows, int kVectors, bool kListed>
HWY_NOINLINE void Multiply(MicroTile& tile) {
  constexpr std::size_t kWidth = kVectors * hn::MaxLanes(D());
  Prefetcher prefetcher(tile);
  for (std::uint32_t repeat = 0; repeat < tile.repeats; ++repeat) {
    Accumulators<kRows, kVectors> acc;
    if (tile.resume) {
      acc.Load(tile.acc);
    } else {
      acc.Fill(tile.bias);
    }
    const float* b = tile.weights;
    std::conditional_t<kListed, Listed<kRows>, Neighbours<kRows>> rows(tile, repeat);
    for (std::uint32_t tap = 0; tap < tile.taps; ++tap, rows.Next(tile)) {
      std::uint32_t left = tile.tap_depth;
      if (!rows.Enter(tile)) {
        b += left * kWidth;
        continue;
      }
      for (; left >= kDepthStep; left -= kDepthStep) {
        prefetcher.Step();
        LAGOON_UNROLL for (std::size_t u = 0; u < kDepthStep; ++u) {
          acc.Step(rows, b + u * kWidth, u);
        }
        b += kDepthStep * kWidth;
        rows.Advance(kDepthStep * sizeof(float));
      }
      for (; left > 0; --left) {
        acc.Step(rows, b, 0);
        b += kWidth;
        rows.Advance(sizeof(float));
      }
    }
    const std::size_t place = repeat * kRows * tile.store.pitch;
    if (!tile.finish) {
      acc.Store(tile.acc + repeat * tile.acc_pitch);
    } else if (tile.store_columns < kWidth) {
      FinishPart<kListed>(acc, tile.store, tile.store_columns, place);
    } else if (tile.store.residual != nullptr) {
      Finish<kListed, true>(acc, tile.store, place);
    } else {
      Finish<kListed, false>(acc, tile.store, place);
    }
  }
  prefetcher.Save(tile);
}

using MultiplyFn = void (*)(MicroTile&);

template <int kVectors, bool kListed, std::size_t... kRow>
constexpr std::array<MultiplyFn, kMaxRows> MultiplyTable(std::index_sequence<kRow...>) {
  return {&Multiply<static_cast<int>(kRow) + 1, kVectors, kListed>...};
}

/// Indexed by [listed][vectors - 1][rows - 1].
inline constexpr std::array<MultiplyFn, kMaxRows> kMultiply[2][kMaxVectors] = {
    {MultiplyTable<1, false>(std::make_index_sequence<kMaxRows>()),
     MultiplyTable<2, false>(std::make_index_sequence<kMaxRows>())},
    {MultiplyTable<1, true>(std::make_index_sequence<kMaxRows>()),
     MultiplyTable<2, true>(std::make_index_sequence<kMaxRows>())},
};

/// Floats from y to a row.
HWY_INLINE std::size_t PlaceOf(const ConvStore& store, std::size_t row) {
  return store.rows != nullptr ? store.rows[row] : row * store.pitch;
}

/// The same from scratch memory, for a panel whose columns all exist.
template <int kVectors, bool kResidual>
HWY_INLINE void StoreWhole(const float* acc, std::size_t count, const ConvStore& store) {
  RowStore<kVectors> rows(store);
  for (std::size_t row = 0; row < count; ++row) {
    V v[kVectors];
    LAGOON_UNROLL for (int j = 0; j < kVectors; ++j) {
      v[j] = hn::Load(D(), acc + j * hn::MaxLanes(D()));
    }
    rows.template Write<kResidual>(v, PlaceOf(store, row));
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
    const std::size_t at = PlaceOf(store, row) + column;
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

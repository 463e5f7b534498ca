#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/byte_add.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise/byte_add.h"
#include "kernels/elementwise/rows.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using ByteFloats = hn::ScalableTag<float>;
using ByteWords = hn::RebindToSigned<ByteFloats>;
using ByteLanes = hn::Rebind<std::uint8_t, ByteFloats>;

/// The bytes at `from` as floats: (byte - zero) * scale.
HWY_INLINE hn::Vec<ByteFloats> Dequantized(const std::uint8_t* from, hn::Vec<ByteFloats> scale,
                                           hn::Vec<ByteFloats> zero) {
  const auto bytes = hn::PromoteTo(ByteWords(), hn::LoadU(ByteLanes(), from));
  return hn::Mul(hn::Sub(hn::ConvertTo(ByteFloats(), bytes), zero), scale);
}

/// As many results as a vector has lanes.
HWY_INLINE void AddVector(const std::uint8_t* a, const std::uint8_t* b, const ByteAddScales& by,
                          std::uint8_t* y) {
  const ByteFloats d;
  const auto sum = hn::Add(Dequantized(a, hn::Set(d, by.a_scale), hn::Set(d, by.a_zero)),
                           Dequantized(b, hn::Set(d, by.b_scale), hn::Set(d, by.b_zero)));
  const auto level =
      hn::Add(hn::Round(hn::Div(sum, hn::Set(d, by.y_scale))), hn::Set(d, by.y_zero));
  const auto kept = hn::Min(hn::Max(level, hn::Set(d, by.y_low)), hn::Set(d, by.y_high));
  hn::StoreU(hn::DemoteTo(ByteLanes(), hn::ConvertTo(ByteWords(), kept)), ByteLanes(), y);
}

/// The same without a division: levels that differ from AddVector's before they are rounded by a
/// few units in the last place. They round to the same bytes unless they lie near a half.
struct NearLevels {
  explicit NearLevels(const ByteAddScales& by)
      : a(by.a_scale / by.y_scale),
        b(by.b_scale / by.y_scale),
        offset(-(by.a_zero * a + by.b_zero * b)),
        // Each of some ten roundings moves a level by less than 2^-24 of the largest terms.
        nearest_half(0.5F - 255 * (std::abs(a) + std::abs(b)) * 0x1p-20F),
        zero(static_cast<std::int32_t>(by.y_zero)),
        low(static_cast<std::int32_t>(by.y_low)),
        high(static_cast<std::int32_t>(by.y_high)) {}

  float a, b, offset;
  float nearest_half;  // less or NaN: no level is far enough
  std::int32_t zero, low, high;
};

// AVX-512 packs four vectors at once.
#if HWY_TARGET == HWY_AVX3

/// The levels of 16 results; `farthest` becomes the larger of itself and their distance from them.
HWY_INLINE __m512i LevelsOf(const std::uint8_t* a, const std::uint8_t* b, __m512 a_scale,
                            __m512 b_scale, __m512 offset, __m512& farthest) {
  const auto floats = [](const std::uint8_t* from) HWY_ATTR {
    const auto* const bytes = reinterpret_cast<const __m128i*>(from);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes)));
  };
  const __m512 level =
      _mm512_fmadd_ps(floats(a), a_scale, _mm512_fmadd_ps(floats(b), b_scale, offset));
  const __m512i rounded = _mm512_cvtps_epi32(level);
  constexpr int kLargestMagnitude = 0b1011;
  farthest = _mm512_range_ps(farthest, _mm512_sub_ps(level, _mm512_cvtepi32_ps(rounded)),
                             kLargestMagnitude);
  return rounded;
}

/// Four vectors of results. Returns false, and writes nothing, if a level lies near a half.
HWY_INLINE bool AddNear(const std::uint8_t* a, const std::uint8_t* b, const NearLevels& near,
                        std::uint8_t* y) {
  const __m512 a_scale = _mm512_set1_ps(near.a), b_scale = _mm512_set1_ps(near.b);
  const __m512 offset = _mm512_set1_ps(near.offset);
  __m512 farthest = _mm512_setzero_ps();
  __m512i levels[4];
  LAGOON_UNROLL for (size_t i = 0; i < 4; ++i) {
    levels[i] = LevelsOf(a + 16 * i, b + 16 * i, a_scale, b_scale, offset, farthest);
  }
  const __m512 limit = _mm512_set1_ps(near.nearest_half);
  if (_mm512_cmp_ps_mask(farthest, limit, _CMP_LE_OQ) != 0xffff) return false;
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(near.zero));
  const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(levels[0], levels[1]), zero);
  const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(levels[2], levels[3]), zero);
  // The packs join the quarters of the registers by turns.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, second));
  const __m512i low = _mm512_set1_epi8(static_cast<char>(near.low));
  const __m512i high = _mm512_set1_epi8(static_cast<char>(near.high));
  _mm512_storeu_si512(y, _mm512_min_epu8(_mm512_max_epu8(bytes, low), high));
  return true;
}

#else

HWY_INLINE bool AddNear(const std::uint8_t* a, const std::uint8_t* b, const NearLevels& near,
                        std::uint8_t* y) {
  const ByteFloats d;
  const ByteWords w;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<ByteWords> levels[4];
  auto farthest = hn::Zero(d);
  LAGOON_UNROLL for (size_t i = 0; i < 4; ++i) {
    const auto left = hn::ConvertTo(d, hn::PromoteTo(w, hn::LoadU(ByteLanes(), a + i * lanes)));
    const auto right = hn::ConvertTo(d, hn::PromoteTo(w, hn::LoadU(ByteLanes(), b + i * lanes)));
    const auto level = hn::MulAdd(left, hn::Set(d, near.a),
                                  hn::MulAdd(right, hn::Set(d, near.b), hn::Set(d, near.offset)));
    levels[i] = hn::NearestInt(level);
    farthest = hn::Max(farthest, hn::Abs(hn::Sub(level, hn::ConvertTo(d, levels[i]))));
  }
  if (!hn::AllTrue(d, hn::Le(farthest, hn::Set(d, near.nearest_half)))) return false;
  LAGOON_UNROLL for (size_t i = 0; i < 4; ++i) {
    const auto level = hn::Add(levels[i], hn::Set(w, near.zero));
    const auto kept = hn::Min(hn::Max(level, hn::Set(w, near.low)), hn::Set(w, near.high));
    hn::StoreU(hn::DemoteTo(ByteLanes(), kept), ByteLanes(), y + i * lanes);
  }
  return true;
}

#endif

void AddBytes(const std::uint8_t* a, const std::uint8_t* b, const ByteAddScales& by,
              std::size_t count, std::uint8_t* y) {
  const NearLevels near(by);
  const size_t lanes = hn::Lanes(ByteFloats());
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    if (AddNear(a + i, b + i, near, y + i)) continue;
    for (size_t j = i; j < i + 4 * lanes; j += lanes) AddVector(a + j, b + j, by, y + j);
  }
  for (; i + lanes <= count; i += lanes) AddVector(a + i, b + i, by, y + i);
  if (i == count) return;
  HWY_ALIGN std::uint8_t part[3][hn::MaxLanes(ByteFloats())] = {};
  std::copy(a + i, a + count, part[0]);
  std::copy(b + i, b + count, part[1]);
  AddVector(part[0], part[1], by, part[2]);
  std::copy_n(part[2], count - i, y + i);
}

void ByteAddRow(const RowOperand* x, std::byte* to, std::size_t count, const RowParams&) {
  AddBytes(reinterpret_cast<const std::uint8_t*>(x[0].data),
           reinterpret_cast<const std::uint8_t*>(x[1].data),
           *reinterpret_cast<const ByteAddScales*>(x[2].data), count,
           reinterpret_cast<std::uint8_t*>(to));
}

}  // namespace

RowFunction PickByteAddRow() { return &ByteAddRow; }
ByteAddFunction PickAddBytes() { return &AddBytes; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickByteAddRow);
HWY_EXPORT(PickAddBytes);

}  // namespace

Result<Kernel> MakeByteAdd(std::size_t count) {
  LAGOON_RETURN_IF_ERROR(CheckPositive("byte_add", {{"count", count}}));
  constexpr double kByteAddNs = 0.15;
  RowsSpec rows;
  rows.name = "byte_add";
  rows.row = LAGOON_DISPATCH(PickByteAddRow)();
  rows.out = {static_cast<std::int64_t>(count)};
  rows.out_bytes = 1;
  rows.inputs = {{{1}, 0, 1}, {{1}, 0, 1}, {{0}, 0, sizeof(float)}};
  rows.ns_per_element = kByteAddNs;
  return MakeRows(rows);
}

ByteAddFunction FindByteAdd() { return LAGOON_DISPATCH(PickAddBytes)(); }

}  // namespace lagoon
#endif  // HWY_ONCE

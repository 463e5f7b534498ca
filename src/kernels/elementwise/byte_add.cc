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

/// kVectors vectors of results. `by`: the same as `near`.
template <size_t kVectors>
HWY_INLINE void AddVectors(const std::uint8_t* a, const std::uint8_t* b, const NearLevels& near,
                           const ByteAddScales& by, std::uint8_t* y) {
  const ByteFloats d;
  const ByteWords w;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<ByteWords> levels[kVectors];
  auto farthest = hn::Zero(d);
  LAGOON_UNROLL for (size_t i = 0; i < kVectors; ++i) {
    const auto left = hn::ConvertTo(d, hn::PromoteTo(w, hn::LoadU(ByteLanes(), a + i * lanes)));
    const auto right = hn::ConvertTo(d, hn::PromoteTo(w, hn::LoadU(ByteLanes(), b + i * lanes)));
    const auto level = hn::MulAdd(left, hn::Set(d, near.a),
                                  hn::MulAdd(right, hn::Set(d, near.b), hn::Set(d, near.offset)));
    levels[i] = hn::NearestInt(level);
    farthest = hn::Max(farthest, hn::Abs(hn::Sub(level, hn::ConvertTo(d, levels[i]))));
  }
  if (!hn::AllTrue(d, hn::Le(farthest, hn::Set(d, near.nearest_half)))) {
    for (size_t i = 0; i < kVectors; ++i) {
      AddVector(a + i * lanes, b + i * lanes, by, y + i * lanes);
    }
    return;
  }
  LAGOON_UNROLL for (size_t i = 0; i < kVectors; ++i) {
    const auto level = hn::Add(levels[i], hn::Set(w, near.zero));
    const auto kept = hn::Min(hn::Max(level, hn::Set(w, near.low)), hn::Set(w, near.high));
    hn::StoreU(hn::DemoteTo(ByteLanes(), kept), ByteLanes(), y + i * lanes);
  }
}

void AddBytes(const std::uint8_t* a, const std::uint8_t* b, const ByteAddScales& by,
              std::size_t count, std::uint8_t* y) {
  const NearLevels near(by);
  const size_t lanes = hn::Lanes(ByteFloats());
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) AddVectors<4>(a + i, b + i, near, by, y + i);
  for (; i + lanes <= count; i += lanes) AddVectors<1>(a + i, b + i, near, by, y + i);
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
  constexpr double kByteAddNs = 0.2;
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

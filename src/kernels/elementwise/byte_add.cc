#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/byte_add.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/elementwise/byte_add.h"
#include "kernels/elementwise/rows.h"
#include "kernels/simd/simd-inl.h"

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

void ByteAddRow(const RowOperand* x, std::byte* to, std::size_t count, const RowParams&) {
  const auto* const a = reinterpret_cast<const std::uint8_t*>(x[0].data);
  const auto* const b = reinterpret_cast<const std::uint8_t*>(x[1].data);
  const auto& by = *reinterpret_cast<const ByteAddScales*>(x[2].data);
  auto* const y = reinterpret_cast<std::uint8_t*>(to);
  const size_t lanes = hn::Lanes(ByteFloats());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) AddVector(a + i, b + i, by, y + i);
  if (i == count) return;
  HWY_ALIGN std::uint8_t part[3][hn::MaxLanes(ByteFloats())] = {};
  std::copy(a + i, a + count, part[0]);
  std::copy(b + i, b + count, part[1]);
  AddVector(part[0], part[1], by, part[2]);
  std::copy_n(part[2], count - i, y + i);
}

}  // namespace

RowFunction PickByteAddRow() { return &ByteAddRow; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickByteAddRow);

}  // namespace

Result<Kernel> MakeByteAdd(std::size_t count) {
  LAGOON_RETURN_IF_ERROR(CheckPositive("byte_add", {{"count", count}}));
  constexpr double kByteAddNs = 0.4;
  RowsSpec rows;
  rows.name = "byte_add";
  rows.row = LAGOON_DISPATCH(PickByteAddRow)();
  rows.out = {static_cast<std::int64_t>(count)};
  rows.out_bytes = 1;
  rows.inputs = {{{1}, 0, 1}, {{1}, 0, 1}, {{0}, 0, sizeof(float)}};
  rows.ns_per_element = kByteAddNs;
  return MakeRows(rows);
}

}  // namespace lagoon
#endif  // HWY_ONCE

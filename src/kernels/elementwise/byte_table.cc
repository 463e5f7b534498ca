#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/byte_table.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "kernels/elementwise/byte_table.h"
#include "kernels/elementwise/rows.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

// Of an element, at 2.5 GHz.
#if HWY_TARGET == HWY_AVX3
constexpr double kByteTableNs = 0.12;

namespace hn = hwy::HWY_NAMESPACE;

using TableWords = hn::ScalableTag<std::uint16_t>;
using TableBytes = hn::Rebind<std::uint8_t, TableWords>;

/// Results of as many bytes as fill a vector of words, for the first of `count`; returns how many
/// it computed. The table is 128 words, in four vectors: one shuffle reads two of them.
HWY_INLINE size_t LookUpVectors(const std::uint8_t* x, const std::uint8_t* table, size_t count,
                                std::uint8_t* y) {
  const TableWords d;
  const hn::RebindToSigned<TableWords> is_signed;
  const size_t lanes = hn::Lanes(d);
  const auto* const words = reinterpret_cast<const std::uint16_t*>(table);
  hn::Vec<TableWords> parts[4];
  for (size_t i = 0; i < 4; ++i) parts[i] = hn::LoadU(d, words + i * lanes);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bytes = hn::PromoteTo(d, hn::LoadU(TableBytes(), x + i));
    const auto place = hn::ShiftRight<1>(bytes);
    const hn::Vec<TableWords> low{_mm512_permutex2var_epi16(parts[0].raw, place.raw, parts[1].raw)};
    const hn::Vec<TableWords> high{
        _mm512_permutex2var_epi16(parts[2].raw, place.raw, parts[3].raw)};
    const auto word = hn::IfThenElse(hn::TestBit(bytes, hn::Set(d, 0x80)), high, low);
    // The upper half of a word is the result of an odd byte.
    const auto odd = hn::And(bytes, hn::Set(d, 1));
    const auto result = hn::And(word >> hn::ShiftLeft<3>(odd), hn::Set(d, 0xFF));
    hn::StoreU(hn::DemoteTo(TableBytes(), hn::BitCast(is_signed, result)), TableBytes(), y + i);
  }
  return i;
}
#else
constexpr double kByteTableNs = 0.4;

HWY_INLINE size_t LookUpVectors(const std::uint8_t*, const std::uint8_t*, size_t, std::uint8_t*) {
  return 0;
}
#endif

void ByteTableRow(const RowOperand* x, std::byte* to, std::size_t count, const RowParams&) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(x[0].data);
  const auto* const table = reinterpret_cast<const std::uint8_t*>(x[1].data);
  auto* const y = reinterpret_cast<std::uint8_t*>(to);
  for (size_t i = LookUpVectors(from, table, count, y); i < count; ++i) y[i] = table[from[i]];
}

}  // namespace

RowFunction PickByteTableRow() { return &ByteTableRow; }
double ByteTableNs() { return kByteTableNs; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickByteTableRow);
HWY_EXPORT(ByteTableNs);

}  // namespace

Result<Kernel> MakeByteTable(std::size_t count) {
  LAGOON_RETURN_IF_ERROR(CheckPositive("byte_table", {{"count", count}}));
  RowsSpec rows;
  rows.name = "byte_table";
  rows.row = LAGOON_DISPATCH(PickByteTableRow)();
  rows.out = {static_cast<std::int64_t>(count)};
  rows.out_bytes = 1;
  rows.inputs = {{{1}, 0, 1}, {{0}, 0, kByteTableSize}};
  rows.ns_per_element = LAGOON_DISPATCH(ByteTableNs)();
  return MakeRows(rows);
}

}  // namespace lagoon
#endif  // HWY_ONCE

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/vector_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/elementwise/vector_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
template <typename T>
using TagOf = hn::Rebind<T, FloatTag>;
using Floats = hn::Vec<FloatTag>;

template <typename T>
HWY_INLINE const T* DataOf(const RowOperand& operand) {
  return reinterpret_cast<const T*>(operand.data);
}

template <typename T>
HWY_INLINE Floats LoadFloats(const T* from) {
  if constexpr (sizeof(T) == 1) {
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(IntTag(), hn::LoadU(TagOf<T>(), from)));
  } else {
    return hn::ConvertTo(FloatTag(), hn::LoadU(IntTag(), from));
  }
}

/// Whether the first operand is dense, and longer than a vector, and the others are one element.
HWY_INLINE bool IsDenseByOne(const RowOperand* x, size_t operands, size_t count) {
  bool fits = x[0].stride == 1 && count >= hn::Lanes(FloatTag());
  for (size_t i = 1; i < operands; ++i) fits = fits && x[i].stride == 0;
  return fits;
}

template <typename T>
constexpr DataType TypeOf() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return DataType::kUInt8;
  return std::is_same_v<T, std::int8_t> ? DataType::kInt8 : DataType::kInt32;
}

/// Calls `step` with the place of each vector of `count` elements. The last one overlaps the one
/// before, so there is no rest; y is written, not updated. `count` is at least one vector.
template <class F>
HWY_INLINE void ForVectors(size_t count, const F& step) {
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(i);
  if (i < count) step(count - lanes);
}

template <typename Q>
void QuantizeVectors(const RowOperand* x, std::byte* y, std::size_t count,
                     const RowParams& params) {
  if (!IsDenseByOne(x, 3, count)) {
    return FindPlainQuantizeRow(TypeOf<Q>())(x, y, count, params);
  }
  const FloatTag d;
  const float* const from = DataOf<float>(x[0]);
  Q* const to = reinterpret_cast<Q*>(y);
  const Floats scale = hn::Set(d, *DataOf<float>(x[1]));
  const Floats zero = hn::Set(d, static_cast<float>(*DataOf<Q>(x[2])));
  const Floats low = hn::Set(d, static_cast<float>(hwy::LowestValue<Q>()));
  const Floats high = hn::Set(d, static_cast<float>(hwy::HighestValue<Q>()));
  ForVectors(count, [&](size_t i) HWY_ATTR {
    const Floats level = hn::Add(hn::Round(hn::Div(hn::LoadU(d, from + i), scale)), zero);
    // NaN becomes the lowest level, as in ONNX Runtime.
    const Floats kept = hn::IfThenElse(hn::Ge(level, low), level, low);
    const auto whole = hn::ConvertTo(IntTag(), hn::Min(kept, high));
    hn::StoreU(hn::DemoteTo(TagOf<Q>(), whole), TagOf<Q>(), to + i);
  });
}

template <typename Q>
void DequantizeVectors(const RowOperand* x, std::byte* y, std::size_t count,
                       const RowParams& params) {
  if (!IsDenseByOne(x, 3, count)) {
    return FindPlainDequantizeRow(TypeOf<Q>())(x, y, count, params);
  }
  const Q* const from = DataOf<Q>(x[0]);
  float* const to = reinterpret_cast<float*>(y);
  const Floats scale = hn::Set(FloatTag(), *DataOf<float>(x[1]));
  const Floats zero = hn::Set(FloatTag(), static_cast<float>(*DataOf<Q>(x[2])));
  ForVectors(count, [&](size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Sub(LoadFloats(from + i), zero), scale), FloatTag(), to + i);
  });
}

template <typename From>
void ToFloat(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (!IsDenseByOne(x, 1, count)) {
    return FindPlainCastRow(TypeOf<From>(), DataType::kFloat32)(x, y, count, params);
  }
  const From* const from = DataOf<From>(x[0]);
  float* const to = reinterpret_cast<float*>(y);
  ForVectors(count,
             [&](size_t i) HWY_ATTR { hn::StoreU(LoadFloats(from + i), FloatTag(), to + i); });
}

template <typename From>
void ToInt16(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (!IsDenseByOne(x, 1, count)) {
    return FindPlainCastRow(TypeOf<From>(), DataType::kInt16)(x, y, count, params);
  }
  const From* const from = DataOf<From>(x[0]);
  auto* const to = reinterpret_cast<std::int16_t*>(y);
  const TagOf<std::int16_t> d;
  ForVectors(count, [&](size_t i) HWY_ATTR {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(TagOf<From>(), from + i)), d, to + i);
  });
}

/// Cuts fractions off. What is beyond the integers becomes the nearest of them, not a number 0.
template <typename To>
void FromFloat(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (!IsDenseByOne(x, 1, count)) {
    return FindPlainCastRow(DataType::kFloat32, TypeOf<To>())(x, y, count, params);
  }
  const FloatTag d;
  const float* const from = DataOf<float>(x[0]);
  To* const to = reinterpret_cast<To*>(y);
  const Floats low = hn::Set(d, static_cast<float>(hwy::LowestValue<To>()));
  const Floats high = hn::Set(d, static_cast<float>(hwy::HighestValue<To>()));
  ForVectors(count, [&](size_t i) HWY_ATTR {
    const Floats number = hn::LoadU(d, from + i);
    const Floats kept = hn::Max(hn::IfThenZeroElse(hn::IsNaN(number), number), low);
    if constexpr (sizeof(To) == 1) {
      const auto whole = hn::ConvertTo(IntTag(), hn::Min(kept, high));
      hn::StoreU(hn::DemoteTo(TagOf<To>(), whole), TagOf<To>(), to + i);
    } else {
      // The greatest integer is no float: `high` is the number behind it.
      const auto beyond = hn::RebindMask(IntTag(), hn::Ge(kept, high));
      const auto whole = hn::ConvertTo(IntTag(), hn::IfThenZeroElse(hn::Ge(kept, high), kept));
      const auto most = hn::Set(IntTag(), hwy::HighestValue<To>());
      hn::StoreU(hn::IfThenElse(beyond, most, whole), IntTag(), to + i);
    }
  });
}

}  // namespace

RowFunction PickQuantizeRow(DataType quantized) {
  if (quantized == DataType::kUInt8) return &QuantizeVectors<std::uint8_t>;
  return quantized == DataType::kInt8 ? &QuantizeVectors<std::int8_t> : nullptr;
}

RowFunction PickDequantizeRow(DataType quantized) {
  if (quantized == DataType::kUInt8) return &DequantizeVectors<std::uint8_t>;
  return quantized == DataType::kInt8 ? &DequantizeVectors<std::int8_t> : nullptr;
}

RowFunction PickCastRow(DataType from, DataType to) {
  if (to == DataType::kFloat32) {
    if (from == DataType::kUInt8) return &ToFloat<std::uint8_t>;
    if (from == DataType::kInt8) return &ToFloat<std::int8_t>;
    if (from == DataType::kInt32) return &ToFloat<std::int32_t>;
  }
  if (from == DataType::kFloat32) {
    if (to == DataType::kUInt8) return &FromFloat<std::uint8_t>;
    if (to == DataType::kInt8) return &FromFloat<std::int8_t>;
    if (to == DataType::kInt32) return &FromFloat<std::int32_t>;
  }
  if (to == DataType::kInt16) {
    if (from == DataType::kUInt8) return &ToInt16<std::uint8_t>;
    if (from == DataType::kInt8) return &ToInt16<std::int8_t>;
  }
  return nullptr;
}

#else

RowFunction PickQuantizeRow(DataType) { return nullptr; }
RowFunction PickDequantizeRow(DataType) { return nullptr; }
RowFunction PickCastRow(DataType, DataType) { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickQuantizeRow);
HWY_EXPORT(PickDequantizeRow);
HWY_EXPORT(PickCastRow);

}  // namespace

RowFunction FindVectorQuantizeRow(DataType quantized) {
  return LAGOON_DISPATCH(PickQuantizeRow)(quantized);
}
RowFunction FindVectorDequantizeRow(DataType quantized) {
  return LAGOON_DISPATCH(PickDequantizeRow)(quantized);
}
RowFunction FindVectorCastRow(DataType from, DataType to) {
  return LAGOON_DISPATCH(PickCastRow)(from, to);
}

}  // namespace lagoon
#endif  // HWY_ONCE

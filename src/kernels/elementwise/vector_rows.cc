#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/vector_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <cmath>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/elementwise/vector_rows.h"
#include "kernels/simd/simd-inl.h"

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

/// Whether the row is longer than a vector, and each operand dense or one element.
HWY_INLINE bool AreDenseOrOne(const RowOperand* x, size_t operands, size_t count) {
  bool fits = count >= hn::Lanes(FloatTag());
  for (size_t i = 0; i < operands; ++i) fits = fits && (x[i].stride == 0 || x[i].stride == 1);
  return fits;
}

/// The vectors of such an operand.
class FloatsOf {
 public:
  explicit HWY_INLINE FloatsOf(const RowOperand& x)
      : from_(DataOf<float>(x)), dense_(x.stride != 0), one_(hn::Set(FloatTag(), *from_)) {}
  HWY_INLINE Floats At(size_t i) const { return dense_ ? hn::LoadU(FloatTag(), from_ + i) : one_; }

 private:
  const float* from_;
  bool dense_;
  Floats one_;
};

/// Which of a vector's bytes are not 0.
HWY_INLINE auto IsTrue(const std::uint8_t* bytes) {
  const auto wide = hn::PromoteTo(IntTag(), hn::LoadU(TagOf<std::uint8_t>(), bytes));
  return hn::RebindMask(FloatTag(), hn::Ne(wide, hn::Zero(IntTag())));
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
  // A product with the inverse is off by less than 2^-10 where the result does not saturate, which
  // matters only close to a half. A division takes several times as long.
  const float inverse = 1 / *DataOf<float>(x[1]);
  const bool normal = std::abs(inverse) > 1e-30F && std::abs(inverse) < 1e30F;
  const Floats by = hn::Set(d, inverse);
  const Floats close = hn::Set(d, normal ? 0.5F - 1.0F / 1024 : -1.0F);
  ForVectors(count, [&](size_t i) HWY_ATTR {
    const Floats value = hn::LoadU(d, from + i);
    const Floats product = hn::Mul(value, by);
    Floats rounded = hn::Round(product);
    const auto same = hn::Lt(hn::Abs(hn::Sub(product, rounded)), close);  // not NaN
    if (!hn::AllTrue(d, same)) rounded = hn::Round(hn::Div(value, scale));
    const Floats level = hn::Add(rounded, zero);
    // NaN becomes the lowest level, as in ONNX Runtime.
    const auto whole = hn::ConvertTo(IntTag(), hn::Min(simd::AtLeast(level, low), high));
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

/// A kBool as 0 or 1: any byte other than 0 is true.
void FlagToFloat(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (!IsDenseByOne(x, 1, count)) {
    return FindPlainCastRow(DataType::kBool, DataType::kFloat32)(x, y, count, params);
  }
  const FloatTag d;
  const auto* const from = DataOf<std::uint8_t>(x[0]);
  ForVectors(count, [&](size_t i) HWY_ATTR {
    const Floats ones = hn::IfThenElseZero(IsTrue(from + i), hn::Set(d, 1));
    hn::StoreU(ones, d, reinterpret_cast<float*>(y) + i);
  });
}

template <BinaryOp kOp>
HWY_INLINE auto Compared(Floats a, Floats b) {
  if constexpr (kOp == BinaryOp::kEqual) return hn::Eq(a, b);
  if constexpr (kOp == BinaryOp::kLess) return hn::Lt(a, b);
  if constexpr (kOp == BinaryOp::kLessOrEqual) return hn::Le(a, b);
  if constexpr (kOp == BinaryOp::kGreater) return hn::Gt(a, b);
  if constexpr (kOp == BinaryOp::kGreaterOrEqual) return hn::Ge(a, b);
}

template <BinaryOp kOp>
void Compare(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (!AreDenseOrOne(x, 2, count)) {
    return FindPlainBinaryRow(kOp, DataType::kFloat32)(x, y, count, params);
  }
  const TagOf<std::uint8_t> bytes;
  const FloatsOf a(x[0]), b(x[1]);
  ForVectors(count, [&](size_t i) HWY_ATTR {
    const auto truth = hn::RebindMask(IntTag(), Compared<kOp>(a.At(i), b.At(i)));
    const auto ones = hn::IfThenElseZero(truth, hn::Set(IntTag(), 1));
    hn::StoreU(hn::DemoteTo(bytes, ones), bytes, reinterpret_cast<std::uint8_t*>(y) + i);
  });
}

/// Of elements of 4 bytes, whatever they mean: nothing is computed with them.
void Choose(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  if (x[0].stride != 1 || !AreDenseOrOne(x, 3, count)) {
    return FindPlainWhereRow(sizeof(float))(x, y, count, params);
  }
  const auto* const condition = DataOf<std::uint8_t>(x[0]);
  const FloatsOf a(x[1]), b(x[2]);
  ForVectors(count, [&](size_t i) HWY_ATTR {
    hn::StoreU(hn::IfThenElse(IsTrue(condition + i), a.At(i), b.At(i)), FloatTag(),
               reinterpret_cast<float*>(y) + i);
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
    if (from == DataType::kBool) return &FlagToFloat;
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

RowFunction PickCompareRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEqual:
      return &Compare<BinaryOp::kEqual>;
    case BinaryOp::kLess:
      return &Compare<BinaryOp::kLess>;
    case BinaryOp::kLessOrEqual:
      return &Compare<BinaryOp::kLessOrEqual>;
    case BinaryOp::kGreater:
      return &Compare<BinaryOp::kGreater>;
    case BinaryOp::kGreaterOrEqual:
      return &Compare<BinaryOp::kGreaterOrEqual>;
    default:
      return nullptr;
  }
}

RowFunction PickWhereRow() { return &Choose; }

#else

RowFunction PickQuantizeRow(DataType) { return nullptr; }
RowFunction PickDequantizeRow(DataType) { return nullptr; }
RowFunction PickCastRow(DataType, DataType) { return nullptr; }
RowFunction PickCompareRow(BinaryOp) { return nullptr; }
RowFunction PickWhereRow() { return nullptr; }

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
HWY_EXPORT(PickCompareRow);
HWY_EXPORT(PickWhereRow);

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
RowFunction FindVectorCompareRow(BinaryOp op) { return LAGOON_DISPATCH(PickCompareRow)(op); }
RowFunction FindVectorWhereRow() { return LAGOON_DISPATCH(PickWhereRow)(); }

}  // namespace lagoon
#endif  // HWY_ONCE

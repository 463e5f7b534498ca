// Row functions between types: casts, copies, choices, quantisation.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/elementwise/vector_rows.h"

namespace lagoon {
namespace {

using rows::Column;
using rows::Flag;

template <typename T>
using InMemory = std::conditional_t<std::is_same_v<T, bool>, Flag, T>;

template <typename From, typename To>
void CastRow(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  const Column<From> a(x[0]);
  To* const out = reinterpret_cast<To*>(y);
  const auto convert = [](auto element) {
    if constexpr (std::is_same_v<To, Flag>) {
      return rows::Store<Flag>(ConvertElement<bool>(element));
    } else {
      return ConvertElement<To>(element);
    }
  };
  if (a.stride == 1) {
    for (std::size_t i = 0; i < count; ++i) out[i] = convert(rows::Load(a.data[i]));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = convert(a[i]);
}

template <typename T>
void CopyRow(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  if (x[0].stride == 1) {
    std::memcpy(y, x[0].data, count * sizeof(T));
    return;
  }
  const Column<T> a(x[0]);
  T* const out = reinterpret_cast<T*>(y);
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i];
}

/// A choice by dense conditions, between elements that lie side by side or are all the same.
template <typename T, std::size_t kA, std::size_t kB>
void DenseWhereRow(const Flag* condition, const T* a, const T* b, T* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T one = a[i * kA], other = b[i * kB];
    out[i] = condition[i].byte != 0 ? one : other;
  }
}

template <typename T>
void WhereRow(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  const Column<Flag> condition(x[0]);
  const Column<T> a(x[1]), b(x[2]);
  T* const out = reinterpret_cast<T*>(y);
  const auto simple = [](std::ptrdiff_t stride) { return stride == 0 || stride == 1; };
  if (condition.stride == 1 && simple(a.stride) && simple(b.stride)) {
    constexpr decltype(&DenseWhereRow<T, 0, 0>) kRows[2][2] = {
        {&DenseWhereRow<T, 0, 0>, &DenseWhereRow<T, 0, 1>},
        {&DenseWhereRow<T, 1, 0>, &DenseWhereRow<T, 1, 1>}};
    return kRows[a.stride][b.stride](condition.data, a.data, b.data, out, count);
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = condition[i] ? a[i] : b[i];
}

template <typename Q>
void QuantizeRow(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  const Column<float> a(x[0]), scale(x[1]);
  const Column<Q> zero(x[2]);
  Q* const out = reinterpret_cast<Q*>(y);
  constexpr float kLow = std::numeric_limits<Q>::min(), kHigh = std::numeric_limits<Q>::max();
  for (std::size_t i = 0; i < count; ++i) {
    const float level = std::nearbyint(a[i] / scale[i]) + static_cast<float>(zero[i]);
    // This order of the two makes NaN the lowest level, as in ONNX Runtime.
    out[i] = ConvertElement<Q>(std::min(std::max(kLow, level), kHigh));
  }
}

template <typename Q>
void DequantizeRow(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  const Column<Q> a(x[0]), zero(x[2]);
  const Column<float> scale(x[1]);
  float* const out = reinterpret_cast<float*>(y);
  for (std::size_t i = 0; i < count; ++i) {
    const auto level = static_cast<std::int64_t>(a[i]) - static_cast<std::int64_t>(zero[i]);
    out[i] = static_cast<float>(level) * scale[i];
  }
}

template <template <typename> class Row>
RowFunction BySize(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return Row<std::uint8_t>::kFunction;
    case 2:
      return Row<std::uint16_t>::kFunction;
    case 4:
      return Row<std::uint32_t>::kFunction;
    case 8:
      return Row<std::uint64_t>::kFunction;
    default:
      CheckFailed("an element of 1, 2, 4 or 8 bytes", __FILE__, __LINE__);
  }
}
template <typename T>
struct Copies {
  static constexpr RowFunction kFunction = &CopyRow<T>;
};
template <typename T>
struct Wheres {
  static constexpr RowFunction kFunction = &WhereRow<T>;
};

}  // namespace

RowFunction FindPlainCastRow(DataType from, DataType to) {
  return WithElementType(from, [&]<typename From>(std::type_identity<From>) {
    return WithElementType(to, []<typename To>(std::type_identity<To>) -> RowFunction {
      return &CastRow<InMemory<From>, InMemory<To>>;
    });
  });
}

RowFunction FindCopyRow(std::size_t element_bytes) { return BySize<Copies>(element_bytes); }
RowFunction FindPlainWhereRow(std::size_t element_bytes) { return BySize<Wheres>(element_bytes); }

RowFunction FindWhereRow(std::size_t element_bytes) {
  const RowFunction vectors = element_bytes == 4 ? FindVectorWhereRow() : nullptr;
  return vectors != nullptr ? vectors : FindPlainWhereRow(element_bytes);
}

RowFunction FindPlainQuantizeRow(DataType quantized) {
  switch (quantized) {
    case DataType::kUInt8:
      return &QuantizeRow<std::uint8_t>;
    case DataType::kInt8:
      return &QuantizeRow<std::int8_t>;
    case DataType::kUInt16:
      return &QuantizeRow<std::uint16_t>;
    case DataType::kInt16:
      return &QuantizeRow<std::int16_t>;
    default:
      return nullptr;
  }
}

RowFunction FindPlainDequantizeRow(DataType quantized) {
  switch (quantized) {
    case DataType::kUInt8:
      return &DequantizeRow<std::uint8_t>;
    case DataType::kInt8:
      return &DequantizeRow<std::int8_t>;
    case DataType::kUInt16:
      return &DequantizeRow<std::uint16_t>;
    case DataType::kInt16:
      return &DequantizeRow<std::int16_t>;
    case DataType::kInt32:
      return &DequantizeRow<std::int32_t>;
    default:
      return nullptr;
  }
}

RowFunction FindCastRow(DataType from, DataType to) {
  const RowFunction vectors = FindVectorCastRow(from, to);
  return vectors != nullptr ? vectors : FindPlainCastRow(from, to);
}

RowFunction FindQuantizeRow(DataType quantized) {
  const RowFunction vectors = FindVectorQuantizeRow(quantized);
  return vectors != nullptr ? vectors : FindPlainQuantizeRow(quantized);
}

RowFunction FindDequantizeRow(DataType quantized) {
  const RowFunction vectors = FindVectorDequantizeRow(quantized);
  return vectors != nullptr ? vectors : FindPlainDequantizeRow(quantized);
}

}  // namespace lagoon

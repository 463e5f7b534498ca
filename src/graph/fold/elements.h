#pragma once

// The elements of constants, for evaluators.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "graph/ops/op_context.h"
#include "plan/element.h"

namespace lagoon {

/// Some evaluators leave larger tensors to the kernels, which compute them when the model is
/// loaded: no shape depends on so many numbers.
inline constexpr std::int64_t kMaxEvaluatedElements = 1 << 16;

/// Fails, with kUnimplemented, for an output or an input of more elements than that.
inline Status CheckSmall(const OpContext& context, std::size_t output) {
  bool small = ElementCount(context.output(output).dims) <= kMaxEvaluatedElements;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    small =
        small && (!context.has_input(i) || ElementCount(context.dims(i)) <= kMaxEvaluatedElements);
  }
  if (small) return {};
  return context.Unimplemented("of many constant elements");
}

/// The contents of a constant as numbers in memory (Stored<T>), a BOOL as bytes.
template <typename T>
const Stored<T>* Elements(const ConstantBytes& bytes) {
  return reinterpret_cast<const Stored<T>*>(bytes->data());
}

/// New contents of `count` elements, all zero.
template <typename T>
std::shared_ptr<ConstantData::Bytes> NewElements(std::int64_t count) {
  return std::make_shared<ConstantData::Bytes>(static_cast<std::size_t>(count) * sizeof(Stored<T>));
}

template <typename T>
Stored<T>* Elements(ConstantData::Bytes& bytes) {
  return reinterpret_cast<Stored<T>*>(bytes.data());
}

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

/// a < b, where a NaN is greater than every number.
template <typename T>
bool Less(T a, T b) {
  return IsNan(a) || IsNan(b) ? !IsNan(a) && IsNan(b) : a < b;
}

/// Calls `f(std::type_identity<T>{})` for the number types of C++ and BOOL; kUnimplemented for
/// 16-bit floats.
template <typename F>
Result<ConstantBytes> WithElements(const OpContext& context, DataType type, F&& f) {
  return WithNativeType(type, f, [&]() -> Result<ConstantBytes> {
    return context.Unimplemented("on constants of " + std::string(OipName(type)));
  });
}

/// A tensor as `outer` x `length` x `inner` elements, around one axis.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;

  Lines(const Dims& dims, std::size_t axis) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      (i < axis ? outer : i == axis ? length : inner) *= dims[i];
    }
  }
  std::int64_t At(std::int64_t before, std::int64_t i, std::int64_t behind) const {
    return (before * length + i) * inner + behind;
  }
};

}  // namespace lagoon

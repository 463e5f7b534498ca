#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "graph/fold/elements.h"
#include "graph/fold/evaluate.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::byte>;

// Calls `f(std::type_identity<T>{})` for the types that arithmetic supports.
template <typename F>
Result<ConstantBytes> WithNumberType(const OpContext& context, F&& f) {
  const DataType type = context.input(0).type;
  return WithElementTypeAmong<float, double, std::int32_t, std::int64_t>(
      type, f, [&]() -> Result<ConstantBytes> {
        return context.Unimplemented(fmt::format("on a constant of {}", OipName(type)));
      });
}

// Signed overflow is undefined in C++, so integers are computed unsigned.
template <typename T>
struct Unsigned {
  using Type = T;
};
template <>
struct Unsigned<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct Unsigned<std::int64_t> {
  using Type = std::uint64_t;
};

template <typename T>
T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == -1) return static_cast<T>(typename Unsigned<T>::Type{0} - a);  // min / -1 overflows
  }
  return a / b;
}

template <typename T>
using BinaryFunction = T (*)(T, T);

// Null if the op is unknown or not supported for the type.
template <typename T>
BinaryFunction<T> FindBinary(std::string_view op) {
  using U = typename Unsigned<T>::Type;
  if (op == "Add" || op == "Sum")
    return [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); };
  if (op == "Sub")
    return [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); };
  if (op == "Mul")
    return [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); };
  if (op == "Div") return Divide<T>;
  // A NaN goes through.
  if (op == "Min") return [](T a, T b) { return IsNan(a) || (!IsNan(b) && a < b) ? a : b; };
  if (op == "Max") return [](T a, T b) { return IsNan(a) || (!IsNan(b) && a > b) ? a : b; };
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "Pow") return [](T a, T b) { return std::pow(a, b); };
  }
  return nullptr;
}

template <typename T>
using UnaryFunction = T (*)(T);

template <typename T>
UnaryFunction<T> FindUnary(std::string_view op) {
  using U = typename Unsigned<T>::Type;
  if (op == "Neg") {
    if constexpr (std::is_floating_point_v<T>) return [](T a) { return -a; };
    return [](T a) { return static_cast<T>(U{0} - static_cast<U>(a)); };
  }
  if (op == "Sign") return [](T a) { return static_cast<T>((T{0} < a) - (a < T{0})); };
  if (op == "Abs") return [](T a) { return a < 0 ? static_cast<T>(U{0} - static_cast<U>(a)) : a; };
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "Sqrt") return [](T a) { return std::sqrt(a); };
    if (op == "Exp") return [](T a) { return std::exp(a); };
    if (op == "Log") return [](T a) { return std::log(a); };
    if (op == "Reciprocal") return [](T a) { return 1 / a; };
    if (op == "Floor") return [](T a) { return std::floor(a); };
    if (op == "Ceil") return [](T a) { return std::ceil(a); };
    if (op == "Round") return [](T a) { return std::nearbyint(a); };  // halves to even
  }
  return nullptr;
}

bool HasZero(const ConstantBytes& bytes, auto identity) {
  using T = typename decltype(identity)::type;
  const T* begin = Elements<T>(bytes);
  return std::find(begin, begin + bytes->size() / sizeof(T), T{0}) !=
         begin + bytes->size() / sizeof(T);
}

// Views x as [kept..., reduced...]: moves the reduced axes to the end.
StridedView ReducedLast(const OpContext& context, Dims& dims) {
  const Dims& x = context.dims(0);
  const std::vector<std::int64_t> axes = context.node().Ints("axes", {});
  const std::vector<std::int64_t> strides = RowMajorStrides(x);
  StridedView view{context.constant(0)->bytes->data(), SizeOf(context.input(0).type), 0, {}};
  for (const bool want : {false, true}) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool reduced =
          std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
      if (reduced != want) continue;
      dims.push_back(x[i]);
      view.strides.push_back(strides[i]);
    }
  }
  return view;
}

template <typename T>
T ReduceRow(std::string_view op, const T* row, std::size_t count) {
  const std::string_view what = op.substr(std::string_view("Reduce").size());
  const BinaryFunction<T> combine = what == "Max"    ? FindBinary<T>("Max")
                                    : what == "Min"  ? FindBinary<T>("Min")
                                    : what == "Prod" ? FindBinary<T>("Mul")
                                                     : FindBinary<T>("Add");
  if (count == 0) return static_cast<T>(what == "Prod" ? 1 : 0);  // of no elements
  T result = row[0];
  for (std::size_t i = 1; i < count; ++i) result = combine(result, row[i]);
  return what == "Mean" ? static_cast<T>(result / static_cast<T>(count)) : result;
}

Result<ConstantBytes> Combine(const OpContext& context, const ConstantBytes& a,
                              const ConstantBytes& b) {
  return WithNumberType(
      context, [&]<typename T>(std::type_identity<T> id) -> Result<ConstantBytes> {
        const BinaryFunction<T> function = FindBinary<T>(context.node().op);
        if (function == nullptr) {
          return context.Unimplemented(
              fmt::format("on constants of {}", OipName(context.input(0).type)));
        }
        if (std::is_integral_v<T> && context.node().op == "Div" && HasZero(b, id)) {
          return context.Invalid("divides a constant integer by zero");
        }
        auto bytes = std::make_shared<Bytes>(a->size());
        const std::size_t count = a->size() / sizeof(T);
        std::transform(Elements<T>(a), Elements<T>(a) + count, Elements<T>(b),
                       reinterpret_cast<T*>(bytes->data()), function);
        return bytes;
      });
}

}  // namespace

Result<ConstantBytes> EvaluateUnary(const OpContext& context, std::size_t) {
  return WithNumberType(context, [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
    const UnaryFunction<T> function = FindUnary<T>(context.node().op);
    if (function == nullptr) {
      return context.Unimplemented(
          fmt::format("on a constant of {}", OipName(context.input(0).type)));
    }
    const Bytes& from = *context.constant(0)->bytes;
    auto bytes = std::make_shared<Bytes>(from.size());
    const T* x = Elements<T>(context.constant(0)->bytes);
    T* y = reinterpret_cast<T*>(bytes->data());
    std::transform(x, x + from.size() / sizeof(T), y, function);
    return bytes;
  });
}

Result<ConstantBytes> EvaluateBinary(const OpContext& context, std::size_t output) {
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (context.input(i).type == context.input(0).type) continue;
    return context.Unimplemented("on constants of different types");
  }
  const Dims& out = context.output(output).dims;
  ConstantBytes result = BroadcastBytes(context, 0, out);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(result, Combine(context, result, BroadcastBytes(context, i, out)));
  }
  return result;
}

Result<ConstantBytes> EvaluateReduce(const OpContext& context, std::size_t output) {
  Dims dims;
  const StridedView view = ReducedLast(context, dims);
  Bytes moved(context.constant(0)->bytes->size());
  const std::string& op = context.node().op;
  if (moved.empty() && op != "ReduceSum" && op != "ReduceProd") {
    return context.Unimplemented("reduces an empty constant");
  }
  CopyStrided(view, dims, moved.data());
  return WithNumberType(context, [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
    const auto rows = static_cast<std::size_t>(ElementCount(context.output(output).dims));
    const std::size_t row = rows == 0 ? 0 : moved.size() / sizeof(T) / rows;
    auto bytes = std::make_shared<Bytes>(rows * sizeof(T));
    const T* from = reinterpret_cast<const T*>(moved.data());
    for (std::size_t i = 0; i < rows; ++i) {
      const T value = ReduceRow<T>(context.node().op, from + i * row, row);
      std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
  });
}

}  // namespace lagoon

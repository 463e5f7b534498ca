#pragma once

// Builds row functions from functions of one element, as loops that compilers vectorise if the
// operands are dense.

#include <cstddef>

#include "kernels/elementwise/rows.h"
#include "plan/element.h"

namespace lagoon::rows {

/// A kBool in memory: any byte other than 0 is true. (A C++ bool may only be 0 or 1.)
struct Flag {
  std::uint8_t byte;
};

/// Converts an element to the type for computing.
template <typename T>
auto Load(T element) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(element);
  } else if constexpr (std::is_same_v<T, Flag>) {
    return element.byte != 0;
  } else {
    return element;
  }
}

template <typename T, typename V>
T Store(V value) {
  if constexpr (kIsHalf<T>) {
    return T::From(value);
  } else if constexpr (std::is_same_v<T, Flag>) {
    return Flag{static_cast<std::uint8_t>(value ? 1 : 0)};
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
struct Column {
  const T* data;
  std::ptrdiff_t stride;

  explicit Column(const RowOperand& operand)
      : data(reinterpret_cast<const T*>(operand.data)), stride(operand.stride) {}
  auto operator[](std::size_t i) const {
    return Load(data[static_cast<std::ptrdiff_t>(i) * stride]);
  }
};

template <typename In, typename Out, auto F>
void Unary(const RowOperand* x, std::byte* y, std::size_t count, const RowParams& params) {
  const Column<In> a(x[0]);
  Out* const out = reinterpret_cast<Out*>(y);
  if (a.stride == 1) {
    for (std::size_t i = 0; i < count; ++i) out[i] = Store<Out>(F(Load(a.data[i]), params));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = Store<Out>(F(a[i], params));
}

template <typename In, typename Out, auto F>
void Binary(const RowOperand* x, std::byte* y, std::size_t count, const RowParams&) {
  const Column<In> a(x[0]), b(x[1]);
  Out* const out = reinterpret_cast<Out*>(y);
  if (a.stride == 1 && b.stride == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = Store<Out>(F(Load(a.data[i]), Load(b.data[i])));
    }
  } else if (a.stride == 1 && b.stride == 0) {
    const auto same = b[0];
    for (std::size_t i = 0; i < count; ++i) out[i] = Store<Out>(F(Load(a.data[i]), same));
  } else if (a.stride == 0 && b.stride == 1) {
    const auto same = a[0];
    for (std::size_t i = 0; i < count; ++i) out[i] = Store<Out>(F(same, Load(b.data[i])));
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = Store<Out>(F(a[i], b[i]));
  }
}

}  // namespace lagoon::rows

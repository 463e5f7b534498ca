#pragma once

// Walks over several outer axes with one offset per operand.

#include <cstddef>
#include <cstdint>

namespace lagoon {

inline constexpr std::size_t kMaxOuterAxes = 15;

/// Axes outermost first; strides in elements.
template <std::size_t kOperands>
struct OuterAxes {
  std::uint32_t rank = 0;
  std::size_t dims[kMaxOuterAxes] = {};
  std::size_t strides[kOperands][kMaxOuterAxes] = {};

  std::size_t count() const {
    std::size_t product = 1;
    for (std::uint32_t axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
};

/// A position in row-major order over OuterAxes. Divides only at the start.
template <std::size_t kOperands>
class Walk {
 public:
  Walk(const OuterAxes<kOperands>& axes, std::size_t start) : axes_(axes) {
    for (std::uint32_t axis = axes.rank; axis-- > 0;) {
      index_[axis] = start % axes.dims[axis];
      start /= axes.dims[axis];
      for (std::size_t operand = 0; operand < kOperands; ++operand) {
        offsets_[operand] += index_[axis] * axes.strides[operand][axis];
      }
    }
  }

  std::size_t offset(std::size_t operand) const { return offsets_[operand]; }
  std::size_t index(std::size_t axis) const { return index_[axis]; }

  /// Moves to the next position, and from the last one to the first.
  void Next() {
    for (std::uint32_t axis = axes_.rank; axis-- > 0;) {
      const bool wraps = ++index_[axis] == axes_.dims[axis];
      const std::size_t back = wraps ? axes_.dims[axis] : 0;
      if (wraps) index_[axis] = 0;
      for (std::size_t operand = 0; operand < kOperands; ++operand) {
        const std::size_t stride = axes_.strides[operand][axis];
        offsets_[operand] += stride;
        offsets_[operand] -= back * stride;
      }
      if (!wraps) return;
    }
  }

 private:
  const OuterAxes<kOperands>& axes_;
  std::size_t index_[kMaxOuterAxes] = {};
  std::size_t offsets_[kOperands] = {};
};

}  // namespace lagoon

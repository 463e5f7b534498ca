#include "kernels/shape_ops.h"

#include <limits>

#include "kernels/ops_testing.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;
using Shape = std::vector<std::int64_t>;

std::size_t Count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= std::size_t(size);
  return count;
}

/// The position of element `index` of `shape`, and back.
Shape Position(const Shape& shape, std::size_t index) {
  Shape position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    position[i] = std::int64_t(index % std::size_t(shape[i]));
    index /= std::size_t(shape[i]);
  }
  return position;
}
std::size_t Index(const Shape& shape, const Shape& position) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < shape.size(); ++i)
    index = index * std::size_t(shape[i]) + std::size_t(position[i]);
  return index;
}

void CheckConcat(std::size_t outer, const std::vector<std::size_t>& axes, std::size_t inner) {
  SCOPED_TRACE(::testing::Message()
               << outer << " " << ::testing::PrintToString(axes) << " " << inner);
  std::vector<Floats> inputs;
  for (std::size_t i = 0; i < axes.size(); ++i)
    inputs.push_back(testing::RandomFloats(outer * axes[i] * inner, -1, 1, unsigned(i)));
  Doubles reference;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t run = axes[i] * inner;
      for (std::size_t e = 0; e < run; ++e) reference.push_back(inputs[i][o * run + e]);
    }
  }
  testing::ExpectKernel([&] { return MakeConcat(outer, axes, inner); }, inputs, reference, 0);
}

TEST(Concat, JoinsChannelsAndBatches) {
  CheckConcat(55 * 55, {64, 64}, 1);  // SqueezeNet's fire module
  CheckConcat(13 * 13, {256, 256}, 1);
  CheckConcat(1, {3, 5}, 1000);
  CheckConcat(7, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 3);
  CheckConcat(1, {1}, 1);
  CheckConcat(1, {90'000, 1, 70'000}, 1);
}

TEST(Concat, RefusesBadInputsByName) {
  const std::vector<std::size_t> none, many(17, 1), empty = {2, 0},
                                                    huge = {std::size_t{1} << 31, 1};
  testing::ExpectInvalid(MakeConcat(1, none, 1), {"concat", "0 inputs"});
  testing::ExpectInvalid(MakeConcat(1, many, 1), {"17 inputs"});
  testing::ExpectInvalid(MakeConcat(1, empty, 1), {"axis is 0"});
  testing::ExpectInvalid(MakeConcat(1, huge, 1), {"2147483649"});
}

void CheckPad(const Shape& dims, const Shape& before, const Shape& after, float value) {
  SCOPED_TRACE(::testing::PrintToString(dims) + ::testing::PrintToString(before) +
               ::testing::PrintToString(after));
  const Floats x = testing::RandomFloats(Count(dims));
  Shape out = dims;
  for (std::size_t i = 0; i < dims.size(); ++i) out[i] += before[i] + after[i];
  Doubles reference;
  for (std::size_t index = 0; index < Count(out); ++index) {
    Shape position = Position(out, index);
    bool inside = true;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      position[i] -= before[i];
      inside = inside && position[i] >= 0 && position[i] < dims[i];
    }
    reference.push_back(inside ? x[Index(dims, position)] : value);
  }
  testing::ExpectKernel([&] { return MakePad(dims, before, after, value); }, {x}, reference, 0);
}

TEST(Pad, AnyAxis) {
  CheckPad({1, 14, 14, 32}, {0, 1, 1, 0}, {0, 1, 1, 0}, 0);
  CheckPad({2, 5, 6, 7}, {1, 2, 0, 3}, {0, 1, 4, 2}, -1.5f);
  CheckPad({2, 2, 2, 2, 2, 2}, {1, 0, 1, 0, 1, 0}, {0, 1, 0, 1, 0, 1}, 2);
  CheckPad({2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, 2);
  CheckPad({5}, {0}, {0}, 1);
  CheckPad({3}, {9'000}, {20'000}, 1);
  CheckPad({300, 3}, {0, 100}, {0, 40}, std::numeric_limits<float>::infinity());
}

TEST(Pad, RefusesBadPaddingByName) {
  const auto make = [](Shape dims, Shape before, Shape after) {
    return MakePad(dims, before, after, 0);
  };
  testing::ExpectInvalid(make({2, 3}, {0, -1}, {0, 0}), {"pad", "-1", "axis 1"});
  testing::ExpectInvalid(make({2, 3}, {0}, {0, 0}), {"[2,3]", "[0]", "ranks"});
  testing::ExpectInvalid(make({}, {}, {}), {"ranks"});
  testing::ExpectInvalid(make({2}, {0}, {std::numeric_limits<std::int64_t>::max()}), {"axis 0"});
  testing::ExpectInvalid(make({2, 2}, {1 << 20, 0}, {0, 1 << 20}), {"y has"});
}

void CheckSlice(const Shape& dims, const Shape& starts, const Shape& out, const Shape& steps) {
  SCOPED_TRACE(::testing::PrintToString(dims) + ::testing::PrintToString(starts) +
               ::testing::PrintToString(steps));
  const Floats x = testing::RandomFloats(Count(dims));
  Doubles reference;
  for (std::size_t index = 0; index < Count(out); ++index) {
    Shape position = Position(out, index);
    for (std::size_t i = 0; i < dims.size(); ++i) position[i] = starts[i] + position[i] * steps[i];
    reference.push_back(x[Index(dims, position)]);
  }
  testing::ExpectKernel([&] { return MakeSlice(dims, starts, out, steps); }, {x}, reference, 0);
}

TEST(Slice, AnyAxisAndStep) {
  CheckSlice({1, 28, 28, 64}, {0, 0, 0, 32}, {1, 28, 28, 32}, {1, 1, 1, 1});
  CheckSlice({4, 9, 10, 6}, {1, 2, 0, 1}, {2, 3, 5, 2}, {2, 3, 2, 4});
  CheckSlice({4, 9, 10, 6}, {0, 0, 0, 0}, {4, 9, 10, 6}, {1, 1, 1, 1});
  CheckSlice({4, 9, 10, 6}, {3, 8, 9, 5}, {1, 1, 1, 1}, {7, 1, 100, 1});
  CheckSlice({3, 2, 3, 2, 3, 5}, {1, 0, 1, 0, 1, 0}, {2, 1, 2, 1, 2, 3}, {1, 1, 1, 1, 1, 2});
  CheckSlice({100'000}, {3}, {33'000}, {3});
  CheckSlice({2, 100'000}, {0, 3}, {2, 99'000}, {1, 1});
}

TEST(Slice, RefusesSlicesThatLeaveTheTensor) {
  const auto make = [](Shape dims, Shape starts, Shape out, Shape steps) {
    return MakeSlice(dims, starts, out, steps);
  };
  testing::ExpectInvalid(make({4, 5}, {0, 1}, {4, 5}, {1, 1}), {"slice", "axis 1", "[4,5]"});
  testing::ExpectInvalid(make({4}, {-1}, {1}, {1}), {"-1"});
  testing::ExpectInvalid(make({4}, {4}, {1}, {1}), {"from 4"});
  testing::ExpectInvalid(make({4}, {0}, {2}, {0}), {"steps of 0"});
  testing::ExpectInvalid(make({4}, {0}, {2}, {std::numeric_limits<std::int64_t>::max()}),
                         {"axis 0"});
  testing::ExpectInvalid(make({4}, {0, 0}, {2}, {1}), {"ranks"});
  testing::ExpectInvalid(make({4}, {0}, {0}, {1}), {"axis 0 of out is 0"});
}

}  // namespace
}  // namespace lagoon

#include "kernels/move/shape_ops.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/testing/ops.h"

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

void CheckConcat(std::size_t outer, const std::vector<std::size_t>& axes, std::size_t inner,
                 bool exp = false) {
  SCOPED_TRACE(::testing::Message()
               << outer << " " << ::testing::PrintToString(axes) << " " << inner);
  std::vector<Floats> inputs;
  for (std::size_t i = 0; i < axes.size(); ++i)
    inputs.push_back(testing::RandomFloats(outer * axes[i] * inner, -1, 1, unsigned(i)));
  Doubles reference;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t run = axes[i] * inner;
      for (std::size_t e = 0; e < run; ++e) {
        const double value = inputs[i][o * run + e];
        reference.push_back(exp ? std::exp(value) : value);
      }
    }
  }
  Epilogue epilogue{.unary = UnaryOp::kExp};
  if (exp) epilogue.activation = Activation::kUnary;
  testing::ExpectKernel([&] { return MakeConcat(outer, axes, inner, sizeof(float), epilogue); },
                        inputs, reference, exp ? 1e-6 : 0);
}

TEST(Concat, JoinsChannelsAndBatches) {
  CheckConcat(55 * 55, {64, 64}, 1);  // SqueezeNet's fire module
  CheckConcat(13 * 13, {256, 256}, 1);
  CheckConcat(1, {3, 5}, 1000);
  CheckConcat(7, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 3);
  CheckConcat(1, {1}, 1);
  CheckConcat(1, {90'000, 1, 70'000}, 1);
}

TEST(Concat, AFunctionFollows) {
  CheckConcat(96, {128, 1}, 64, true);
  CheckConcat(7, {1, 2, 3}, 3, true);
  CheckConcat(1, {90'000, 1, 70'000}, 1, true);
}

TEST(Concat, RefusesBadInputsByName) {
  const std::vector<std::size_t> none, many(17, 1), empty = {2, 0},
                                                    huge = {std::size_t{1} << 31, 1};
  testing::ExpectInvalid(MakeConcat(1, none, 1), {"concat", "0 inputs"});
  testing::ExpectInvalid(MakeConcat(1, many, 1), {"17 inputs"});
  testing::ExpectInvalid(MakeConcat(1, empty, 1), {"axis is 0"});
  testing::ExpectInvalid(MakeConcat(1, huge, 1), {"2147483649"});
  const std::vector<std::size_t> one{1};
  Epilogue epilogue{.activation = Activation::kRelu};
  testing::ExpectInvalid(MakeConcat(1, one, 1, 4, epilogue), {"concat", "limits"});
  epilogue.activation = Activation::kUnary;
  testing::ExpectInvalid(MakeConcat(1, one, 1, 2, epilogue), {"elements of 2 bytes"});
}

std::uint64_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }

void CheckTake(const Shape& dims, const std::vector<Shape>& maps, float fill) {
  SCOPED_TRACE(::testing::PrintToString(dims) + ::testing::PrintToString(maps).substr(0, 200));
  const Floats x = testing::RandomFloats(Count(dims));
  Shape out;
  for (const Shape& map : maps) out.push_back(std::int64_t(map.size()));
  Doubles reference;
  for (std::size_t index = 0; index < Count(out); ++index) {
    Shape position = Position(out, index);
    bool inside = true;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      position[i] = maps[i][std::size_t(position[i])];
      inside = inside && position[i] >= 0;
    }
    reference.push_back(inside ? x[Index(dims, position)] : fill);
  }
  const Result<TakeKernel> take = MakeTake({dims, maps, sizeof(float), Bits(fill)});
  ASSERT_TRUE(take) << take.error().message;
  Floats table(take->table.size() * 2);  // the bytes of the table
  std::memcpy(table.data(), take->table.data(), take->table.size() * sizeof(std::int64_t));
  testing::ExpectKernel([&] { return Result<Kernel>(take->kernel); }, {x, table}, reference, 0);
}

Shape Padded(std::int64_t size, std::int64_t before, std::int64_t after) {
  Shape map;
  for (std::int64_t i = -before; i < size + after; ++i)
    map.push_back(i < size ? std::max<std::int64_t>(i, -1) : -1);
  return map;
}

TEST(Take, PadsAnyAxis) {
  CheckTake({1, 14, 14, 32}, {{0}, Padded(14, 1, 1), Padded(14, 1, 1), Padded(32, 0, 0)}, 0);
  CheckTake({2, 5, 6, 7}, {Padded(2, 1, 0), Padded(5, 2, 1), Padded(6, 0, 4), Padded(7, 3, 2)},
            -1.5f);
  CheckTake({5}, {Padded(5, 0, 0)}, 1);
  CheckTake({3}, {Padded(3, 9'000, 20'000)}, 1);
  CheckTake({300, 3}, {Padded(300, 0, 0), Padded(3, 100, 40)},
            std::numeric_limits<float>::infinity());
  CheckTake({}, {}, 1);
}

TEST(Take, RepeatsMirrorsAndCuts) {
  CheckTake({3, 4}, {{2, 1, 0, 1, 2}, {0, 0, 1, 1, 2, 2, 3, 3}}, 0);
  CheckTake({3, 10'007}, {{2, 0}, Padded(10'007, 0, 0)}, 0);  // a run of prime length
  CheckTake({2, 3, 2, 3, 2, 3, 2, 3}, std::vector<Shape>(8, Shape{1, 0}), 0);
  // Rows that repeat, in one block and over several.
  CheckTake({2, 3, 4}, {{0, 1}, {0, 0, 1, 1, 2, 2}, {0, 0, 1, 1, 2, 2, 3, 3}}, 0);
  CheckTake({2, 30'000}, {{0, 0, 1, 1, -1, -1, 1, 1}, Padded(30'000, 3, 2)}, 7);
  CheckTake({2, 3, 9}, {{1, 1, 0, 0}, {2, 1, 0}, {3, 4, 5, 6, 1, 2, 0, -1, 8}}, 7);
}

TEST(Take, RefusesMapsThatLeaveTheTensor) {
  testing::ExpectInvalid(
      Result<Kernel>(tl::unexpected(MakeTake({{2, 3}, {{0}, {3}}, 4, 0}).error())),
      {"take", "axis 1", "[2,3]", "3"});
  testing::ExpectInvalid(Result<Kernel>(tl::unexpected(MakeTake({{2, 3}, {{0}}, 4, 0}).error())),
                         {"1 maps", "[2,3]"});
}

/// y[index] = x[start + steps * index] along every axis of x. `exp`: exp of that.
void CheckStrided(const Shape& dims, const Shape& starts, const Shape& out, const Shape& steps,
                  bool exp = false) {
  SCOPED_TRACE(::testing::PrintToString(dims) + ::testing::PrintToString(starts) +
               ::testing::PrintToString(steps));
  const Floats x = testing::RandomFloats(Count(dims));
  Doubles reference;
  for (std::size_t index = 0; index < Count(out); ++index) {
    Shape position = Position(out, index);
    for (std::size_t i = 0; i < dims.size(); ++i) position[i] = starts[i] + position[i] * steps[i];
    const double value = x[Index(dims, position)];
    reference.push_back(exp ? std::exp(value) : value);
  }
  StridedCopySpec spec{out, steps, 0, sizeof(float)};
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    spec.start += starts[i] * stride;
    spec.strides[i] *= stride;
    stride *= dims[i];
  }
  if (exp) spec.epilogue.activation = Activation::kUnary;
  spec.epilogue.unary = UnaryOp::kExp;
  testing::ExpectKernel([&] { return MakeStridedCopy(spec); }, {x}, reference, exp ? 1e-6 : 0);
}

TEST(StridedCopy, AnyAxisAndStep) {
  CheckStrided({1, 28, 28, 64}, {0, 0, 0, 32}, {1, 28, 28, 32}, {1, 1, 1, 1});
  CheckStrided({4, 9, 10, 6}, {1, 2, 0, 1}, {2, 3, 5, 2}, {2, 3, 2, 4});
  CheckStrided({4, 9, 10, 6}, {0, 0, 0, 0}, {4, 9, 10, 6}, {1, 1, 1, 1});
  CheckStrided({3, 2, 3, 2, 3, 5}, {1, 0, 1, 0, 1, 0}, {2, 1, 2, 1, 2, 3}, {1, 1, 1, 1, 1, 2});
  CheckStrided({100'000}, {3}, {33'000}, {3});
  CheckStrided({2, 100'000}, {0, 3}, {2, 99'000}, {1, 1});
}

TEST(StridedCopy, BackwardsAndBroadcast) {
  CheckStrided({5, 7}, {4, 6}, {5, 4}, {-1, -2});
  CheckStrided({50'000}, {49'999}, {50'000}, {-1});
  CheckStrided({3, 4}, {1, 0}, {100, 4}, {0, 1});
  CheckStrided({3, 4}, {1, 2}, {30, 40}, {0, 0});
}

TEST(StridedCopy, AFunctionFollows) {
  CheckStrided({1, 3, 40, 85}, {0, 0, 0, 2}, {1, 3, 40, 2}, {1, 1, 1, 1}, true);
  CheckStrided({5, 7}, {4, 6}, {5, 4}, {-1, -2}, true);
  CheckStrided({2, 100'000}, {0, 3}, {2, 99'000}, {1, 1}, true);
}

TEST(StridedCopy, RefusesBadShapes) {
  testing::ExpectInvalid(MakeStridedCopy({{2}, {1, 1}, 0, 4}), {"strided_copy", "[2]", "[1,1]"});
  testing::ExpectInvalid(MakeStridedCopy({{0}, {1}, 0, 4}), {"axis 0 of y is 0"});
  Epilogue epilogue{.activation = Activation::kRelu};
  testing::ExpectInvalid(MakeStridedCopy({{2}, {1}, 0, 4, epilogue}), {"limits"});
  epilogue.activation = Activation::kUnary;
  testing::ExpectInvalid(MakeStridedCopy({{2}, {1}, 0, 8, epilogue}), {"elements of 8 bytes"});
  epilogue.residual = true;
  testing::ExpectInvalid(MakeStridedCopy({{2}, {1}, 0, 4, epilogue}), {"residual"});
}

}  // namespace
}  // namespace lagoon

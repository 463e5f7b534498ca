#include "kernels/elementwise.h"

#include <algorithm>
#include <limits>

#include "kernels/ops_testing.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A few units in the last place of the polynomial approximations.
constexpr double kTolerance = 1e-6;

double Unary(const UnarySpec& s, double x) {
  if (std::isnan(x)) return x;
  switch (s.op) {
    case UnaryOp::kRelu:
      return x < 0 ? 0 : x;
    case UnaryOp::kClip:
      return x < s.alpha ? s.alpha : x > s.beta ? s.beta : x;
    case UnaryOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::kTanh:
      return std::tanh(x);
    case UnaryOp::kExp:
      return float(std::exp(x));  // overflows as single precision does
    case UnaryOp::kLog:
      return std::log(x);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    case UnaryOp::kAbs:
      return std::abs(x);
    case UnaryOp::kNeg:
      return -x;
    case UnaryOp::kLeakyRelu:
      return x < 0 ? s.alpha * x : x;
    case UnaryOp::kHardSwish:
      return x * std::min(1.0, std::max(0.0, x / 6 + 0.5));
    case UnaryOp::kHardSigmoid:
      return std::min(1.0, std::max(0.0, s.alpha * x + s.beta));
    case UnaryOp::kCopy:
      return x;
  }
  return 0;
}

constexpr UnaryOp kUnaryOps[] = {UnaryOp::kRelu,      UnaryOp::kClip,      UnaryOp::kSigmoid,
                                 UnaryOp::kTanh,      UnaryOp::kExp,       UnaryOp::kLog,
                                 UnaryOp::kSqrt,      UnaryOp::kAbs,       UnaryOp::kNeg,
                                 UnaryOp::kLeakyRelu, UnaryOp::kHardSwish, UnaryOp::kHardSigmoid,
                                 UnaryOp::kCopy};

void CheckUnary(UnaryOp op, const Floats& x) {
  SCOPED_TRACE(::testing::Message() << "op " << int(op) << " of " << x.size());
  const UnarySpec spec{.op = op, .count = x.size(), .alpha = 0.2f, .beta = 0.5f};
  Doubles reference;
  for (const float v : x) reference.push_back(Unary(spec, v));
  testing::ExpectKernel([&] { return MakeUnary(spec); }, {x}, reference, kTolerance);
}

TEST(Unary, MatchesReferenceOnAnyCount) {
  for (const UnaryOp op : kUnaryOps) {
    const float low = op == UnaryOp::kLog || op == UnaryOp::kSqrt ? 0.001f : -9;
    for (const std::size_t count : {1u, 5u, 16u, 33u, 1000u, 50'001u})
      CheckUnary(op, testing::RandomFloats(count, low, 9));
  }
}

TEST(Unary, ExtremesAndNan) {
  for (const UnaryOp op : kUnaryOps) {
    Floats x = {0, 1, -1, 1e-30f, 60, -60, 104, -104, 3e38f, -3e38f, NAN};
    if (op != UnaryOp::kHardSwish) x.insert(x.end(), {kInfinity, -kInfinity});
    CheckUnary(op, x);
  }
}

TEST(Unary, OutputMayBeTheInput) {
  Floats x = testing::RandomFloats(40'000);
  const Floats before = x;
  Kernel kernel = *MakeUnary({.op = UnaryOp::kNeg, .count = x.size()});
  float* data = x.data();
  std::memcpy(kernel.args.data() + kernel.inputs[0], &data, sizeof(data));
  std::memcpy(kernel.args.data() + kernel.outputs[0], &data, sizeof(data));
  BlockContext context({}, {});
  for (std::uint32_t block = 0; block < kernel.blocks; ++block)
    kernel.body(kernel.args.data(), block, context);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], -before[i]);
}

TEST(Unary, RefusesBadSpecsByName) {
  testing::ExpectInvalid(MakeUnary({.op = UnaryOp::kAbs, .count = 0}), {"unary", "count", "0"});
  testing::ExpectInvalid(MakeUnary({.op = UnaryOp::kClip, .count = 4, .alpha = 2, .beta = 1}),
                         {"alpha 2", "beta 1"});
  testing::ExpectInvalid(MakeUnary({.op = UnaryOp::kAbs, .count = std::size_t{1} << 40}),
                         {"count"});
}

using Shape = std::vector<std::int64_t>;

std::size_t Count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= std::size_t(size);
  return count;
}

double Binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kPow:
      return std::pow(a, b);
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

/// Where element `index` of `out` lies in `shape`.
std::size_t Broadcast(const Shape& shape, const Shape& out, std::size_t index) {
  std::size_t at = 0, stride = 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t axis = out.size() - 1 - i;
    const std::size_t position = index % std::size_t(out[axis]);
    index /= std::size_t(out[axis]);
    if (i >= shape.size()) continue;
    const auto size = std::size_t(shape[shape.size() - 1 - i]);
    if (size != 1) at += position * stride;
    stride *= size;
  }
  return at;
}

void CheckBinary(const BinarySpec& s) {
  SCOPED_TRACE(::testing::Message()
               << "op " << int(s.op) << " out " << ::testing::PrintToString(s.out) << " a "
               << ::testing::PrintToString(s.a) << " b " << ::testing::PrintToString(s.b));
  const Floats a = testing::RandomFloats(Count(s.a), 0.5, 2),
               b = testing::RandomFloats(Count(s.b), 0.5, 2, 2);
  Doubles reference;
  for (std::size_t i = 0; i < Count(s.out); ++i) {
    double value = Binary(s.op, a[Broadcast(s.a, s.out, i)], b[Broadcast(s.b, s.out, i)]);
    if (s.epilogue.activation == Activation::kClip)
      value = std::min<double>(s.epilogue.high, std::max<double>(s.epilogue.low, value));
    reference.push_back(value);
  }
  testing::ExpectKernel([&] { return MakeBinary(s); }, {a, b}, reference, kTolerance);
}

TEST(Binary, EveryOpOnTheFastPaths) {
  for (const BinaryOp op : {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                            BinaryOp::kPow, BinaryOp::kMin, BinaryOp::kMax}) {
    const Shape image = {1, 7, 9, 33};
    CheckBinary({.op = op, .a = image, .b = image, .out = image});
    CheckBinary({.op = op, .a = image, .b = {}, .out = image});
    CheckBinary({.op = op, .a = {1}, .b = image, .out = image});
    CheckBinary({.op = op, .a = image, .b = {33}, .out = image});
    CheckBinary({.op = op, .a = {33}, .b = image, .out = image});
  }
}

TEST(Binary, BroadcastsAsNumpyDoes) {
  const auto check = [](Shape a, Shape b, Shape out) {
    CheckBinary(
        {.op = BinaryOp::kSub, .a = std::move(a), .b = std::move(b), .out = std::move(out)});
  };
  check({4, 1}, {1, 5}, {4, 5});
  check({2, 3, 1, 5}, {1, 3, 4, 1}, {2, 3, 4, 5});
  check({2, 1, 8, 1, 5, 1, 3}, {1, 3, 1, 4, 1, 1, 1}, {2, 3, 8, 4, 5, 1, 3});
  check({1, 6, 6, 8}, {1, 1, 1, 8}, {1, 6, 6, 8});
  check({3, 1, 1, 8}, {3, 6, 6, 8}, {3, 6, 6, 8});
  check({6, 6, 1}, {6, 6, 8}, {6, 6, 8});
  check({}, {}, {});
  check({1, 1}, {1}, {1, 1});
  check({2, 3}, {2, 3}, {2, 3});
}

TEST(Binary, ManyBlocks) {
  CheckBinary({.op = BinaryOp::kAdd, .a = {200'001}, .b = {200'001}, .out = {200'001}});
  CheckBinary({.op = BinaryOp::kMul, .a = {30'000, 3}, .b = {3}, .out = {30'000, 3}});
  CheckBinary({.op = BinaryOp::kMul, .a = {3, 1}, .b = {3, 40'000}, .out = {3, 40'000}});
}

TEST(Binary, FusedActivation) {
  CheckBinary({.op = BinaryOp::kAdd,
               .a = {40, 40},
               .b = {40, 40},
               .out = {40, 40},
               .epilogue = {.activation = Activation::kClip, .low = 1.5, .high = 2.5}});
}

TEST(Binary, RefusesShapesThatDoNotBroadcast) {
  testing::ExpectInvalid(MakeBinary({.a = {2, 3}, .b = {4}, .out = {2, 3}}),
                         {"binary", "[2,3]", "[4]"});
  testing::ExpectInvalid(MakeBinary({.a = {1, 3}, .b = {3}, .out = {2, 3}}),
                         {"[1,3]", "out [2,3]"});
  testing::ExpectInvalid(MakeBinary({.a = {1, 1, 3}, .b = {3}, .out = {3}}), {"[1,1,3]"});
  testing::ExpectInvalid(MakeBinary({.a = {0}, .b = {0}, .out = {0}}), {"axis 0 of out is 0"});
  const Shape alternating_a = {2, 1, 2, 1, 2, 1, 2}, alternating_b = {1, 2, 1, 2, 1, 2, 1};
  testing::ExpectInvalid(
      MakeBinary({.a = alternating_a, .b = alternating_b, .out = {2, 2, 2, 2, 2, 2, 2}}),
      {"7 axes"});
  testing::ExpectInvalid(
      MakeBinary({.a = {2}, .b = {2}, .out = {2}, .epilogue = {.residual = true}}), {"residual"});
}

}  // namespace
}  // namespace lagoon

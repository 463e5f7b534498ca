#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <limits>

#include "kernels/elementwise/row_functions.h"
#include "kernels/testing/ops.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A few units in the last place of the polynomial approximations.
constexpr double kTolerance = 1e-6;

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double UnaryInDouble(const UnarySpec& s, double x) {
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
      return std::exp(x);
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
    case UnaryOp::kReciprocal:
      return 1 / x;
    case UnaryOp::kErf:
      return std::erf(x);
    case UnaryOp::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
    case UnaryOp::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
    case UnaryOp::kSwish:
      return x / (1 + std::exp(-x));
    case UnaryOp::kSoftplus:
      return Softplus(x);
    case UnaryOp::kMish:
      return x * std::tanh(Softplus(x));
    case UnaryOp::kElu:
      return x < 0 ? s.alpha * std::expm1(x) : x;
    case UnaryOp::kFloor:
      return std::floor(x);
    case UnaryOp::kCeil:
      return std::ceil(x);
    case UnaryOp::kRound:
      return std::nearbyint(x);
    case UnaryOp::kFakeQuantize: {
      // The quotient is rounded to fp32 before it is rounded to an integer.
      const double level = std::nearbyint(float(x) / float(s.alpha));
      return std::min(s.beta + 255, std::max(s.beta, level)) * s.alpha;
    }
    case UnaryOp::kSign:
      return (x > 0) - (x < 0);
    case UnaryOp::kSin:
      return std::sin(x);
    case UnaryOp::kCos:
      return std::cos(x);
    case UnaryOp::kTan:
      return std::tan(x);
    case UnaryOp::kAsin:
      return std::asin(x);
    case UnaryOp::kAcos:
      return std::acos(x);
    case UnaryOp::kAtan:
      return std::atan(x);
    case UnaryOp::kSinh:
      return std::sinh(x);
    case UnaryOp::kCosh:
      return std::cosh(x);
    case UnaryOp::kAsinh:
      return std::asinh(x);
    case UnaryOp::kAcosh:
      return std::acosh(x);
    case UnaryOp::kAtanh:
      return std::atanh(x);
    case UnaryOp::kSoftsign:
      return x / (1 + std::abs(x));
    case UnaryOp::kCelu:
      return std::max(x, 0.0) + std::min(0.0, s.alpha * std::expm1(x / s.alpha));
    case UnaryOp::kSelu:
      return s.beta * (x > 0 ? x : s.alpha * std::expm1(x));
    case UnaryOp::kThresholdedRelu:
      return x > s.alpha ? x : 0;
    case UnaryOp::kShrink:
      return x < -s.alpha ? x + s.beta : x > s.alpha ? x - s.beta : 0;
    case UnaryOp::kNot:
    case UnaryOp::kBitwiseNot:
    case UnaryOp::kIsNaN:
    case UnaryOp::kIsInf:
      break;  // not an op from fp32 to fp32
  }
  ADD_FAILURE() << elementwise::RowOf(s.op).name;
  return 0;
}

/// Overflows as in single precision.
double Unary(const UnarySpec& s, double x) {
  if (std::isnan(x)) return s.op == UnaryOp::kFakeQuantize ? s.beta * s.alpha : x;
  return float(UnaryInDouble(s, x));
}

/// The functions from fp32 to fp32.
const std::vector<UnaryOp> kUnaryOps = [] {
  std::vector<UnaryOp> ops;
  for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
    if (!row.gives_flags && FindUnaryRow(row.op, DataType::kFloat32)) ops.push_back(row.op);
  }
  return ops;
}();

/// The range where the op is defined and where the rounding of x does not matter.
std::pair<float, float> Domain(UnaryOp op) {
  switch (op) {
    case UnaryOp::kLog:
    case UnaryOp::kSqrt:
      return {0.001f, 9};
    case UnaryOp::kReciprocal:
    case UnaryOp::kAcosh:
      return {1.1f, 9};
    case UnaryOp::kTan:
    case UnaryOp::kAsin:
    case UnaryOp::kAcos:
    case UnaryOp::kAtanh:
      return {-0.9f, 0.9f};
    default:
      return {-9, 9};
  }
}

void CheckUnary(UnaryOp op, const Floats& x) {
  SCOPED_TRACE(::testing::Message() << elementwise::RowOf(op).name << " of " << x.size());
  const UnarySpec spec{.op = op, .count = x.size(), .alpha = 0.2f, .beta = 0.5f};
  Doubles reference;
  for (const float v : x) reference.push_back(Unary(spec, v));
  testing::ExpectKernel([&] { return MakeUnary(spec); }, {x}, reference, kTolerance);
}

TEST(Unary, MatchesReferenceOnAnyCount) {
  for (const UnaryOp op : kUnaryOps) {
    const auto [low, high] = Domain(op);
    for (const std::size_t count : {1u, 5u, 16u, 33u, 1000u, 50'001u})
      CheckUnary(op, testing::RandomFloats(count, low, high));
  }
}

TEST(Unary, ExtremesAndNan) {
  for (const UnaryOp op : kUnaryOps) {
    if (op == UnaryOp::kTan) continue;  // sensitive to the rounding of x
    Floats x = {0, 1, -1, 0.999f, -1.001f, 1e-30f, 9.7f, 60, -60, 104, -104, 3e38f, -3e38f, NAN};
    // Infinities only for ops that do not multiply by zero there, which gives NaN.
    const bool product = op == UnaryOp::kHardSwish || op == UnaryOp::kMish ||
                         op == UnaryOp::kGelu || op == UnaryOp::kGeluTanh ||
                         op == UnaryOp::kSoftsign || op == UnaryOp::kSwish;
    if (!product) x.insert(x.end(), {kInfinity, -kInfinity});
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
    case BinaryOp::kMod:  // of positive numbers
    case BinaryOp::kFmod:
      return std::fmod(float(a), float(b));
    case BinaryOp::kPRelu:
      return a < 0 ? a * b : a;
    default:
      ADD_FAILURE() << elementwise::RowOf(op).name;
      return 0;
  }
}

/// The position in `shape` that broadcasts to element `index` of `out`.
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
               << elementwise::RowOf(s.op).name << " out " << ::testing::PrintToString(s.out)
               << " a " << ::testing::PrintToString(s.a) << " b " << ::testing::PrintToString(s.b));
  const Floats a = testing::RandomFloats(Count(s.a), 0.5, 2),
               b = testing::RandomFloats(Count(s.b), 0.5, 2, 2);
  Doubles reference;
  for (std::size_t i = 0; i < Count(s.out); ++i) {
    double value = Binary(s.op, a[Broadcast(s.a, s.out, i)], b[Broadcast(s.b, s.out, i)]);
    if (s.epilogue.activation == Activation::kClip)
      value = std::min<double>(s.epilogue.high, std::max<double>(s.epilogue.low, value));
    if (s.epilogue.activation == Activation::kUnary) value = Unary({.op = s.epilogue.unary}, value);
    reference.push_back(value);
  }
  testing::ExpectKernel([&] { return MakeBinary(s); }, {a, b}, reference, kTolerance);
}

TEST(Binary, EveryOpOnTheFastPaths) {
  for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
    const BinaryOp op = row.op;
    if (row.gives_flags || !FindBinaryRow(op, DataType::kFloat32)) continue;
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

TEST(Binary, FusedFunction) {
  const Epilogue tanh{.activation = Activation::kUnary, .unary = UnaryOp::kTanh};
  CheckBinary({.op = BinaryOp::kAdd, .a = {40, 41}, .b = {41}, .out = {40, 41}, .epilogue = tanh});
  CheckBinary({.op = BinaryOp::kMul, .a = {200'001}, .b = {}, .out = {200'001}, .epilogue = tanh});
}

TEST(Binary, RefusesShapesThatDoNotBroadcast) {
  testing::ExpectInvalid(MakeBinary({.a = {2, 3}, .b = {4}, .out = {2, 3}}),
                         {"binary", "[2,3]", "[4]"});
  testing::ExpectInvalid(MakeBinary({.a = {1, 3}, .b = {3}, .out = {2, 3}}),
                         {"[1,3]", "out [2,3]"});
  testing::ExpectInvalid(MakeBinary({.a = {1, 1, 3}, .b = {3}, .out = {3}}), {"[1,1,3]"});
  testing::ExpectInvalid(MakeBinary({.a = {0}, .b = {0}, .out = {0}}), {"axis 0 of out is 0"});
  const Shape alternating_a = {2, 1, 2, 1, 2, 1, 2, 1, 2},
              alternating_b = {1, 2, 1, 2, 1, 2, 1, 2, 1};
  testing::ExpectInvalid(MakeBinary({.a = alternating_a, .b = alternating_b, .out = Shape(9, 2)}),
                         {"9 axes"});
  testing::ExpectInvalid(
      MakeBinary({.a = {2}, .b = {2}, .out = {2}, .epilogue = {.residual = true}}), {"residual"});
}

}  // namespace
}  // namespace lagoon

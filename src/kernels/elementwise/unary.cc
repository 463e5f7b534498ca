#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/unary.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "kernels/activation.h"
#include "kernels/elementwise/element_rows.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/simd/functions-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_UNARY_ARGS_
#define LAGOON_KERNELS_UNARY_ARGS_
namespace lagoon {
namespace {

struct UnaryArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t count = 0;
  std::size_t blocks = 0;
  float alpha = 0, beta = 0;
};

struct UnaryBodies {
  Body kernel = nullptr;
  Finish::Row finish = nullptr;
};

/// Blocks begin at multiples of this: a cache line, which is also the widest vector.
constexpr std::size_t kUnaryGrain = 16;

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

template <size_t kCount>
HWY_INLINE V Polynomial(V x, const float (&coefficients)[kCount]) {  // constant term first
  V y = Const(coefficients[kCount - 1]);
  LAGOON_UNROLL for (size_t i = 2; i <= kCount; ++i) {
    y = hn::MulAdd(y, x, Const(coefficients[kCount - i]));
  }
  return y;
}

/// Below 1: x times a polynomial of x^2, fitted to a relative error of 2e-9. From 1 on:
/// 1 - exp(-x^2) times a polynomial of 1 / (1 + x / 2), fitted to an absolute error of 4e-9.
LAGOON_VECTOR_FUNCTION V ErfOf(V x) {
  constexpr float kNear[] = {1.1283791065216064f,   -0.3761262595653534f,  0.11283597350120544f,
                             -0.02685432881116867f, 0.005189312156289816f, -0.0008018855005502701f,
                             7.882497448008507e-05f};
  constexpr float kFar[] = {0.000516509055159986f, 0.2747432291507721f,  0.3250410258769989f,
                            0.11703358590602875f,  0.37999704480171204f, -0.03831472992897034f,
                            -0.05980060249567032f};
  // From 4.5 on the result is 1 in fp32; from 9.3 on the exponential would be subnormal and slow.
  const V size = hn::Min(hn::Abs(x), Const(4.5f));
  const V square = hn::Mul(size, size);
  const V t = hn::Div(Const(1), hn::MulAdd(size, Const(0.5f), Const(1)));
  const V far = hn::NegMulAdd(hn::Exp(D(), hn::Neg(square)), Polynomial(t, kFar), Const(1));
  const V near = hn::Mul(size, Polynomial(square, kNear));
  const V y = hn::IfThenElse(hn::Lt(size, Const(1)), near, far);
  return KeepNan(x, hn::CopySign(y, x));
}

LAGOON_VECTOR_FUNCTION V SoftplusOf(V x) {
  const V e = hn::Exp(D(), hn::Neg(hn::Abs(x)));
  return KeepNan(x, hn::Add(hn::Max(x, hn::Zero(D())), hn::Log1p(D(), e)));
}

LAGOON_VECTOR_FUNCTION V GeluOf(V x) {
  const V half = hn::Mul(Const(0.5f), x);
  return hn::MulAdd(half, ErfOf(hn::Mul(x, Const(0.70710678f))), half);
}

LAGOON_VECTOR_FUNCTION V GeluTanhOf(V x) {
  const V half = hn::Mul(Const(0.5f), x);
  const V cubic = hn::MulAdd(hn::Mul(Const(0.044715f), hn::Mul(x, x)), x, x);
  return hn::MulAdd(half, SafeTanh(hn::Mul(Const(0.7978845608f), cubic)), half);
}

#define LAGOON_UNARY(name, expression)                                     \
  struct name {                                                            \
    const V alpha, beta;                                                   \
    HWY_INLINE name(float a, float b) : alpha(Const(a)), beta(Const(b)) {} \
    HWY_INLINE V operator()(V x) const { return expression; }              \
  }
LAGOON_UNARY(Relu, simd::Clamp(x, hn::Zero(D()), hn::Inf(D())));
LAGOON_UNARY(Clip, simd::Clamp(x, alpha, beta));
LAGOON_UNARY(Sigmoid, SigmoidOf(x));
LAGOON_UNARY(Tanh, SafeTanh(x));
LAGOON_UNARY(Exp, SafeExp(x));
LAGOON_UNARY(Log, SafeLog(x));
LAGOON_UNARY(Sqrt, hn::Sqrt(x));
LAGOON_UNARY(Abs, hn::Abs(x));
LAGOON_UNARY(Neg, hn::Neg(x));
LAGOON_UNARY(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(alpha, x), x));
LAGOON_UNARY(HardSwish, hn::Mul(x, simd::Clamp(hn::MulAdd(x, Const(1.0f / 6), Const(0.5f)),
                                               Const(0), Const(1))));
LAGOON_UNARY(HardSigmoid, simd::Clamp(hn::MulAdd(alpha, x, beta), Const(0), Const(1)));
LAGOON_UNARY(Copy, x);
LAGOON_UNARY(Reciprocal, hn::Div(Const(1), x));
LAGOON_UNARY(Erf, ErfOf(x));
LAGOON_UNARY(Gelu, GeluOf(x));
LAGOON_UNARY(GeluTanh, GeluTanhOf(x));
LAGOON_UNARY(Swish, hn::Div(x, hn::Add(Const(1), NormalExp(hn::Neg(x)))));
LAGOON_UNARY(Softplus, SoftplusOf(x));
LAGOON_UNARY(Mish, hn::Mul(x, SafeTanh(SoftplusOf(x))));
LAGOON_UNARY(Elu, hn::IfThenElse(hn::Lt(x, hn::Zero(D())),
                                 hn::Mul(alpha, hn::Expm1(D(), hn::Max(x, Const(-100)))), x));
LAGOON_UNARY(Floor, hn::Floor(x));
LAGOON_UNARY(Ceil, hn::Ceil(x));
LAGOON_UNARY(Round, hn::Round(x));
LAGOON_UNARY(FakeQuantize, hn::Mul(hn::Min(simd::AtLeast(hn::Round(hn::Div(x, alpha)), beta),
                                           hn::Add(beta, Const(255))),
                                   alpha));
#undef LAGOON_UNARY

template <class F>
bool UnaryBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const UnaryArgs*>(raw);
  const F f(args.alpha, args.beta);
  const size_t lanes = simd::Lanes();
  const Range grains = Share(CeilDivide(args.count, kUnaryGrain), args.blocks, block);
  size_t i = grains.begin * kUnaryGrain;
  const size_t end = std::min(args.count, grains.end * kUnaryGrain);
  for (; i + lanes <= end; i += lanes) {
    simd::Whole::Store(f(simd::Whole::Load(args.x + i)), args.y + i);
  }
  if (i < end) {
    const simd::Part part(end - i);
    part.Store(f(part.Load(args.x + i)), args.y + i);
  }
  return true;
}

template <class F>
void FinishRow(const Finish& finish, float* y, const float* residual, size_t count) {
  const F f(finish.alpha, finish.beta);
  const size_t lanes = simd::Lanes();
  const auto step = [&](const auto& io, size_t i) HWY_ATTR {
    V v = f(io.Load(y + i));
    if (residual != nullptr) v = hn::Add(v, io.Load(residual + i));
    io.Store(v, y + i);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(simd::Whole(), i);
  if (i < count) step(simd::Part(count - i), i);
}

template <class F>
UnaryBodies BodiesOf() {
  return {&UnaryBody<F>, &FinishRow<F>};
}

}  // namespace

UnaryBodies PickUnaryBodies(UnaryOp op) {
#define LAGOON_VECTOR_CASE(name, ...) \
  case UnaryOp::k##name:              \
    return BodiesOf<name>();
#define LAGOON_ROW_CASE(name, ...) case UnaryOp::k##name:
  switch (op) {
    LAGOON_VECTOR_UNARY_OPS(LAGOON_VECTOR_CASE)
    LAGOON_SCALAR_UNARY_OPS(LAGOON_ROW_CASE)
    LAGOON_BIT_UNARY_OPS(LAGOON_ROW_CASE)
    LAGOON_TEST_UNARY_OPS(LAGOON_ROW_CASE)
    break;
  }
#undef LAGOON_VECTOR_CASE
#undef LAGOON_ROW_CASE
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickUnaryBodies);

constexpr char kName[] = "unary";

}  // namespace

Result<Finish> FinishOf(std::string_view op, const Epilogue& epilogue) {
  const bool function = epilogue.activation == Activation::kUnary;
  if (!function && !epilogue.residual_last) return Finish{};
  const UnaryOp unary = function ? epilogue.unary : UnaryOp::kCopy;
  Finish finish;
  finish.row = LAGOON_DISPATCH(PickUnaryBodies)(unary).finish;
  finish.alpha = epilogue.alpha;
  finish.beta = epilogue.beta;
  if (finish.row == nullptr) {
    return Invalid(op, fmt::format("the function {} of the epilogue has no vector body",
                                   elementwise::RowOf(unary).name));
  }
  return finish;
}

double FinishNs(const Epilogue& epilogue) {
  constexpr double kNsPerPass = 0.1;
  const bool function = epilogue.activation == Activation::kUnary;
  if (!function && !epilogue.residual_last) return 0;
  return kNsPerPass + (function ? elementwise::RowOf(epilogue.unary).vector_ns : 0);
}

Result<Kernel> MakeUnary(const UnarySpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"count", spec.count}}));
  if (spec.op == UnaryOp::kClip && !(spec.alpha <= spec.beta)) {
    return Invalid(kName,
                   fmt::format("clip: alpha {} is not at most beta {}", spec.alpha, spec.beta));
  }
  const Body body = LAGOON_DISPATCH(PickUnaryBodies)(spec.op).kernel;
  if (body == nullptr || spec.type != DataType::kFloat32) return MakeUnaryRows(spec);
  const auto count = static_cast<double>(spec.count);
  UnaryArgs args;
  args.count = spec.count;
  args.alpha = static_cast<float>(spec.alpha);
  args.beta = static_cast<float>(spec.beta);
  const double bytes = 2 * sizeof(float) * count;
  args.blocks = BlocksFor(std::max(MoveNs(bytes), elementwise::RowOf(spec.op).vector_ns * count),
                          CeilDivide(spec.count, kUnaryGrain));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = body;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(UnaryArgs, x)};
  kernel.outputs = {offsetof(UnaryArgs, y)};
  kernel.flops = count;
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE

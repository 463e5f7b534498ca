#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/unary.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/elementwise.h"
#include "kernels/simd-inl.h"
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

/// Blocks begin at multiples of this: a cache line, and the widest vector.
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

HWY_INLINE V Const(float value) { return hn::Set(D(), value); }

/// Highway's functions hold on a limited range; outside it, and for NaN, these say what they give.
HWY_INLINE V SafeExp(V x) {
  const V e = hn::Exp(D(), hn::Min(Const(104.0f), x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

HWY_INLINE V SafeLog(V x) {
  const V infinity = hn::Inf(D());
  const V finite =
      hn::IfThenElse(hn::And(hn::Gt(x, hn::Zero(D())), hn::Lt(x, infinity)), x, Const(1));
  V y = hn::Log(D(), finite);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(D())), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(D())), hn::IsNaN(x)), hn::NaN(D()), y);
}

#define LAGOON_UNARY(name, expression)                        \
  struct name {                                               \
    const V alpha, beta;                                      \
    explicit HWY_INLINE name(const UnaryArgs& args)           \
        : alpha(Const(args.alpha)), beta(Const(args.beta)) {} \
    HWY_INLINE V operator()(V x) const { return expression; } \
  }
LAGOON_UNARY(Relu, simd::Clamp(x, hn::Zero(D()), hn::Inf(D())));
LAGOON_UNARY(Clip, simd::Clamp(x, alpha, beta));
LAGOON_UNARY(Sigmoid, hn::Div(Const(1), hn::Add(Const(1), SafeExp(hn::Neg(x)))));
LAGOON_UNARY(Tanh,
             hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(D(), simd::Clamp(x, Const(-20), Const(20)))));
LAGOON_UNARY(Exp, SafeExp(x));
LAGOON_UNARY(Log, SafeLog(x));
LAGOON_UNARY(Sqrt, hn::Sqrt(x));
LAGOON_UNARY(Abs, hn::Abs(x));
LAGOON_UNARY(Neg, hn::Neg(x));
LAGOON_UNARY(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(alpha, x), x));
LAGOON_UNARY(HardSwish, hn::Mul(x, simd::Clamp(hn::MulAdd(x, Const(1.0f / 6), Const(0.5f)),
                                               Const(0), Const(1))));
LAGOON_UNARY(HardSigmoid, simd::Clamp(hn::MulAdd(alpha, x, beta), Const(0), Const(1)));
LAGOON_UNARY(Identity, x);
#undef LAGOON_UNARY

template <class F>
bool UnaryBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const UnaryArgs*>(raw);
  const F f(args);
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

}  // namespace

Body PickUnaryBody(UnaryOp op) {
  switch (op) {
    case UnaryOp::kRelu:
      return &UnaryBody<Relu>;
    case UnaryOp::kClip:
      return &UnaryBody<Clip>;
    case UnaryOp::kSigmoid:
      return &UnaryBody<Sigmoid>;
    case UnaryOp::kTanh:
      return &UnaryBody<Tanh>;
    case UnaryOp::kExp:
      return &UnaryBody<Exp>;
    case UnaryOp::kLog:
      return &UnaryBody<Log>;
    case UnaryOp::kSqrt:
      return &UnaryBody<Sqrt>;
    case UnaryOp::kAbs:
      return &UnaryBody<Abs>;
    case UnaryOp::kNeg:
      return &UnaryBody<Neg>;
    case UnaryOp::kLeakyRelu:
      return &UnaryBody<LeakyRelu>;
    case UnaryOp::kHardSwish:
      return &UnaryBody<HardSwish>;
    case UnaryOp::kHardSigmoid:
      return &UnaryBody<HardSigmoid>;
    case UnaryOp::kCopy:
      return &UnaryBody<Identity>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "base/check.h"
#include "kernels/checks.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickUnaryBody);

constexpr char kName[] = "unary";

// Measured on a Xeon at 2 GHz, one thread, with AVX2; the others are faster than memory.
double NsPerElement(UnaryOp op) {
  switch (op) {
    case UnaryOp::kSigmoid:
    case UnaryOp::kTanh:
    case UnaryOp::kExp:
    case UnaryOp::kLog:
      return 2.0;
    case UnaryOp::kSqrt:
      return 0.7;
    default:
      return 0;
  }
}

}  // namespace

Result<Kernel> MakeUnary(const UnarySpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"count", spec.count}}));
  if (spec.op == UnaryOp::kClip && !(spec.alpha <= spec.beta)) {
    return Invalid(kName,
                   fmt::format("clip: alpha {} is not at most beta {}", spec.alpha, spec.beta));
  }
  const auto count = static_cast<double>(spec.count);
  UnaryArgs args;
  args.count = spec.count;
  args.alpha = spec.alpha;
  args.beta = spec.beta;
  const double bytes = 2 * sizeof(float) * count;
  args.blocks = BlocksFor(std::max(MoveNs(bytes), NsPerElement(spec.op) * count),
                          CeilDivide(spec.count, kUnaryGrain));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = HWY_DYNAMIC_DISPATCH(PickUnaryBody)(spec.op);
  LAGOON_CHECK(kernel.body != nullptr);
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

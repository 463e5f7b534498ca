#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/functions-inl.h"
#include "kernels/recurrent.h"
#include "kernels/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_RECURRENT_ARGS_
#define LAGOON_KERNELS_RECURRENT_ARGS_
namespace lagoon {
namespace {

/// A task is a group of hidden units of one sequence: one vector of the widest set.
constexpr std::size_t kCellUnits = 16;

struct CellArgs {
  const float* x = nullptr;
  const float* r = nullptr;
  const float* h = nullptr;
  const float* extra[2] = {};  // c and peepholes; z and r * h; the bias
  float* out[2] = {};
  std::size_t batch = 1, hidden = 1, gates = 1;
  std::size_t tasks = 1, blocks = 1;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float Dot(const float* a, const float* b, size_t count) {
  const size_t lanes = simd::Lanes();
  V low = hn::Zero(D()), high = hn::Zero(D());
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    low = hn::MulAdd(hn::LoadU(D(), a + i), hn::LoadU(D(), b + i), low);
    high = hn::MulAdd(hn::LoadU(D(), a + i + lanes), hn::LoadU(D(), b + i + lanes), high);
  }
  float sum = hn::GetLane(hn::SumOfLanes(D(), hn::Add(low, high)));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// One task: products first, then the functions by vectors.
class Units {
 public:
  Units(const CellArgs& args, size_t task) : args_(args) {
    // Sequences of the same units follow each other, so that their weights stay in the cache.
    const size_t sequence = task % args.batch;
    first_ = task / args.batch * kCellUnits;
    count_ = std::min(kCellUnits, args.hidden - first_);
    state_ = sequence * args.hidden;
    x_ = args.x + state_ * args.gates + first_;
    h_ = args.h + state_;
    reset_ = args.extra[1] == nullptr ? nullptr : args.extra[1] + state_;
  }

  template <CellKind kKind>
  HWY_INLINE void Run() {
    Products<kKind>();
    size_t i = 0;
    for (; i + simd::Lanes() <= count_; i += simd::Lanes()) Step<kKind>(simd::Whole(), i);
    if (i < count_) Step<kKind>(simd::Part(count_ - i), i);
  }

 private:
  /// Which gates have a product, and with what.
  template <CellKind kKind>
  HWY_INLINE void Products() {
    if constexpr (kKind == CellKind::kGruState) return Multiply(2, reset_);
    constexpr size_t kProducts = kKind == CellKind::kLstm        ? 4
                                 : kKind == CellKind::kGruLinear ? 3
                                 : kKind == CellKind::kGruGates  ? 2
                                                                 : 1;
    for (size_t gate = 0; gate < kProducts; ++gate) Multiply(gate, h_);
  }

  /// The product of gate `gate`'s weights with `state`, without x.
  HWY_INLINE void Multiply(size_t gate, const float* state) {
    const float* r = args_.r + (gate * args_.hidden + first_) * args_.hidden;
    for (size_t i = 0; i < count_; ++i, r += args_.hidden) {
      products_[gate][i] = Dot(r, state, args_.hidden);
    }
  }

  template <CellKind kKind, class Io>
  HWY_INLINE void Step(const Io& io, size_t i) const {
    if constexpr (kKind == CellKind::kLstm) Lstm(io, i);
    if constexpr (kKind == CellKind::kRnn) Write(io, 0, i, SafeTanh(Gate(io, 0, i)));
    if constexpr (kKind == CellKind::kGruGates) {
      Write(io, 0, i, SigmoidOf(Gate(io, 0, i)));
      Write(io, 1, i, hn::Mul(SigmoidOf(Gate(io, 1, i)), State(io, i)));
    }
    if constexpr (kKind == CellKind::kGruState) {
      Blend(io, i, io.Load(args_.extra[0] + state_ + first_ + i), SafeTanh(Gate(io, 2, i)));
    }
    if constexpr (kKind == CellKind::kGruLinear) {
      const V r = SigmoidOf(Gate(io, 1, i));
      const V product = hn::Add(Product(2, i), io.Load(args_.extra[0] + first_ + i));
      Blend(io, i, SigmoidOf(Gate(io, 0, i)), SafeTanh(hn::MulAdd(r, product, X(io, 2, i))));
    }
  }

  template <class Io>
  HWY_INLINE void Lstm(const Io& io, size_t i) const {
    const V before = io.Load(args_.extra[0] + state_ + first_ + i);
    const auto peek = [&](size_t gate, V value, V c) HWY_ATTR {
      if (args_.extra[1] == nullptr) return value;
      return hn::MulAdd(io.Load(args_.extra[1] + gate * args_.hidden + first_ + i), c, value);
    };
    const V in = SigmoidOf(peek(0, Gate(io, 0, i), before));
    const V forget = SigmoidOf(peek(2, Gate(io, 2, i), before));
    const V c = hn::MulAdd(forget, before, hn::Mul(in, SafeTanh(Gate(io, 3, i))));
    const V out = SigmoidOf(peek(1, Gate(io, 1, i), c));
    Write(io, 0, i, hn::Mul(out, SafeTanh(c)));
    Write(io, 1, i, c);
  }

  /// Lanes behind the units are garbage that nobody stores.
  HWY_INLINE V Product(size_t gate, size_t i) const { return hn::LoadU(D(), products_[gate] + i); }
  template <class Io>
  HWY_INLINE V X(const Io& io, size_t gate, size_t i) const {
    return io.Load(x_ + gate * args_.hidden + i);
  }
  template <class Io>
  HWY_INLINE V Gate(const Io& io, size_t gate, size_t i) const {
    return hn::Add(X(io, gate, i), Product(gate, i));
  }
  template <class Io>
  HWY_INLINE V State(const Io& io, size_t i) const {
    return io.Load(h_ + first_ + i);
  }
  template <class Io>
  HWY_INLINE void Blend(const Io& io, size_t i, V z, V candidate) const {
    Write(io, 0, i, hn::MulAdd(z, hn::Sub(State(io, i), candidate), candidate));
  }
  template <class Io>
  HWY_INLINE void Write(const Io& io, size_t output, size_t i, V value) const {
    io.Store(value, args_.out[output] + state_ + first_ + i);
  }

  const CellArgs& args_;
  size_t first_, count_;  // units
  size_t state_;          // of the sequence
  const float* x_;
  const float* h_;
  const float* reset_;
  float products_[4][kCellUnits] = {};
};

template <CellKind kKind>
bool CellBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const CellArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  for (size_t task = tasks.begin; task < tasks.end; ++task) Units(args, task).Run<kKind>();
  return true;
}

}  // namespace

Body PickCellBody(CellKind kind) {
  switch (kind) {
    case CellKind::kLstm:
      return &CellBody<CellKind::kLstm>;
    case CellKind::kRnn:
      return &CellBody<CellKind::kRnn>;
    case CellKind::kGruGates:
      return &CellBody<CellKind::kGruGates>;
    case CellKind::kGruState:
      return &CellBody<CellKind::kGruState>;
    case CellKind::kGruLinear:
      return &CellBody<CellKind::kGruLinear>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/checks.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickCellBody);

constexpr char kName[] = "cell";

// Measured on a Xeon at 2 GHz, one thread, weights in the third-level cache.
constexpr double kNsPerProduct = 0.1;
constexpr double kNsPerUnit = 20;

/// What a kind has beside x, r and h.
struct Form {
  std::size_t gates = 1, products = 1, extras = 0, outputs = 1;
};

Form FormOf(const CellSpec& spec) {
  switch (spec.kind) {
    case CellKind::kLstm:
      return {4, 4, spec.peepholes ? std::size_t{2} : std::size_t{1}, 2};
    case CellKind::kRnn:
      return {1, 1, 0, 1};
    case CellKind::kGruGates:
      return {3, 2, 0, 2};
    case CellKind::kGruState:
      return {3, 1, 2, 1};
    case CellKind::kGruLinear:
      return {3, 3, 1, 1};
  }
  CheckFailed("a known CellKind", __FILE__, __LINE__);
}

}  // namespace

Result<Kernel> MakeCell(const CellSpec& spec) {
  const Form form = FormOf(spec);
  LAGOON_RETURN_IF_ERROR(CheckElements(
      kName, "x", {{"batch", spec.batch}, {"gates", form.gates}, {"hidden", spec.hidden}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(
      kName, "r", {{"gates", form.gates}, {"hidden", spec.hidden}, {"hidden", spec.hidden}}));
  CellArgs args;
  args.batch = spec.batch;
  args.hidden = spec.hidden;
  args.gates = form.gates;
  const std::size_t units = spec.batch * spec.hidden;
  const double products = static_cast<double>(units) * static_cast<double>(form.products) *
                          static_cast<double>(spec.hidden);
  args.tasks = CeilDivide(spec.hidden, kCellUnits) * spec.batch;
  args.blocks =
      BlocksFor(kNsPerProduct * products + kNsPerUnit * static_cast<double>(units), args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = HWY_DYNAMIC_DISPATCH(PickCellBody)(spec.kind);
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(CellArgs, x), offsetof(CellArgs, r), offsetof(CellArgs, h)};
  for (std::size_t i = 0; i < form.extras; ++i) {
    kernel.inputs.push_back(
        static_cast<std::uint32_t>(offsetof(CellArgs, extra) + i * sizeof(float*)));
  }
  for (std::size_t i = 0; i < form.outputs; ++i) {
    kernel.outputs.push_back(
        static_cast<std::uint32_t>(offsetof(CellArgs, out) + i * sizeof(float*)));
  }
  kernel.flops = 2 * products;
  kernel.bytes_moved = sizeof(float) * static_cast<double>(form.products) *
                       static_cast<double>(spec.hidden * spec.hidden);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE

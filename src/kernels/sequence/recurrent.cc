#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/recurrent.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "hwy/cache_control.h"
#include "kernels/sequence/recurrent.h"
#include "kernels/simd/functions-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_RECURRENT_ARGS_
#define LAGOON_KERNELS_RECURRENT_ARGS_
namespace lagoon {
namespace {

/// A task is a group of hidden units (as many as the widest vector has lanes) of a group of
/// sequences.
constexpr std::size_t kCellUnits = 16;
constexpr std::size_t kCellSequences = 8;

constexpr std::size_t GatesWithProducts(CellKind kind) {
  switch (kind) {
    case CellKind::kLstm:
      return 4;
    case CellKind::kGruLinear:
      return 3;
    case CellKind::kGruGates:
      return 2;
    case CellKind::kRnn:
    case CellKind::kGruState:
      return 1;
  }
  return 0;
}

struct CellArgs {
  const float* x = nullptr;
  const float* r = nullptr;
  const float* h = nullptr;
  const float* extra[2] = {};  // c and peepholes; z and r * h; the bias
  float* out[2] = {};
  const std::int32_t* lengths = nullptr;
  CellActivation gate, candidate, output;
  float clip = 0;
  bool coupled = false;
  std::int32_t step = 0;
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

/// Sums that fit the registers, with the operands of a step, and sequences that share a weight.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kMostSums = 16, kMostShared = 8;
#else
constexpr size_t kMostSums = 8, kMostShared = 4;
#endif
static_assert(kMostShared <= kCellSequences);

HWY_INLINE V SoftplusOf(V x) {
  const V positive = hn::Max(x, hn::Zero(D()));
  return KeepNan(x, hn::Add(positive, SafeLog(hn::Add(Const(1), NormalExp(hn::Neg(hn::Abs(x)))))));
}

/// Not inlined: these functions are rare, and a copy at each call takes minutes to compile.
HWY_NOINLINE V OtherFunction(const CellActivation& f, V x) {
  const V zero = hn::Zero(D()), alpha = Const(f.alpha), beta = Const(f.beta);
  switch (f.function) {
    case CellFunction::kSigmoid:
      return SigmoidOf(x);
    case CellFunction::kTanh:
      return SafeTanh(x);
    case CellFunction::kRelu:
      return KeepNan(x, hn::Max(x, zero));
    case CellFunction::kAffine:
      return hn::MulAdd(alpha, x, beta);
    case CellFunction::kLeakyRelu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x);
    case CellFunction::kThresholdedRelu:
      return hn::IfThenElse(hn::Lt(x, alpha), zero, x);
    case CellFunction::kScaledTanh:
      return hn::Mul(alpha, SafeTanh(hn::Mul(beta, x)));
    case CellFunction::kHardSigmoid:
      return simd::Clamp(hn::MulAdd(alpha, x, beta), zero, Const(1));
    case CellFunction::kElu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, hn::Sub(NormalExp(x), Const(1))), x);
    case CellFunction::kSoftsign:
      return hn::Div(x, hn::Add(Const(1), hn::Abs(x)));
    case CellFunction::kSoftplus:
      return SoftplusOf(x);
  }
  return x;
}

HWY_INLINE V Activated(const CellActivation& f, V x) {
  if (f.function == CellFunction::kSigmoid) return SigmoidOf(x);
  if (f.function == CellFunction::kTanh) return SafeTanh(x);
  return OtherFunction(f, x);
}

/// Computes one task: products first, then the functions, vector by vector.
class Units {
 public:
  Units(const CellArgs& args, size_t task) : args_(args) {
    // Tasks on the same units follow each other, so that their weights stay in the cache.
    const size_t groups = CeilDivide(args.batch, kCellSequences);
    sequence_ = task % groups * kCellSequences;
    sequences_ = std::min(kCellSequences, args.batch - sequence_);
    first_ = task / groups * kCellUnits;
    count_ = std::min(kCellUnits, args.hidden - first_);
  }

  template <CellKind kKind>
  HWY_INLINE void Run() {
    MultiplyAll<kKind, kMostShared>(0);
    for (size_t s = 0; s < sequences_; ++s) {
      state_ = (sequence_ + s) * args_.hidden;
      if (args_.lengths != nullptr && args_.step >= args_.lengths[sequence_ + s]) {
        Keep<kKind>();
        continue;
      }
      x_ = args_.x + state_ * args_.gates + first_;
      h_ = args_.h + state_;
      products_ = dots_[s];
      size_t i = 0;
      for (; i + simd::Lanes() <= count_; i += simd::Lanes()) Step<kKind>(simd::Whole(), i);
      if (i < count_) Step<kKind>(simd::Part(count_ - i), i);
    }
  }

 private:
  /// The states behind the end of a sequence.
  template <CellKind kKind>
  HWY_INLINE void Keep() const {
    const size_t at = state_ + first_;
    simd::Copy(args_.h + at, count_, args_.out[0] + at);
    if constexpr (kKind == CellKind::kLstm) {
      simd::Copy(args_.extra[0] + at, count_, args_.out[1] + at);
    }
    // The second half of this step does not read these values.
    if constexpr (kKind == CellKind::kGruGates) simd::Fill(0, count_, args_.out[1] + at);
  }

  /// The products of the sequences of the task from `first` on: of as many at once as there are,
  /// so that weights are read as seldom as may be.
  template <CellKind kKind, size_t kSequences>
  HWY_INLINE void MultiplyAll(size_t first) {
    for (; first + kSequences <= sequences_; first += kSequences) {
      Multiply<kKind, kSequences>(first);
    }
    if constexpr (kSequences > 1) MultiplyAll<kKind, kSequences / 2>(first);
  }

  /// The products of the weights with the states, without x. Computes as many at once as hide the
  /// latency of one; the order of each sum does not depend on their number.
  template <CellKind kKind, size_t kSequences>
  HWY_NOINLINE void Multiply(size_t first) {
    constexpr size_t kGates = GatesWithProducts(kKind);
    constexpr size_t kRows = std::max<size_t>(1, (kSequences < 4 ? 8 : kMostSums) / kSequences);
    constexpr size_t kFirstGate = kKind == CellKind::kGruState ? 2 : 0;
    const float* states = kKind == CellKind::kGruState ? args_.extra[1] : args_.h;
    const float* state[kSequences];
    LAGOON_UNROLL for (size_t s = 0; s < kSequences; ++s) {
      state[s] = states + (sequence_ + first + s) * args_.hidden;
    }
    const size_t all = kGates * count_;  // unit by unit
    for (size_t next = 0; next < all; next += kRows) {
      const float* rows[kRows];
      size_t gate[kRows], unit[kRows];
      LAGOON_UNROLL for (size_t row = 0; row < kRows; ++row) {
        const size_t at = std::min(next + row, all - 1);  // the last row is repeated
        gate[row] = kFirstGate + at % kGates;
        unit[row] = at / kGates;
        rows[row] = args_.r + (gate[row] * args_.hidden + first_ + unit[row]) * args_.hidden;
      }
      V sums[kRows][kSequences];
      Dots<kRows, kSequences>(rows, state, sums);
      LAGOON_UNROLL for (size_t row = 0; row < kRows; ++row) {
        LAGOON_UNROLL for (size_t s = 0; s < kSequences; ++s) {
          dots_[first + s][gate[row]][unit[row]] = hn::GetLane(hn::SumOfLanes(D(), sums[row][s]));
        }
      }
    }
  }

  template <size_t kRows, size_t kSequences>
  HWY_INLINE void Dots(const float* const (&rows)[kRows], const float* const (&state)[kSequences],
                       V (&sums)[kRows][kSequences]) const {
    LAGOON_UNROLL for (size_t row = 0; row < kRows; ++row) {
      LAGOON_UNROLL for (size_t s = 0; s < kSequences; ++s) sums[row][s] = hn::Zero(D());
    }
    const auto add = [&](const auto& io, size_t k) HWY_ATTR {
      V states[kSequences];
      LAGOON_UNROLL for (size_t s = 0; s < kSequences; ++s) states[s] = io.Load(state[s] + k);
      LAGOON_UNROLL for (size_t row = 0; row < kRows; ++row) {
        const V weights = io.Load(rows[row] + k);
        LAGOON_UNROLL for (size_t s = 0; s < kSequences; ++s) {
          sums[row][s] = hn::MulAdd(weights, states[s], sums[row][s]);
        }
      }
    };
    const size_t lanes = simd::Lanes();
    size_t k = 0;
    for (; k + lanes <= args_.hidden; k += lanes) {
      // Between the weights of one step is so much work that the hardware does not look ahead to
      // those of the next unit: 230 us without this for 8 sequences of 512 units, 192 with it.
      if constexpr (kSequences >= 4) {
        LAGOON_UNROLL for (size_t row = 0; row < kRows; ++row) {
          hwy::Prefetch(rows[row] + args_.hidden + k);
        }
      }
      add(simd::Whole(), k);
    }
    if (k < args_.hidden) add(simd::Part(args_.hidden - k), k);
  }

  template <CellKind kKind, class Io>
  HWY_INLINE void Step(const Io& io, size_t i) const {
    if constexpr (kKind == CellKind::kLstm) Lstm(io, i);
    if constexpr (kKind == CellKind::kRnn) Write(io, 0, i, Candidate(Gate(io, 0, i)));
    if constexpr (kKind == CellKind::kGruGates) {
      Write(io, 0, i, GateOf(Gate(io, 0, i)));
      Write(io, 1, i, hn::Mul(GateOf(Gate(io, 1, i)), State(io, i)));
    }
    if constexpr (kKind == CellKind::kGruState) {
      Blend(io, i, io.Load(args_.extra[0] + state_ + first_ + i), Candidate(Gate(io, 2, i)));
    }
    if constexpr (kKind == CellKind::kGruLinear) {
      const V r = GateOf(Gate(io, 1, i));
      const V product = hn::Add(Product(2, i), io.Load(args_.extra[0] + first_ + i));
      Blend(io, i, GateOf(Gate(io, 0, i)), Candidate(hn::MulAdd(r, product, X(io, 2, i))));
    }
  }

  template <class Io>
  HWY_INLINE void Lstm(const Io& io, size_t i) const {
    const V before = io.Load(args_.extra[0] + state_ + first_ + i);
    const auto peek = [&](size_t gate, V value, V c) HWY_ATTR {
      if (args_.extra[1] == nullptr) return value;
      return hn::MulAdd(io.Load(args_.extra[1] + gate * args_.hidden + first_ + i), c, value);
    };
    const V in = GateOf(peek(0, Gate(io, 0, i), before));
    const V forget =
        args_.coupled ? hn::Sub(Const(1), in) : GateOf(peek(2, Gate(io, 2, i), before));
    const V c = hn::MulAdd(forget, before, hn::Mul(in, Candidate(Gate(io, 3, i))));
    const V out = GateOf(peek(1, Gate(io, 1, i), c));
    Write(io, 0, i, hn::Mul(out, Activated(args_.output, c)));
    Write(io, 1, i, c);
  }

  HWY_INLINE V Clipped(V x) const {
    return args_.clip > 0 ? simd::Clamp(x, Const(-args_.clip), Const(args_.clip)) : x;
  }
  HWY_INLINE V GateOf(V x) const { return Activated(args_.gate, Clipped(x)); }
  HWY_INLINE V Candidate(V x) const { return Activated(args_.candidate, Clipped(x)); }

  /// Lanes behind the last unit are garbage and are never stored.
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
  size_t first_, count_;         // units
  size_t sequence_, sequences_;  // the first one, and their number
  float dots_[kCellSequences][4][kCellUnits] = {};

  // Values for the current sequence.
  size_t state_ = 0;
  const float* x_ = nullptr;
  const float* h_ = nullptr;
  const float (*products_)[kCellUnits] = nullptr;  // by gate
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
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickCellBody);

constexpr char kName[] = "cell";

// Measured on a Xeon at 2.6 GHz, one thread, weights in the third-level cache.
constexpr double kNsPerWeight = 0.13;
constexpr double kNsPerProduct = 0.01;
constexpr double kNsPerUnit = 10;

/// The operands of a kind besides x, r and h.
struct Form {
  std::size_t gates = 1, extras = 0, outputs = 1;
};

Form FormOf(const CellSpec& spec) {
  switch (spec.kind) {
    case CellKind::kLstm:
      return {4, spec.peepholes ? std::size_t{2} : std::size_t{1}, 2};
    case CellKind::kRnn:
      return {1, 0, 1};
    case CellKind::kGruGates:
      return {3, 0, 2};
    case CellKind::kGruState:
      return {3, 2, 1};
    case CellKind::kGruLinear:
      return {3, 1, 1};
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
  args.gate = spec.gate;
  args.candidate = spec.candidate;
  args.output = spec.output;
  args.clip = spec.clip;
  args.coupled = spec.coupled;
  args.step = spec.step;
  const double units = static_cast<double>(spec.batch * spec.hidden);
  const double weights = static_cast<double>(GatesWithProducts(spec.kind)) *
                         static_cast<double>(spec.hidden * spec.hidden);
  const double products = weights * static_cast<double>(spec.batch);
  args.tasks = CeilDivide(spec.hidden, kCellUnits) * CeilDivide(spec.batch, kCellSequences);
  args.blocks =
      BlocksFor(kNsPerWeight * weights + kNsPerProduct * products + kNsPerUnit * units, args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickCellBody)(spec.kind);
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(CellArgs, x), offsetof(CellArgs, r), offsetof(CellArgs, h)};
  for (std::size_t i = 0; i < form.extras; ++i) {
    kernel.inputs.push_back(
        static_cast<std::uint32_t>(offsetof(CellArgs, extra) + i * sizeof(float*)));
  }
  if (spec.lengths) kernel.inputs.push_back(offsetof(CellArgs, lengths));
  for (std::size_t i = 0; i < form.outputs; ++i) {
    kernel.outputs.push_back(
        static_cast<std::uint32_t>(offsetof(CellArgs, out) + i * sizeof(float*)));
  }
  kernel.flops = 2 * products;
  kernel.bytes_moved = sizeof(float) * weights;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE

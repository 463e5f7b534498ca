// Matrix times vector, once per Highway target. Include after foreach_target.h.

#if defined(LAGOON_KERNELS_GEMV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_GEMV_INL_H_
#undef LAGOON_KERNELS_GEMV_INL_H_
#else
#define LAGOON_KERNELS_GEMV_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "hwy/cache_control.h"
#include "kernels/conv/gemv_args.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace conv {

using simd::D;
using simd::V;
namespace hn = simd::hn;

/// The sums of one group: two per output, so that consecutive additions do not wait for each other.
struct GemvSums {
  V even[kGemvGroup], odd[kGemvGroup];

  HWY_INLINE GemvSums() {
    LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) even[o] = odd[o] = hn::Zero(D());
  }
};

/// Layout of the weights: `kFloats` floats hold one vector of the depth for all outputs of a group.
struct Fp32Weights {
  static constexpr bool kBf16 = false;
  static constexpr std::size_t kFloats = kGemvGroup * hn::MaxLanes(D());

  /// Loads the weights of output `o` for two neighbouring vectors of the depth. `w`: start of the
  /// first one.
  static HWY_INLINE void LoadPair(const float* w, std::uint32_t o, V& even, V& odd) {
    even = hn::Load(D(), w + o * hn::MaxLanes(D()));
    odd = hn::Load(D(), w + kFloats + o * hn::MaxLanes(D()));
  }
};

struct Bf16Weights {
  static constexpr bool kBf16 = true;
  static constexpr std::size_t kFloats = kGemvGroup * hn::MaxLanes(D()) / 2;

  static HWY_INLINE void LoadPair(const float* w, std::uint32_t o, V& even, V& odd) {
    const hn::RebindToUnsigned<D> du;
    const auto words = hn::BitCast(du, hn::Load(D(), w + o * hn::MaxLanes(D())));
    even = hn::BitCast(D(), hn::ShiftLeft<16>(words));
    odd = hn::BitCast(D(), hn::And(words, hn::Set(du, 0xffff0000u)));
  }
};

/// Vector `i` of x, which has `depth` floats; zero behind the end of x.
HWY_INLINE V LoadInput(const float* x, std::size_t depth, std::size_t i) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if ((i + 1) * kLanes <= depth) return hn::LoadU(D(), x + i * kLanes);
  if (i * kLanes >= depth) return hn::Zero(D());
  return simd::Part(depth % kLanes).Load(x + i * kLanes);
}

/// Adds two neighbouring vectors of the depth, whose weights start at `w`.
template <typename Weights>
HWY_INLINE void AddPair(V x0, V x1, const float* w, GemvSums& sums) {
  LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) {
    V even, odd;
    Weights::LoadPair(w, o, even, odd);
    sums.even[o] = hn::MulAdd(x0, even, sums.even[o]);
    sums.odd[o] = hn::MulAdd(x1, odd, sums.odd[o]);
  }
}

/// Adds vectors [begin, end) of the depth. `x` and `weights` point to vector 0; x has `depth`
/// floats. For Bf16Weights `begin` and `end` must be even.
template <typename Weights>
HWY_INLINE void AddVectors(const float* x, std::size_t depth, const float* weights, Range vectors,
                           GemvSums& sums) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  constexpr std::size_t kStep = Weights::kFloats;
  // Far enough ahead to hide the latency of memory, near enough to stay in the first-level cache.
  constexpr std::size_t kAhead = 4096 / sizeof(float);
  std::size_t i = vectors.begin;
  const float* w = weights + i * kStep;
  for (; i + 2 <= std::min(vectors.end, depth / kLanes); i += 2, w += 2 * kStep) {
    LAGOON_UNROLL for (std::size_t line = 0; line < 2 * kStep; line += 16)
        hwy::Prefetch(w + kAhead + line);
    AddPair<Weights>(hn::LoadU(D(), x + i * kLanes), hn::LoadU(D(), x + (i + 1) * kLanes), w, sums);
  }
  for (; i + 2 <= vectors.end; i += 2, w += 2 * kStep) {
    AddPair<Weights>(LoadInput(x, depth, i), LoadInput(x, depth, i + 1), w, sums);
  }
  if constexpr (!Weights::kBf16) {
    if (i == vectors.end) return;
    const V x0 = LoadInput(x, depth, i);
    LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) {
      sums.even[o] = hn::MulAdd(x0, hn::Load(D(), w + o * kLanes), sums.even[o]);
    }
  }
}

/// y = limit(sums + bias + residual) for the outputs of one block.
inline void StoreGemv(const GemvArgs& args, const float* sums, Range outputs) {
  for (std::size_t o = outputs.begin; o < outputs.end; ++o) {
    float v = sums[o - outputs.begin];
    if (args.bias != nullptr) v += args.bias[o];
    if (args.residual != nullptr) v += args.residual[o];
    if (v < args.low) v = args.low;  // a NaN stays a NaN
    if (v > args.high) v = args.high;
    args.y[o] = v;
  }
  if (args.finish.row == nullptr) return;
  const float* const residual = args.finish_residual;
  args.finish(args.y + outputs.begin, residual == nullptr ? nullptr : residual + outputs.begin,
              outputs.size());
}

/// The body of a convolution with one output pixel; arguments: GemvArgs.
template <typename Weights>
bool GemvBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const GemvArgs& args = *static_cast<const GemvArgs*>(raw);
  const Range groups = Share(args.groups, args.blocks, block);
  const std::size_t vectors = GemvVectors(args.depth, kLanes, Weights::kBf16);
  float* sums = reinterpret_cast<float*>(ctx.scratch().data());
  std::size_t unchecked = 0;
  for (std::size_t group = groups.begin; group < groups.end; ++group) {
    const float* weights = args.weights + group * vectors * Weights::kFloats;
    GemvSums group_sums;
    for (std::size_t begin = 0; begin < vectors;) {
      const std::size_t end = std::min(vectors, begin + args.chunk_vectors - unchecked);
      AddVectors<Weights>(args.x, args.depth, weights, {begin, end}, group_sums);
      unchecked += end - begin;
      begin = end;
      if (unchecked < args.chunk_vectors) continue;
      if (ctx.ShouldLeave()) return false;
      unchecked = 0;
    }
    for (std::uint32_t o = 0; o < kGemvGroup; ++o) {
      sums[(group - groups.begin) * kGemvGroup + o] =
          hn::GetLane(hn::SumOfLanes(D(), hn::Add(group_sums.even[o], group_sums.odd[o])));
    }
  }
  if (ctx.ShouldLeave()) return false;
  StoreGemv(
      args, sums,
      {groups.begin * kGemvGroup, std::min<std::size_t>(args.outputs, groups.end * kGemvGroup)});
  return true;
}

}  // namespace conv
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_GEMV_INL_H_

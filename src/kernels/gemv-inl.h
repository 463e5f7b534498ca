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
#include "kernels/gemv_args.h"
#include "kernels/simd-inl.h"
#include "kernels/tiling.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace conv {

using simd::D;
using simd::V;
namespace hn = simd::hn;

/// Sums of one group; two per output, so that consecutive additions do not wait for each other.
struct GemvSums {
  V even[kGemvGroup], odd[kGemvGroup];

  HWY_INLINE GemvSums() {
    LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) even[o] = odd[o] = hn::Zero(D());
  }
};

/// Adds vectors [begin, end) of the depth. `x` and `weights` are those of vector 0; x has `depth`
/// floats.
HWY_INLINE void AddVectors(const float* x, std::size_t depth, const float* weights, Range vectors,
                           GemvSums& sums) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  constexpr std::size_t kStep = kGemvGroup * kLanes;
  // Far enough ahead to hide the latency of memory, near enough to stay in the first-level cache.
  constexpr std::size_t kAhead = 4096 / sizeof(float);
  const std::size_t whole = std::min(vectors.end, depth / kLanes);
  std::size_t i = vectors.begin;
  const float* w = weights + i * kStep;
  for (; i + 2 <= whole; i += 2, w += 2 * kStep) {
    LAGOON_UNROLL for (std::size_t line = 0; line < 2 * kStep; line += 16)
        hwy::Prefetch(w + kAhead + line);
    const V x0 = hn::LoadU(D(), x + i * kLanes), x1 = hn::LoadU(D(), x + (i + 1) * kLanes);
    LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) {
      sums.even[o] = hn::MulAdd(x0, hn::Load(D(), w + o * kLanes), sums.even[o]);
      sums.odd[o] = hn::MulAdd(x1, hn::Load(D(), w + kStep + o * kLanes), sums.odd[o]);
    }
  }
  for (; i < vectors.end; ++i, w += kStep) {
    const V x0 = i < whole ? hn::LoadU(D(), x + i * kLanes)
                           : simd::Part(depth % kLanes).Load(x + i * kLanes);
    LAGOON_UNROLL for (std::uint32_t o = 0; o < kGemvGroup; ++o) {
      sums.even[o] = hn::MulAdd(x0, hn::Load(D(), w + o * kLanes), sums.even[o]);
    }
  }
}

/// y = limit(sums + bias + residual) for one block's outputs.
inline void StoreGemv(const GemvArgs& args, const float* sums, Range outputs) {
  for (std::size_t o = outputs.begin; o < outputs.end; ++o) {
    float v = sums[o - outputs.begin];
    if (args.bias != nullptr) v += args.bias[o];
    if (args.residual != nullptr) v += args.residual[o];
    if (v < args.low) v = args.low;  // a NaN stays one
    if (v > args.high) v = args.high;
    args.y[o] = v;
  }
  if (args.finish.row == nullptr) return;
  const float* const residual = args.finish_residual;
  args.finish(args.y + outputs.begin, residual == nullptr ? nullptr : residual + outputs.begin,
              outputs.size());
}

/// A convolution over one pixel; arguments: GemvArgs.
bool GemvBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const GemvArgs& args = *static_cast<const GemvArgs*>(raw);
  const Range groups = Share(args.groups, args.blocks, block);
  const std::size_t vectors = CeilDivide(args.depth, kLanes);
  float* sums = reinterpret_cast<float*>(ctx.scratch().data());
  std::size_t unchecked = 0;
  for (std::size_t group = groups.begin; group < groups.end; ++group) {
    const float* weights = args.weights + group * vectors * kGemvGroup * kLanes;
    GemvSums group_sums;
    for (std::size_t begin = 0; begin < vectors;) {
      const std::size_t end = std::min(vectors, begin + args.chunk_vectors - unchecked);
      AddVectors(args.x, args.depth, weights, {begin, end}, group_sums);
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

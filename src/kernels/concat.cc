#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/concat.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/shape_ops.h"
#include "kernels/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_CONCAT_ARGS_
#define LAGOON_KERNELS_CONCAT_ARGS_
namespace lagoon {
namespace {

/// The output as rows, each made of one run per input; blocks are shares of the output's grains.
struct ConcatArgs {
  const float* x[kMaxConcatInputs] = {};
  float* y = nullptr;
  std::size_t ends[kMaxConcatInputs] = {};  // of each input's run in a row
  std::size_t inputs = 0;
  std::size_t row = 1, count = 1, blocks = 1;
};

/// Blocks begin at multiples of this: a cache line.
constexpr std::size_t kConcatGrain = 16;

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

bool ConcatBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ConcatArgs*>(raw);
  const Range grains = Share(CeilDivide(args.count, kConcatGrain), args.blocks, block);
  size_t at = grains.begin * kConcatGrain;
  const size_t end = std::min(args.count, grains.end * kConcatGrain);
  size_t row = at / args.row, column = at % args.row;
  size_t input = 0;
  while (args.ends[input] <= column) ++input;
  while (at < end) {
    const size_t begin = input == 0 ? 0 : args.ends[input - 1];
    const size_t run = args.ends[input] - begin;
    const size_t count = std::min(args.ends[input] - column, end - at);
    simd::Copy(args.x[input] + row * run + (column - begin), count, args.y + at);
    at += count;
    column += count;
    if (++input < args.inputs) continue;
    input = 0;
    column = 0;
    ++row;
  }
  return true;
}

}  // namespace

Body PickConcatBody() { return &ConcatBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <string>

#include "kernels/checks.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickConcatBody);

constexpr char kName[] = "concat";

// Measured on a Xeon at 2 GHz, one thread.
constexpr double kNsPerRun = 6;

}  // namespace

Result<Kernel> MakeConcat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner) {
  if (axes.empty() || axes.size() > kMaxConcatInputs) {
    return Invalid(kName, fmt::format("{} inputs, must be 1 to {}", axes.size(), kMaxConcatInputs));
  }
  ConcatArgs args;
  args.inputs = axes.size();
  std::size_t row = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string input = fmt::format("input {}", i);
    LAGOON_ASSIGN_OR_RETURN(
        const std::size_t count,
        CheckElements(kName, input, {{"outer", outer}, {"axis", axes[i]}, {"inner", inner}}));
    row += count / outer;
    args.ends[i] = row;
  }
  LAGOON_ASSIGN_OR_RETURN(args.count, CheckElements(kName, "y", {{"outer", outer}, {"row", row}}));
  args.row = row;
  const double bytes = 2 * sizeof(float) * static_cast<double>(args.count);
  args.blocks = BlocksFor(MoveNs(bytes) + kNsPerRun * static_cast<double>(outer * axes.size()),
                          CeilDivide(args.count, kConcatGrain));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = HWY_DYNAMIC_DISPATCH(PickConcatBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    kernel.inputs.push_back(
        static_cast<std::uint32_t>(offsetof(ConcatArgs, x) + i * sizeof(float*)));
  }
  kernel.outputs = {offsetof(ConcatArgs, y)};
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE

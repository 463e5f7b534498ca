#include "kernels/cuda/make/make.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/activation.h"
#include "kernels/checks.h"
#include "kernels/elementwise/rows.h"
#include "plan/elementwise_ops.h"

namespace lagoon::cuda {
namespace {

// Elements of a block between two guard checks: 64 per thread, about 5 us.
constexpr u32 kLineElements = 16384;
// Parts of a line have at least this many elements, so that combining them does not dominate.
constexpr std::size_t kElementsPerPart = 4;

}  // namespace

tl::unexpected<Error> Unimplemented(std::string_view op, std::string_view what) {
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{} {} has no CUDA body yet; run it with --device cpu", op, what));
}

EpilogueArgs NoEpilogue() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {.bias = nullptr,
          .residual = nullptr,
          .residual_last = 0,
          .unary = static_cast<u32>(UnaryOp::kCopy),
          .alpha = 0,
          .beta = 0,
          .low = -kInfinity,
          .high = kInfinity};
}

Result<EpilogueArgs> EpilogueOf(std::string_view op, const Epilogue& epilogue) {
  LAGOON_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(op, epilogue));
  EpilogueArgs args = NoEpilogue();
  args.low = limits.low;
  args.high = limits.high;
  args.residual_last = epilogue.residual_last ? 1 : 0;
  if (epilogue.activation != Activation::kUnary) return args;
  if (!elementwise::RowOf(epilogue.unary).has_vector_body) {
    return Unimplemented(op,
                         fmt::format("with {} behind it", elementwise::RowOf(epilogue.unary).name));
  }
  args.unary = static_cast<u32>(epilogue.unary);
  args.alpha = epilogue.alpha;
  args.beta = epilogue.beta;
  return args;
}

std::vector<WalkAxis> Joined(const std::vector<WalkAxis>& axes) {
  std::vector<WalkAxis> joined;
  for (const WalkAxis& axis : axes) {
    if (axis.size == 1) continue;
    bool joins = !joined.empty();
    for (std::size_t i = 0; joins && i < axis.strides.size(); ++i) {
      joins = joined.back().strides[i] == axis.strides[i] * axis.size;
    }
    if (joins) {
      joined.back() = {joined.back().size * axis.size, axis.strides};
    } else {
      joined.push_back(axis);
    }
  }
  return joined;
}

template <u32 kOperands>
Result<Axes<kOperands>> AxesOf(std::string_view op, const std::vector<WalkAxis>& walk) {
  const std::vector<WalkAxis> joined = Joined(walk);
  if (joined.size() > kMaxAxes) {
    return Invalid(
        op, fmt::format("{} axes that cannot be joined, the most is {}", joined.size(), kMaxAxes));
  }
  Axes<kOperands> axes{};
  axes.rank = U32(joined.size());
  for (u32 i = 0; i < axes.rank; ++i) {
    axes.dims[i] = static_cast<u32>(joined[i].size);
    for (u32 operand = 0; operand < kOperands; ++operand) {
      axes.strides[operand][i] = joined[i].strides[operand];
    }
  }
  return axes;
}
template Result<Axes<1>> AxesOf<1>(std::string_view, const std::vector<WalkAxis>&);
template Result<Axes<3>> AxesOf<3>(std::string_view, const std::vector<WalkAxis>&);
template Result<Axes<2>> AxesOf<2>(std::string_view, const std::vector<WalkAxis>&);

template <u32 kOperands>
Result<Axes<kOperands>> BroadcastAxes(std::string_view op,
                                      const std::vector<std::vector<std::int64_t>>& operands,
                                      const std::vector<std::int64_t>& out, u32& count) {
  std::vector<WalkAxis> axes;
  std::size_t elements = 1;
  for (const std::int64_t size : out) {
    axes.push_back({size, {}});
    elements *= static_cast<std::size_t>(size);
  }
  for (const std::vector<std::int64_t>& dims : operands) {
    const auto strides = BroadcastView(dims, out, sizeof(float)).strides;
    for (std::size_t i = 0; i < out.size(); ++i) axes[i].strides.push_back(strides[i]);
  }
  count = U32(elements);
  return AxesOf<kOperands>(op, axes);
}
template Result<Axes<2>> BroadcastAxes<2>(std::string_view,
                                          const std::vector<std::vector<std::int64_t>>&,
                                          const std::vector<std::int64_t>&, u32&);
template Result<Axes<3>> BroadcastAxes<3>(std::string_view,
                                          const std::vector<std::vector<std::int64_t>>&,
                                          const std::vector<std::int64_t>&, u32&);

LineArgs LinesOf(std::size_t outer, std::size_t axis, std::size_t inner) {
  LineArgs args{};
  args.axis = U32(axis);
  args.inner = U32(inner);
  args.lines = U32(outer * inner);
  // Across lines, a warp reads whole cache lines. Along the axis, as many threads as have work.
  const std::size_t parts = inner == 1
                                ? std::bit_ceil(std::max<std::size_t>(axis / kElementsPerPart, 1))
                                : kBodyThreads / std::min<std::size_t>(std::bit_ceil(inner), 32);
  args.parts = U32(std::clamp<std::size_t>(parts, 8, kBodyThreads));
  args.columns = kBodyThreads / args.parts;
  args.chunk = kLineElements / args.columns;
  return args;
}

}  // namespace lagoon::cuda

// Ops that only move elements: views, transposes, joins and parts.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/ops.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// `values`, one for each logical axis of x, in the order of the physical axes.
std::vector<std::int64_t> Physical(const Tensor& x, std::span<const std::int64_t> values) {
  return PhysicalDims({values.begin(), values.end()}, x.layout);
}

/// The elements of x that a slice touches, counted from x's first element: the first one taken, the
/// lowest and the highest. All arguments are by physical axis.
struct Touched {
  std::int64_t first = 0, low = 0, high = 0;
};
Touched TouchedBySlice(const Dims& dims, std::span<const std::int64_t> starts,
                       std::span<const std::int64_t> out, std::span<const std::int64_t> steps) {
  Touched touched;
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::int64_t last = starts[i] + (out[i] - 1) * steps[i];
    touched.first += starts[i] * stride;
    touched.low += std::min(starts[i], last) * stride;
    touched.high += std::max(starts[i], last) * stride;
    stride *= dims[i];
  }
  return touched;
}

Status CheckCount(const std::vector<std::int64_t>& values, std::size_t count, const char* name) {
  if (values.size() == count) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' has {} values, {} are needed", name, values.size(), count));
}

/// Checks that a slice stays inside x; `starts` and `steps` by logical axis.
Status CheckSlice(const Dims& x, std::span<const std::int64_t> starts, const Dims& out,
                  std::span<const std::int64_t> steps) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    // count * step can overflow, so the count is compared with room / step.
    const std::int64_t room = steps[i] > 0 ? x[i] - 1 - starts[i] : starts[i];
    const bool inside = steps[i] != 0 && starts[i] >= 0 && out[i] >= 1 && starts[i] < x[i] &&
                        (out[i] == 1 || (out[i] - 1) <= room / std::abs(steps[i]));
    if (!inside) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} elements of axis {} from {} in steps of {} do not lie in {}",
                              out[i], i, starts[i], steps[i], ToString(x)));
    }
  }
  return {};
}

Result<std::size_t> AxisOf(const Node& node, const Dims& dims) {
  const std::int64_t axis = node.Int("axis", 0);
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("axis {} is not one of {}", axis, ToString(dims)));
  }
  return static_cast<std::size_t>(axis);
}

}  // namespace

Result<Tensor> EmitSlice(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                         std::span<const std::int64_t> starts, const Dims& dims,
                         std::span<const std::int64_t> steps, const Epilogue& epilogue) {
  LAGOON_RETURN_IF_ERROR(CheckSlice(x.dims, starts, dims, steps));
  const Tensor y = builder.NewTensor(name, dims, x.layout, x.type);
  const Dims in = x.physical();
  StridedCopySpec spec;
  spec.out = y.physical();
  spec.element_bytes = SizeOf(x.type);
  spec.epilogue = epilogue;
  std::vector<std::int64_t> step = Physical(x, steps);
  for (std::size_t i = 0; i < step.size(); ++i) step[i] = spec.out[i] == 1 ? 0 : step[i];
  spec.strides = step;
  std::int64_t stride = 1;
  for (std::size_t i = in.size(); i-- > 0;) {
    spec.strides[i] *= stride;
    stride *= in[i];
  }
  // The kernel's pointer points to the lowest element that it reads, so that its access set is
  // exact.
  const Touched touched = TouchedBySlice(in, Physical(x, starts), spec.out, step);
  spec.start = touched.first - touched.low;
  const Operand operand{
      x.buffer, static_cast<std::size_t>(touched.low) * spec.element_bytes,
      static_cast<std::size_t>(touched.high - touched.low + 1) * spec.element_bytes};
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.StridedCopy(spec); },
                                      {operand}, {builder.All(y)}));
  return y;
}

Result<Tensor> EmitConcat(ProgramBuilder& builder, const std::string& name,
                          std::vector<Tensor> parts, std::size_t axis, const Epilogue& epilogue) {
  // One kernel of the CPU joins the parts and applies the function.
  const bool fuses =
      builder.options().on_cpu() && parts.size() > 1 && parts.size() <= kMaxConcatInputs;
  const Epilogue fused = fuses ? epilogue : Epilogue();
  const std::size_t at = PhysicalAxis(parts[0].dims.size(), parts[0].layout, axis);
  while (parts.size() > 1) {
    std::vector<Tensor> joined;
    for (std::size_t first = 0; first < parts.size(); first += kMaxConcatInputs) {
      const std::size_t count = std::min(kMaxConcatInputs, parts.size() - first);
      if (count == 1) {
        joined.push_back(parts[first]);
        continue;
      }
      const AxisSplit split = SplitAt(parts[first].physical(), at, at);
      std::vector<std::size_t> sizes;
      std::vector<Operand> inputs;
      Dims dims = parts[first].dims;
      dims[axis] = 0;
      for (const Tensor& part : std::span(parts).subspan(first, count)) {
        sizes.push_back(static_cast<std::size_t>(part.dims[axis]));
        inputs.push_back(builder.All(part));
        dims[axis] += part.dims[axis];
      }
      const Tensor y = builder.NewTensor(name, dims, parts[first].layout, parts[first].type);
      LAGOON_RETURN_IF_ERROR(builder.Emit(name,
                                          [&](auto& make) {
                                            return make.Concat(split.outer, sizes, split.inner,
                                                               SizeOf(y.type), fused);
                                          },
                                          std::move(inputs), {builder.All(y)}));
      joined.push_back(y);
    }
    parts = std::move(joined);
  }
  if (fuses || epilogue.activation == Activation::kNone) return parts[0];
  return EmitUnary(builder, name, epilogue.unary, parts[0], epilogue.alpha, epilogue.beta);
}

namespace {

/// True if an image of `from` becomes [N,A,B,H,W]; in kChannelsLast no byte moves.
bool SplitsChannels(const Dims& from, const Dims& to) {
  return from.size() == 4 && to.size() == 5 && from[0] == to[0] && from[2] == to[3] &&
         from[3] == to[4];
}

/// True if an image becomes [N,C,L] or back; in kChannelsLast no byte moves.
bool KeepsChannels(const Dims& from, const Dims& to) {
  const bool merges = from.size() == 4 && to.size() == 3;
  const bool splits = from.size() == 3 && to.size() == 4;
  return (merges || splits) && from[0] == to[0] && from[1] == to[1];
}

/// True if [N,A,B,H,W] becomes [N,B,A,H,W].
bool ShufflesChannels(const std::vector<std::int64_t>& order) {
  return order == std::vector<std::int64_t>{0, 2, 1, 3, 4};
}

Status LowerView(ProgramBuilder& builder, const Node& node) {
  const Dims dims = builder.dims(node.outputs[0]);
  const Dims x_dims = builder.dims(node.inputs[0]);
  const bool either = dims == x_dims || KeepsChannels(x_dims, dims) ||
                      SplitsChannels(x_dims, dims) || SplitsChannels(dims, x_dims);
  const Layout layout =
      either ? builder.CheapestLayout(std::span(node.inputs).first(1)) : Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Use(node.inputs[0], layout));
  if (layout == Layout::kChannelsLast) {
    y.dims = dims;
  } else {
    LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, dims));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerTranspose(ProgramBuilder& builder, const Node& node) {
  const Dims x_dims = builder.dims(node.inputs[0]);
  const std::vector<std::int64_t> order = node.Ints("perm", {});
  LAGOON_RETURN_IF_ERROR(CheckCount(order, x_dims.size(), "perm"));
  const bool image = x_dims.size() == 4 || x_dims.size() == 3;
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor x,
      builder.Use(node.inputs[0], builder.CheapestLayout(std::span(node.inputs).first(1))));
  // A model that was NHWC before its export has a Transpose around every image op. For such a
  // Transpose, one of the two layouts of y is x unchanged.
  const bool last_free =
      image && MovePermutation(x_dims, x.layout, order, Layout::kChannelsLast).IsFree();
  const bool stays_last = x.layout == Layout::kChannelsLast && ShufflesChannels(order);
  const Layout layout = last_free || stays_last ? Layout::kChannelsLast : Layout::kPlain;
  const bool plain = x.layout == Layout::kPlain && layout == Layout::kPlain;
  if (plain && builder.options().on_cpu() && builder.IsReadByProduct(node.outputs[0])) {
    builder.DefineTurned(node.outputs[0], {x, order});
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, builder.Transpose(x, order, layout));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerConcat(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(node, builder.dims(node.outputs[0])));
  const Layout layout = builder.CheapestLayout(node.inputs);
  std::vector<Tensor> parts;
  for (const ValueId input : node.inputs) {
    LAGOON_ASSIGN_OR_RETURN(parts.emplace_back(), builder.Use(input, layout));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitConcat(builder, node.name, std::move(parts), axis,
                                                     EpilogueOf(node.fused)));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerSplit(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(node, builder.dims(node.inputs[0])));
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  const std::vector<std::int64_t> sizes = node.Ints("split", {});
  LAGOON_RETURN_IF_ERROR(CheckCount(sizes, node.outputs.size(), "split"));
  std::vector<std::int64_t> starts(x.dims.size(), 0);
  const std::vector<std::int64_t> steps(x.dims.size(), 1);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) {
      const std::string name = fmt::format("{}.{}", node.name, i);
      LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitSlice(builder, name, x, starts,
                                                        builder.dims(node.outputs[i]), steps));
      builder.Define(node.outputs[i], y);
    }
    starts[axis] += sizes[i];
  }
  return {};
}

Status LowerSlice(ProgramBuilder& builder, const Node& node) {
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const std::vector<std::int64_t> axes = node.Ints("axes", {});
  const std::vector<std::int64_t> node_starts = node.Ints("starts", {});
  const std::vector<std::int64_t> node_steps = node.Ints("steps", {});
  LAGOON_RETURN_IF_ERROR(CheckCount(node_starts, axes.size(), "starts"));
  LAGOON_RETURN_IF_ERROR(CheckCount(node_steps, axes.size(), "steps"));
  std::vector<std::int64_t> starts(rank, 0), steps(rank, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<std::int64_t>(rank)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("axis {} of an input with {} axes", axes[i], rank));
    }
    starts[static_cast<std::size_t>(axes[i])] = node_starts[i];
    steps[static_cast<std::size_t>(axes[i])] = node_steps[i];
  }
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor y, EmitSlice(builder, node.name, x, starts, builder.dims(node.outputs[0]), steps,
                                EpilogueOf(node.fused)));
  builder.Define(node.outputs[0], y);
  return {};
}

/// The same bytes as another type.
Status LowerBitCast(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Use(node.inputs[0], Layout::kPlain));
  y.type = builder.type(node.outputs[0]);
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerDropout(ProgramBuilder& builder, const Node& node) {
  LAGOON_RETURN_IF_ERROR(LowerView(builder, node));
  if (node.outputs.size() < 2 || node.outputs[1] == kNoValue) return {};
  // Nothing is dropped, so the mask is all ones.
  const ValueId mask = node.outputs[1];
  const Tensor one =
      ConstantNumber(builder, builder.type(mask), 1, Dims(builder.dims(mask).size(), 1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor ones,
                          EmitExpand(builder, node.name + ".mask", one, builder.dims(mask)));
  builder.Define(mask, ones);
  return {};
}

Status LowerExpand(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitExpand(builder, node.name, x, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kMoveLowerings[] = {
    {"Slice", LowerSlice, Lowering::kMoves, true},
    {"Reshape", LowerView, Lowering::kMoves},
    {"Flatten", LowerView, Lowering::kMoves},
    {"Squeeze", LowerView, Lowering::kMoves},
    {"Unsqueeze", LowerView, Lowering::kMoves},
    {"Identity", LowerView, Lowering::kMoves},
    {"BitCast", LowerBitCast},
    {"Dropout", LowerDropout},
    {"Transpose", LowerTranspose, Lowering::kMoves},
    {"Concat", LowerConcat, Lowering::kMoves, true},
    {"Split", LowerSplit, Lowering::kMoves},
    {"Expand", LowerExpand, Lowering::kMoves},
};

}  // namespace

std::span<const Lowering> MoveLowerings() { return kMoveLowerings; }

}  // namespace lagoon

// Transposed convolutions: as one convolution that computes every phase of the strides, or as a
// convolution over the input with zeros between its pixels.

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// The weights of a transposed convolution [C, M/group, ...] as weights [M, C/group, ...],
/// mirrored, of a convolution over its input with zeros between the pixels.
Constant MirroredWeights(const Constant& w, std::int64_t groups) {
  const std::int64_t in = w.dims[0] / groups, out = w.dims[1];
  const std::int64_t taps = ElementCount(Dims(w.dims.begin() + 2, w.dims.end()));
  const auto mirror = [groups, in, out, taps](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to(from.size());
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t o = 0; o < out; ++o) {
          for (std::int64_t t = 0; t < taps; ++t) {
            to[static_cast<std::size_t>(((g * out + o) * in + i) * taps + taps - 1 - t)] =
                from[static_cast<std::size_t>(((g * in + i) * out + o) * taps + t)];
          }
        }
      }
    }
    return BytesOf(to);
  };
  Dims dims = w.dims;
  dims[0] = groups * out;
  dims[1] = in;
  return DerivedConstant(DataType::kFloat32, std::move(dims), fmt::format("mirror {}", groups), {w},
                         mirror);
}

/// The same for computed weights.
Result<Tensor> MirrorWeights(ProgramBuilder& builder, const std::string& name, const Tensor& w,
                             std::int64_t groups) {
  std::vector<Ints> maps;
  for (std::size_t axis = 0; axis < w.dims.size(); ++axis) {
    Ints& map = maps.emplace_back();
    for (std::int64_t i = 0; i < w.dims[axis]; ++i) {
      map.push_back(axis < 2 ? i : w.dims[axis] - 1 - i);
    }
  }
  const std::int64_t in = w.dims[0] / groups, out = w.dims[1];
  const std::int64_t taps = ElementCount(w.dims) / (w.dims[0] * out);
  Dims dims = w.dims;
  dims[0] = groups * out;
  dims[1] = in;
  LAGOON_ASSIGN_OR_RETURN(Tensor mirrored, EmitTake(builder, name, w, std::move(maps)));
  LAGOON_ASSIGN_OR_RETURN(mirrored, builder.Reshape(mirrored, {groups, in, out, taps}));
  LAGOON_ASSIGN_OR_RETURN(
      mirrored,
      builder.Transpose(mirrored, std::array<std::int64_t, 4>{0, 2, 1, 3}, Layout::kPlain));
  return builder.Reshape(mirrored, dims);
}

/// Limits the spread image of a transposed convolution, which may be far larger than input and
/// output.
Status CheckSpread(const Dims& x, const Dims& out, const Ints& kernel, const Ints& dilations) {
  constexpr double kMaxElements = 1 << 28;
  Dims dims(x.begin(), x.begin() + 2);
  double elements = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    dims.push_back(out[i + 2] + (kernel[i] - 1) * dilations[i]);
    elements *= static_cast<double>(dims.back());
  }
  if (elements > kMaxElements) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("input {} spread for the window is {}, above 2^28 elements",
                            ToString(x), ToString(dims)));
  }
  return CheckTable(dims);
}

/// x with zeros between its pixels and around them, as a transposed convolution needs it. `conv`:
/// receives the node that convolves the result.
Result<Tensor> Spread(ProgramBuilder& builder, const Node& node, const Dims& out, Node& conv) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const std::size_t rank = x.dims.size() - 2;
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {}), pads = node.Ints("pads", {});
  LAGOON_RETURN_IF_ERROR(CheckSpread(x.dims, out, kernel, dilations));
  std::vector<Ints> maps(2);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (std::int64_t i = 0; i < x.dims[axis]; ++i) maps[axis].push_back(i);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i];
    Ints& map = maps.emplace_back();
    for (std::int64_t at = 0; at < out[i + 2] + extent; ++at) {
      const std::int64_t from = at - extent + pads[i];
      const bool pixel = from >= 0 && from % strides[i] == 0 && from / strides[i] < x.dims[i + 2];
      map.push_back(pixel ? from / strides[i] : -1);
    }
  }
  conv.attributes["strides"] = Ints(rank, 1);
  conv.attributes["pads"] = Ints(2 * rank, 0);
  return EmitTake(builder, node.name + ".spread", x, std::move(maps));
}

/// A transposed convolution as a convolution over its input with zeros between the pixels.
Status LowerSpread(ProgramBuilder& builder, const Node& node) {
  const Dims dims = builder.dims(node.outputs[0]);
  const std::int64_t groups = node.Int("group", 1);
  Node conv = node;
  LAGOON_ASSIGN_OR_RETURN(const Tensor spread, Spread(builder, node, dims, conv));
  conv.inputs[0] = builder.AddValue(node.name + ".spread", DataType::kFloat32, spread.dims);
  builder.Define(conv.inputs[0], spread);
  if (const Constant* constant = builder.constant(node.inputs[1])) {
    conv.inputs[1] = builder.AddValue(node.name + ".mirrored", MirroredWeights(*constant, groups));
  } else {
    LAGOON_ASSIGN_OR_RETURN(const Tensor w, builder.Use(node.inputs[1], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(const Tensor mirrored, MirrorWeights(builder, node.name, w, groups));
    conv.inputs[1] = builder.AddValue(node.name + ".mirrored", DataType::kFloat32, mirrored.dims);
    builder.Define(conv.inputs[1], mirrored);
  }
  return LowerConv(builder, conv);
}

/// One spatial axis of a transposed convolution as phases. Output pixel `at`, counted before the
/// padding is cut off, is pixel `at / stride` of phase `at % stride`. All phases read the same
/// `taps` input pixels, with weights of their own, so that one convolution computes them all.
struct Phases {
  std::int64_t kernel, stride;
  std::int64_t taps;                // input pixels of one output pixel: kernel / stride, rounded up
  std::int64_t count;               // pixels of each phase
  std::int64_t skip;                // output pixels that are cut off at the beginning
  std::int64_t pad_begin, pad_end;  // of the convolution
};

/// Nothing if the axis has no such phases: pixels of the kernel are skipped (dilation), or the
/// padding cuts off all that the first or the last input pixel adds.
std::optional<Phases> PhasesOf(const Node& node, std::size_t axis, std::int64_t in,
                               std::int64_t out) {
  const Ints pads = node.Ints("pads", {});
  Phases phases{};
  phases.kernel = node.Ints("kernel_shape", {})[axis];
  phases.stride = node.Ints("strides", {})[axis];
  if (phases.kernel > 1 && node.Ints("dilations", {})[axis] != 1) return std::nullopt;
  const std::int64_t first = pads[axis] / phases.stride;
  const std::int64_t last = (pads[axis] + out - 1) / phases.stride;
  phases.taps = (phases.kernel + phases.stride - 1) / phases.stride;
  phases.count = last - first + 1;
  phases.skip = pads[axis] % phases.stride;
  phases.pad_begin = phases.taps - 1 - first;
  phases.pad_end = last - (in - 1);
  if (phases.pad_begin < 0 || phases.pad_end < 0) return std::nullopt;
  return phases;
}

/// The phases of all spatial axes; nothing if the node must be computed on a spread input. A kernel
/// far smaller than its strides would have mostly zeros as weights.
std::optional<std::vector<Phases>> PhasesOf(const ProgramBuilder& builder, const Node& node) {
  constexpr double kMaxGrowth = 4;
  const Dims &x = builder.dims(node.inputs[0]), &y = builder.dims(node.outputs[0]);
  std::vector<Phases> phases;
  double growth = 1;
  for (std::size_t axis = 0; axis + 2 < x.size(); ++axis) {
    const std::optional<Phases> of_axis = PhasesOf(node, axis, x[axis + 2], y[axis + 2]);
    if (!of_axis) return std::nullopt;
    phases.push_back(*of_axis);
    growth *= static_cast<double>(of_axis->taps) * static_cast<double>(of_axis->stride) /
              static_cast<double>(of_axis->kernel);
  }
  return growth <= kMaxGrowth ? std::optional(phases) : std::nullopt;
}

std::int64_t StridesOf(const std::vector<Phases>& phases) {
  std::int64_t strides = 1;
  for (const Phases& of_axis : phases) strides *= of_axis.stride;
  return strides;
}

/// The weights [C, M / groups, kernel] as those of the convolution that computes all phases:
/// [(group, phase, M / groups), C / groups, taps]; kernel, phase and taps have all spatial axes.
Constant PhaseWeights(const Constant& w, std::int64_t groups, const std::vector<Phases>& phases) {
  const std::int64_t in = w.dims[0] / groups, out = w.dims[1];
  Dims dims{groups * StridesOf(phases) * out, in};
  std::string recipe = fmt::format("phases {}", groups);
  for (const Phases& of_axis : phases) {
    dims.push_back(of_axis.taps);
    recipe += fmt::format(" {}", of_axis.stride);
  }
  const auto order = [groups, in, out, phases,
                      count = ElementCount(dims)](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to(static_cast<std::size_t>(count));
    const std::int64_t kernel = static_cast<std::int64_t>(from.size()) / (groups * in * out);
    const std::int64_t strides = StridesOf(phases);
    const std::int64_t taps = count / (groups * strides * out * in);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); ++i) {
      const std::int64_t m = i / kernel % out, c = i / kernel / out;
      // The pixel of the kernel as phase and tap, axis by axis. Taps count from the last pixel.
      std::int64_t pixel = i % kernel, phase = 0, tap = 0, phase_step = 1, tap_step = 1;
      for (std::size_t axis = phases.size(); axis-- > 0;) {
        const Phases& of_axis = phases[axis];
        const std::int64_t at = pixel % of_axis.kernel;
        pixel /= of_axis.kernel;
        phase += at % of_axis.stride * phase_step;
        tap += (of_axis.taps - 1 - at / of_axis.stride) * tap_step;
        phase_step *= of_axis.stride;
        tap_step *= of_axis.taps;
      }
      const std::int64_t channel = (c / in * strides + phase) * out + m;
      to[static_cast<std::size_t>((channel * in + c % in) * taps + tap)] =
          from[static_cast<std::size_t>(i)];
    }
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32, std::move(dims), std::move(recipe), {w}, order);
}

/// The bias [(group, M / groups)] for each phase: [(group, phase, M / groups)].
Constant PhaseBias(const Constant& bias, std::int64_t groups, std::int64_t phases) {
  const auto repeat = [groups, phases](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    const std::size_t out = from.size() / static_cast<std::size_t>(groups);
    std::vector<float> to;
    for (std::size_t begin = 0; begin < from.size(); begin += out) {
      const std::span<const float> group = from.subspan(begin, out);
      for (std::int64_t i = 0; i < phases; ++i) to.insert(to.end(), group.begin(), group.end());
    }
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32, {phases * bias.dims[0]},
                         fmt::format("repeat {} {}", groups, phases), {bias}, repeat);
}

/// The phases of a pixel [N, count..., groups, phase..., M / groups], which lie one behind the
/// other in memory, as neighbours: [N, (count, phase)..., groups, M / groups], without what is cut
/// off.
Result<Tensor> Interleaved(ProgramBuilder& builder, const Node& node, Tensor tiles,
                           const std::vector<Phases>& phases) {
  const Dims y = builder.dims(node.outputs[0]);
  const std::int64_t groups = node.Int("group", 1);
  const auto axes = static_cast<std::int64_t>(phases.size());
  tiles.layout = Layout::kPlain;
  tiles.dims = {y[0]};
  Dims image{y[0]}, cut{y[0]};
  Ints order{0}, starts{0};
  for (const Phases& of_axis : phases) tiles.dims.push_back(of_axis.count);
  tiles.dims.push_back(groups);
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    const Phases& of_axis = phases[static_cast<std::size_t>(axis)];
    tiles.dims.push_back(of_axis.stride);
    order.insert(order.end(), {1 + axis, 2 + axes + axis});
    image.push_back(of_axis.count * of_axis.stride);
    cut.push_back(y[static_cast<std::size_t>(axis) + 2]);
    starts.push_back(of_axis.skip);
  }
  tiles.dims.push_back(y[1] / groups);
  order.insert(order.end(), {1 + axes, 2 + 2 * axes});
  image.push_back(y[1]);
  cut.push_back(y[1]);
  starts.push_back(0);
  LAGOON_ASSIGN_OR_RETURN(Tensor whole, builder.Transpose(tiles, order, Layout::kPlain));
  whole.dims = image;
  if (image == cut) return whole;
  return EmitSlice(builder, node.name, whole, starts, cut, Ints(cut.size(), 1));
}

/// A transposed convolution on images or volumes, which has phases.
Status LowerPhases(ProgramBuilder& builder, const Node& node, const std::vector<Phases>& phases) {
  const Dims x = builder.dims(node.inputs[0]), y = builder.dims(node.outputs[0]);
  const std::int64_t groups = node.Int("group", 1), strides = StridesOf(phases);
  Node conv = node;
  conv.inputs[1] = builder.AddValue(
      node.name + ".phases", PhaseWeights(*builder.constant(node.inputs[1]), groups, phases));
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    conv.inputs[2] = builder.AddValue(
        node.name + ".bias", PhaseBias(*builder.constant(node.inputs[2]), groups, strides));
  }
  Ints taps, begins, ends;
  Dims dims{x[0], strides * y[1]};
  for (const Phases& of_axis : phases) {
    taps.push_back(of_axis.taps);
    begins.push_back(of_axis.pad_begin);
    ends.push_back(of_axis.pad_end);
    dims.push_back(of_axis.count);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  conv.attributes["kernel_shape"] = taps;
  conv.attributes["strides"] = conv.attributes["dilations"] = Ints(phases.size(), 1);
  conv.attributes["pads"] = begins;
  conv.outputs[0] = builder.AddValue(node.name, DataType::kFloat32, dims);
  LAGOON_RETURN_IF_ERROR(LowerConv(builder, conv));
  LAGOON_ASSIGN_OR_RETURN(const Tensor tiles, UseChannelsLast(builder, conv.outputs[0]));
  LAGOON_ASSIGN_OR_RETURN(const Tensor image, Interleaved(builder, node, tiles, phases));
  DefineChannelsLast(builder, node.outputs[0], image);
  return {};
}

Status LowerConstant(ProgramBuilder& builder, const Node& node) {
  const std::optional<std::vector<Phases>> phases = PhasesOf(builder, node);
  return phases ? LowerPhases(builder, node, *phases) : LowerSpread(builder, node);
}

}  // namespace

Status LowerConvTranspose(ProgramBuilder& builder, const Node& node) {
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const bool constant = builder.constant(node.inputs[1]) != nullptr &&
                        (node.inputs.size() < 3 || node.inputs[2] == kNoValue ||
                         builder.constant(node.inputs[2]) != nullptr);
  if (!constant || rank > 5) return LowerSpread(builder, node);
  return rank == 3 ? LowerAsImage(builder, node, LowerConstant) : LowerConstant(builder, node);
}

}  // namespace lagoon

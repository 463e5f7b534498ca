// Resize: to the nearest pixel by an index per axis, otherwise by weights, one axis after the
// other.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// How one axis is resampled.
struct AxisScale {
  std::int64_t in = 1, out = 1;
  double scale = 1;
  double start = 0, end = 1;  // bounds of the region of interest
};

struct Sampling {
  std::string mode, coordinates, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  float fill = 0;

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

Sampling SamplingOf(const Node& node) {
  Sampling s;
  s.mode = node.String("mode", "nearest");
  s.coordinates = node.String("coordinate_transformation_mode", "half_pixel");
  s.nearest = node.String("nearest_mode", "round_prefer_floor");
  s.cubic_a = node.Float("cubic_coeff_a", -0.75F);
  s.exclude_outside = node.Int("exclude_outside", 0) != 0;
  s.fill = node.Float("extrapolation_value", 0);
  return s;
}

/// The position in the input of pixel `i` of the output. T: the type in which positions are
/// computed.
template <typename T>
T CoordinateIn(const Sampling& s, const AxisScale& axis, std::int64_t i) {
  const auto at = static_cast<T>(i), half = static_cast<T>(0.5);
  const auto scale = static_cast<T>(axis.scale);
  const auto in = static_cast<T>(axis.in), out = static_cast<T>(axis.out);
  if (s.coordinates == "asymmetric") return at / scale;
  if (s.coordinates == "tf_half_pixel_for_nn") return (at + half) / scale;
  // The last pixel is the last pixel, also where the scale gives a fractional length.
  if (s.coordinates == "align_corners") return axis.out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (s.crops()) {
    const auto start = static_cast<T>(axis.start), end = static_cast<T>(axis.end);
    if (axis.out == 1) return half * (start + end) * (in - 1);
    return start * (in - 1) + at * (end - start) * (in - 1) / (out - 1);
  }
  if (s.coordinates == "pytorch_half_pixel" && axis.out == 1) return 0;
  const T half_pixel = (at + half) / scale - half;
  if (s.coordinates != "half_pixel_symmetric") return half_pixel;
  return in / 2 * (1 - out / (scale * in)) + half_pixel;
}

/// In mode "nearest" positions are computed in fp32, as by ONNX Runtime. The other modes are
/// continuous, so that only exact positions matter.
double Coordinate(const Sampling& s, const AxisScale& axis, std::int64_t i) {
  if (s.mode == "nearest") return static_cast<double>(CoordinateIn<float>(s, axis, i));
  return CoordinateIn<double>(s, axis, i);
}

bool IsOutside(const Sampling& s, const AxisScale& axis, double x) {
  return s.crops() && (x < 0 || x > static_cast<double>(axis.in - 1));
}

/// A position that differs by rounding errors only (a scale such as 0.3 is rounded) from the middle
/// of two pixels lies in the middle. ONNX Runtime has the same limit.
double NearMiddle(double x) {
  constexpr double kMostError = 1e-6;
  const double middle = std::floor(x) + 0.5;
  return std::abs(x - middle) < kMostError ? middle : x;
}

std::int64_t Nearest(const Sampling& s, const AxisScale& axis, double x) {
  double pixel = 0;
  if (s.nearest == "floor") {
    pixel = std::floor(x);
  } else if (s.nearest == "ceil") {
    pixel = std::ceil(x);
  } else if (s.nearest == "round_prefer_ceil") {
    pixel = std::floor(NearMiddle(x) + 0.5);
  } else {
    pixel = std::ceil(NearMiddle(x) - 0.5);
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(pixel), 0, axis.in - 1);
}

/// The weights of the pixels around `fraction`, starting with the first tap.
std::vector<double> Weights(const Sampling& s, double fraction) {
  if (s.mode == "linear") return {1 - fraction, fraction};
  const double a = s.cubic_a;
  const auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(1 + fraction), near(fraction), near(1 - fraction), far(2 - fraction)};
}

struct Taps {
  std::vector<std::int32_t> indices;
  std::vector<float> weights;
};

Taps TapsOf(const Sampling& s, const AxisScale& axis) {
  Taps taps;
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const double x = Coordinate(s, axis, i);
    // Far outside, where only a region of interest reaches, all pixels are equal: outside.
    const double base = std::clamp(std::floor(x), -4.0, static_cast<double>(axis.in) + 4);
    std::vector<double> weights = Weights(s, x - base);
    const auto first = static_cast<std::int64_t>(base) - (s.mode == "linear" ? 0 : 1);
    double sum = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      const std::int64_t at = first + static_cast<std::int64_t>(t);
      if (s.exclude_outside && (at < 0 || at >= axis.in)) weights[t] = 0;
      sum += weights[t];
      const std::int64_t inside = std::clamp<std::int64_t>(at, 0, axis.in - 1);
      taps.indices.push_back(IsOutside(s, axis, x) ? -1 : static_cast<std::int32_t>(inside));
    }
    for (const double weight : weights) {
      taps.weights.push_back(static_cast<float>(s.exclude_outside ? weight / sum : weight));
    }
  }
  return taps;
}

Result<std::vector<AxisScale>> ReadAxes(const Node& node, const Dims& x, const Dims& y) {
  const auto floats = [&](const char* name) {
    const auto found = node.attributes.find(name);
    const auto* values =
        found == node.attributes.end() ? nullptr : std::get_if<std::vector<float>>(&found->second);
    return values == nullptr ? std::vector<float>() : *values;
  };
  const std::vector<float> scales = floats("scales"), roi = floats("roi");
  if (scales.size() != x.size() || roi.size() != 2 * x.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has {} scales for {}", scales.size(), ToString(x)));
  }
  std::vector<AxisScale> axes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    axes.push_back({x[i], y[i], scales[i], roi[i], roi[i + x.size()]});
  }
  return axes;
}

Result<Tensor> EmitInterpolate(ProgramBuilder& builder, const Node& node, const Tensor& x,
                               std::size_t axis, const Taps& taps, const Sampling& s) {
  const std::size_t at = PhysicalAxis(x.dims.size(), x.layout, axis);
  const AxisSplit split = SplitAt(x.physical(), at, at);
  const std::size_t per_pixel = s.mode == "linear" ? 2 : 4;
  const std::size_t out = taps.weights.size() / per_pixel;
  const Dims table{static_cast<std::int64_t>(out), static_cast<std::int64_t>(per_pixel)};
  const Tensor indices =
      ConstantTensor(builder, node.name + ".indices", DataType::kInt32, table, taps.indices);
  const Tensor weights =
      ConstantTensor(builder, node.name + ".weights", DataType::kFloat32, table, taps.weights);
  Dims dims = x.dims;
  dims[axis] = static_cast<std::int64_t>(out);
  const Tensor y = builder.NewTensor(node.name, dims, x.layout);
  LAGOON_RETURN_IF_ERROR(builder.Emit(
      node.name,
      [&](auto& make) {
        return make.Interpolate({split.outer, split.axis, out, split.inner, per_pixel, s.fill});
      },
      {builder.All(x), builder.All(indices), builder.All(weights)}, {builder.All(y)}));
  return y;
}

double GrowthOf(const AxisScale& axis) {
  return static_cast<double>(axis.out) / static_cast<double>(std::max<std::int64_t>(axis.in, 1));
}

/// The order in which the axes are resampled. If the channels lie last, the axis that grows least
/// comes first, so that the others have few elements to work on. In a plain tensor the last axis
/// costs several times as much for each element as the others, whose rows fill vectors. It comes
/// first if the other axes grow, and otherwise last.
std::vector<std::size_t> OrderOf(std::span<const AxisScale> axes, Layout layout) {
  std::vector<std::size_t> order(axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (layout == Layout::kChannelsLast) {
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return GrowthOf(axes[i]); });
    return order;
  }
  double growth = 1;  // of the number of rows along the last axis, by the other axes
  for (const AxisScale& axis : axes.first(axes.empty() ? 0 : axes.size() - 1)) {
    growth *= GrowthOf(axis);
  }
  if (growth > 1) std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

Status LowerNearest(ProgramBuilder& builder, const Node& node, const std::vector<AxisScale>& axes,
                    const Sampling& s) {
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  if (s.crops() && x.type != DataType::kFloat32) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("tf_crop_and_resize is not supported on {}", OipName(x.type)));
  }
  std::vector<std::vector<std::int64_t>> maps;
  for (const AxisScale& axis : axes) {
    auto& map = maps.emplace_back();
    for (std::int64_t i = 0; i < axis.out; ++i) {
      const double at = Coordinate(s, axis, i);
      map.push_back(IsOutside(s, axis, at) ? -1 : Nearest(s, axis, at));
    }
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitTake(builder, node.name, x, std::move(maps),
                                   s.crops() ? std::bit_cast<std::uint32_t>(s.fill) : 0));
  builder.Define(node.outputs[0], y);
  return {};
}

/// The layout in which x is resampled: its own, if an image op follows. What leaves the model or
/// goes to other ops is moved before it grows.
Layout LayoutOf(const ProgramBuilder& builder, const Node& node) {
  const Dims& x = builder.dims(node.inputs[0]);
  const bool image = x.size() == 4 && x[0] == builder.dims(node.outputs[0])[0] &&
                     x[1] == builder.dims(node.outputs[0])[1];
  if (!image || !builder.IsReadAsImage(node.outputs[0])) return Layout::kPlain;
  return builder.CheapestLayout(std::span(node.inputs).first(1));
}

Status LowerResize(ProgramBuilder& builder, const Node& node) {
  const Dims dims = builder.dims(node.outputs[0]);
  LAGOON_ASSIGN_OR_RETURN(const std::vector<AxisScale> axes,
                          ReadAxes(node, builder.dims(node.inputs[0]), dims));
  LAGOON_RETURN_IF_ERROR(CheckTable(dims));
  const Sampling s = SamplingOf(node);
  if (s.mode == "nearest") return LowerNearest(builder, node, axes, s);
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Use(node.inputs[0], LayoutOf(builder, node)));
  const DataType type = y.type;
  // fp32 holds every step between 8-bit integers exactly, and a linear mode stays in their range.
  const bool is_byte = type == DataType::kUInt8 || type == DataType::kInt8;
  if (!IsFloat(type) && !(is_byte && s.mode == "linear")) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("mode {} is not supported on {}", s.mode, OipName(type)));
  }
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, DataType::kFloat32));
  for (const std::size_t i : OrderOf(axes, y.layout)) {
    const bool whole = !s.crops() || (axes[i].start == 0 && axes[i].end == 1);
    if (axes[i].in == axes[i].out && axes[i].scale == 1 && whole) continue;
    if (node.Int("antialias", 0) != 0 && axes[i].scale < 1) {
      return Fail(ErrorCode::kUnimplemented, "antialias is not supported");
    }
    LAGOON_ASSIGN_OR_RETURN(y, EmitInterpolate(builder, node, y, i, TapsOf(s, axes[i]), s));
  }
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, type));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kResizeLowerings[] = {
    {"Resize", LowerResize},
};

}  // namespace

std::span<const Lowering> ResizeLowerings() { return kResizeLowerings; }

}  // namespace lagoon

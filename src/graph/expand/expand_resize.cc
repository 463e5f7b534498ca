// Resize with antialias: along an axis that shrinks, an element of the result is a weighted sum of
// all elements that it covers. This is a product with a table for each such axis.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"
#include "graph/ops/resize.h"

namespace lagoon {
namespace {

constexpr std::size_t kScales = 2;  // the input

struct Shrinking {
  std::int64_t from = 0, to = 0;
  double scale = 1;
  bool cubic = false, exclude_outside = false;
  double cubic_a = -0.75;
  std::string mode;
};

// The place in x of element `i` of the result.
double SourceOf(const Shrinking& axis, std::int64_t i) {
  const auto at = static_cast<double>(i);
  const double from = static_cast<double>(axis.from), to = from * axis.scale;
  if (axis.mode == "align_corners") {
    return axis.to == 1 ? 0 : at * (from - 1) / static_cast<double>(axis.to - 1);
  }
  if (axis.mode == "asymmetric") return at / axis.scale;
  if (axis.mode == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  if (axis.mode == "pytorch_half_pixel" && axis.to == 1) return -0.5;
  const double half_pixel = (at + 0.5) / axis.scale - 0.5;
  if (axis.mode != "half_pixel_symmetric") return half_pixel;
  return from / 2 * (1 - static_cast<double>(axis.to) / to) + half_pixel;
}

double WeightAt(const Shrinking& axis, double distance) {
  const double x = std::abs(distance), a = axis.cubic_a;
  if (!axis.cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The weights of all elements of x in element `i` of the result. The filter is wider by 1 / scale
// than that of an enlarged image. What lies outside of x repeats the elements at the ends.
std::vector<double> WeightsOf(const Shrinking& axis, std::int64_t i) {
  std::vector<double> weights(static_cast<std::size_t>(axis.from));
  const double source = SourceOf(axis, i);
  const auto base = static_cast<std::int64_t>(std::ceil(source)) - 1;
  const auto reach = static_cast<std::int64_t>(std::ceil((axis.cubic ? 2 : 1) / axis.scale));
  double sum = 0;
  for (std::int64_t k = base + 1 - reach; k <= base + reach; ++k) {
    const std::int64_t inside = std::clamp<std::int64_t>(k, 0, axis.from - 1);
    if (axis.exclude_outside && inside != k) continue;
    const double weight = WeightAt(axis, (static_cast<double>(k) - source) * axis.scale);
    weights[static_cast<std::size_t>(inside)] += weight;
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// x with the axis `at` shrunk.
ValueId Shrunk(Writer& w, ValueId x, std::size_t at, const Shrinking& axis) {
  std::vector<double> row;
  const ValueId rows = TableOf(w, w.TypeOf(x), {axis.to, axis.from}, [&](std::int64_t i) {
    if (i % axis.from == 0) row = WeightsOf(axis, i / axis.from);
    return row[static_cast<std::size_t>(i % axis.from)];
  });
  if (!w.status()) return kNoValue;
  const std::size_t last = w.RankOf(x) - 1;
  const ValueId y = w.MatMul(w.Transpose(x, MovedAxis(last + 1, at, last)), w.SwapLastAxes(rows));
  return w.Transpose(y, MovedAxis(last + 1, last, at));
}

bool Antialiases(const OpContext& context) {
  return context.node().Int("antialias", 0) != 0 &&
         context.node().String("mode", "nearest") != "nearest";
}

// The same Resize of the axes that grow.
ValueId Grown(Writer& w, ValueId x, const ResizeScaling& scaling) {
  if (w.DimsOf(x) == scaling.out) return x;
  Writer::Attributes attributes =
      AttributesWithout(w, {"antialias", "axes", "keep_aspect_ratio_policy"});
  if (w.In(kScales) == kNoValue || w.Dim(w.In(kScales), 0) == 0) {
    return w.Op("Resize", {x, kNoValue, kNoValue, w.Ints(scaling.out)}, std::move(attributes));
  }
  const Dims dims = w.DimsOf(x);
  const ValueId scales =
      TableOf(w, DataType::kFloat32, {static_cast<std::int64_t>(dims.size())}, [&](std::int64_t i) {
        const auto axis = static_cast<std::size_t>(i);
        return dims[axis] == scaling.out[axis] ? 1.0 : static_cast<double>(scaling.scales[axis]);
      });
  return w.Op("Resize", {x, kNoValue, scales}, std::move(attributes));
}

// x, [roi], [scales], [sizes]
void ExpandResize(Writer& w) {
  const Result<ResizeScaling> scaling = ReadScaling(w.context(), kScales);
  if (!scaling) return w.Refuse(tl::unexpected(scaling.error()));
  Shrinking axis;
  axis.mode = w.node().String("coordinate_transformation_mode", "half_pixel");
  axis.cubic = w.node().String("mode", "nearest") == "cubic";
  axis.cubic_a = w.node().Float("cubic_coeff_a", -0.75f);
  axis.exclude_outside = w.node().Int("exclude_outside", 0) != 0;
  if (axis.mode == "tf_crop_and_resize") {
    return w.Refuse(w.context().Unimplemented(
        fmt::format("antialias with the mode {} is not supported", Quoted(axis.mode))));
  }
  const DataType type = WideType(w, w.In(0));
  ValueId y = w.Cast(w.In(0), type);
  const Dims dims = w.DimsOf(y);
  for (std::size_t i = 0; i < dims.size() && w.status(); ++i) {
    if (scaling->out[i] >= dims[i]) continue;
    axis.from = dims[i];
    axis.to = scaling->out[i];
    axis.scale = scaling->scales[i];
    y = Shrunk(w, y, i, axis);
  }
  w.SetOutput(0, w.Cast(Grown(w, y, *scaling), w.TypeOf(w.In(0))));
}

constexpr std::string_view kAttributes =
    "i:antialias I:axes s:coordinate_transformation_mode f:cubic_coeff_a i:exclude_outside "
    "f:extrapolation_value s:keep_aspect_ratio_policy s:mode s:nearest_mode";

constexpr Expansion kResizeExpansions[] = {
    {"", {"Resize", 18, 1, 4, 1, kAttributes}, ExpandResize, Antialiases},
};

}  // namespace

std::span<const Expansion> ResizeExpansions() { return kResizeExpansions; }

}  // namespace lagoon

// Convolutions whose taps lie where other inputs say: each tap is sampled with GridSample, and the
// samples are multiplied by the weights.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"
#include "graph/ops/window.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// Sizes of a convolution over images [batch, channels, height, width].
struct Deformed {
  std::int64_t batch = 0, channels = 0, outputs = 0, groups = 1, offset_groups = 1;
  Ints in, out, kernel, strides, dilations, pads;  // of height and width

  std::int64_t taps() const { return kernel[0] * kernel[1]; }
};

bool HasShape(Writer& w, std::size_t i, const char* what, const Dims& dims) {
  if (!w.status() || w.In(i) == kNoValue || w.DimsOf(w.In(i)) == dims)
    return w.status().has_value();
  w.Refuse(w.context().Invalid(fmt::format("{} {} has shape {}, expected {}", what,
                                           Quoted(w.context().input(i).name),
                                           ToString(w.DimsOf(w.In(i))), ToString(dims))));
  return false;
}

/// The attribute `name`, one number for each side of the window.
Ints Listed(Writer& w, const char* name, std::int64_t otherwise) {
  const Result<Ints> list = SpatialInts(w.context(), name, 2, otherwise);
  if (!list) w.Refuse(tl::unexpected(list.error()));
  return list.value_or(Ints(2, otherwise));
}

Deformed ReadSizes(Writer& w) {
  Deformed d;
  const Dims x = w.DimsOf(w.In(0)), weights = w.DimsOf(w.In(1));
  if (w.status() && (x.size() != 4 || weights.size() != 4)) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("takes images with two spatial axes, not {}", ToString(x))));
  }
  if (!w.status()) return d;
  d.batch = x[0];
  d.channels = x[1];
  d.outputs = weights[0];
  d.groups = w.node().Int("group", 1);
  d.offset_groups = w.node().Int("offset_group", 1);
  d.in = {x[2], x[3]};
  d.kernel = {weights[2], weights[3]};
  d.strides = Listed(w, "strides", 1);
  d.dilations = Listed(w, "dilations", 1);
  d.pads = w.node().Ints("pads", {0, 0, 0, 0});
  constexpr std::int64_t kMostPadding = 1 << 20;
  const bool pads = d.pads.size() == 4 && std::ranges::all_of(d.pads, [](std::int64_t pad) {
                      return pad >= 0 && pad <= kMostPadding;
                    });
  if (w.status() && !pads) {
    w.Refuse(w.context().Invalid(fmt::format("pads are {}", ToString(d.pads))));
  }
  if (w.status() && (d.groups < 1 || d.offset_groups < 1 || d.channels % d.offset_groups != 0 ||
                     d.channels != weights[1] * d.groups || d.outputs % d.groups != 0)) {
    w.Refuse(w.context().Invalid(
        fmt::format("{} channels and weights {} do not fit {} groups and {} groups of offsets",
                    d.channels, ToString(weights), d.groups, d.offset_groups)));
  }
  for (std::size_t i = 0; i < 2 && w.status(); ++i) {
    const std::int64_t extent = (d.kernel[i] - 1) * d.dilations[i] + 1;
    const std::int64_t padded = d.in[i] + d.pads[i] + d.pads[i + 2];
    d.out.push_back((padded - extent) / d.strides[i] + 1);
    if (d.kernel[i] >= 1 && padded >= extent) continue;
    w.Refuse(w.context().Invalid(
        fmt::format("a window of {} does not fit {} padded to {}", extent, d.in[i], padded)));
  }
  return d;
}

/// Where the taps would lie without offsets, [1, taps, out height, out width, 2]: row and column.
ValueId Places(Writer& w, const Deformed& d, DataType type) {
  const Dims dims{1, d.taps(), d.out[0], d.out[1], 2};
  return TableOf(w, type, dims, [&](std::int64_t i) {
    const auto side = static_cast<std::size_t>(i % 2);
    const std::int64_t at[] = {i / 2 / d.out[1] % d.out[0], i / 2 % d.out[1]};
    const std::int64_t tap = i / 2 / d.out[1] / d.out[0];
    const std::int64_t taps[] = {tap / d.kernel[1], tap % d.kernel[1]};
    return static_cast<double>(at[side] * d.strides[side] - d.pads[side] +
                               taps[side] * d.dilations[side]);
  });
}

/// The samples [batch * offset groups, channels of a group, taps, out height * out width].
ValueId Sampled(Writer& w, const Deformed& d, DataType type) {
  const std::int64_t images = d.batch * d.offset_groups, taps = d.taps();
  const std::int64_t channels = d.channels / d.offset_groups, pixels = d.out[0] * d.out[1];
  const ValueId offsets = w.Transpose(
      w.Reshape(w.Cast(w.In(2), type), {images, taps, 2, d.out[0], d.out[1]}), {0, 1, 3, 4, 2});
  const ValueId at = w.Add(offsets, Places(w, d, type));
  // GridSample counts from -1 to 1 between the outer edges of the pixels.
  const ValueId scale = TableOf(w, type, {2}, [&](std::int64_t i) {
    return 2 / static_cast<double>(d.in[static_cast<std::size_t>(i)]);
  });
  const ValueId shift = TableOf(w, type, {2}, [&](std::int64_t i) {
    return 1 / static_cast<double>(d.in[static_cast<std::size_t>(i)]) - 1;
  });
  const ValueId grid =
      w.Op("Gather", {w.Add(w.Mul(at, scale), shift), w.Ints({1, 0})}, {{"axis", std::int64_t{4}}});
  const ValueId x = w.Reshape(w.Cast(w.In(0), type), {images, channels, d.in[0], d.in[1]});
  const ValueId y = w.Op("GridSample", {x, w.Reshape(grid, {images, taps * d.out[0], d.out[1], 2})},
                         {{"mode", std::string("linear")},
                          {"padding_mode", std::string("zeros")},
                          {"align_corners", std::int64_t{0}}});
  const ValueId samples = w.Reshape(y, {images, channels, taps, pixels});
  if (w.In(4) == kNoValue) return samples;
  return w.Mul(samples, w.Reshape(w.Cast(w.In(4), type), {images, 1, taps, pixels}));
}

// x, weights, offsets, [bias], [mask]
void ExpandDeformConv(Writer& w) {
  const Deformed d = ReadSizes(w);
  if (!w.status()) return;
  const std::int64_t points = d.offset_groups * d.taps();
  if (!HasShape(w, 2, "offset", {d.batch, 2 * points, d.out[0], d.out[1]}) ||
      !HasShape(w, 3, "B", {d.outputs}) ||
      !HasShape(w, 4, "mask", {d.batch, points, d.out[0], d.out[1]})) {
    return;
  }
  const DataType type = WideType(w, w.In(0));
  const std::int64_t depth = d.channels / d.groups * d.taps();
  const ValueId samples =
      w.Reshape(Sampled(w, d, type), {d.batch, d.groups, depth, d.out[0] * d.out[1]});
  const ValueId weights =
      w.Reshape(w.Cast(w.In(1), type), {1, d.groups, d.outputs / d.groups, depth});
  ValueId y = w.Reshape(w.MatMul(weights, samples), {d.batch, d.outputs, d.out[0], d.out[1]});
  if (w.In(3) != kNoValue) {
    y = w.Add(y, w.Reshape(w.Cast(w.In(3), type), {d.outputs, 1, 1}));
  }
  w.SetOutput(0, w.Cast(y, w.TypeOf(w.In(0))));
}

constexpr Expansion kDeformExpansions[] = {
    {"",
     {"DeformConv", 19, 3, 5, 1,
      "I:dilations i:group I:kernel_shape i:offset_group I:pads I:strides"},
     ExpandDeformConv},
};

}  // namespace

std::span<const Expansion> DeformExpansions() { return kDeformExpansions; }

}  // namespace lagoon

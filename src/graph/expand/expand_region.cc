// Regions of images: unpooling, columns back to an image, grids to sample, cropping and padding.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

// The integers of input `i`, which must be constant; empty after an error.
Ints IntsIn(Writer& w, std::size_t i, std::string_view what) {
  if (!w.status()) return {};
  const Result<Ints> numbers = w.context().ConstantInts(i, what);
  if (numbers) return *numbers;
  w.Refuse(tl::unexpected(numbers.error()));
  return {};
}

// Refuses shapes that no memory holds, so that products of the sizes do not overflow.
bool FitsMemory(Writer& w, const Dims& dims) {
  if (!w.status()) return false;
  const Result<std::size_t> bytes = w.context().Bytes(dims, DataType::kFloat64);
  if (!bytes) w.Refuse(tl::unexpected(bytes.error()));
  return bytes.has_value();
}

// Integers of an attribute, `count` of them.
Ints Listed(Writer& w, const char* attribute, std::size_t count, std::int64_t otherwise,
            std::int64_t least) {
  Ints numbers = w.node().Ints(attribute, Ints(count, otherwise));
  const bool fits = std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t number) {
    return number >= least && number < (1 << 30);
  });
  if (w.status() && (numbers.size() != count || !fits)) {
    w.Refuse(w.context().Invalid(fmt::format("{} is {}, takes {} numbers of at least {}", attribute,
                                             ToString(numbers), count, least)));
  }
  return w.status() ? numbers : Ints(count, otherwise);
}

// The shape that a MaxPool with these attributes read.
Dims Unpooled(Writer& w) {
  Dims dims = w.DimsOf(w.In(0));
  const std::size_t axes = dims.size() < 3 ? 0 : dims.size() - 2;
  if (w.status() && (axes == 0 || w.DimsOf(w.In(1)) != dims)) {
    w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}, the indices {}: they must be equal, and have rank 3 at "
                    "least",
                    ToString(dims), ToString(w.DimsOf(w.In(1))))));
  }
  const Ints kernel = Listed(w, "kernel_shape", axes, 0, 1);
  const Ints strides = Listed(w, "strides", axes, 1, 1);
  const Ints pads = Listed(w, "pads", 2 * axes, 0, 0);
  for (std::size_t i = 0; i < axes && w.status(); ++i) {
    std::int64_t& size = dims[i + 2];
    size = (size - 1) * strides[i] - pads[i] - pads[i + axes] + kernel[i];
    if (size < 1) {
      w.Refuse(w.context().Invalid(fmt::format("axis {} would have size {}", i + 2, size)));
    }
  }
  return dims;
}

// x with zeros behind it, so that it has the shape `dims`.
ValueId PaddedTo(Writer& w, ValueId x, const Dims& dims) {
  const Dims from = w.DimsOf(x);
  Ints pads(from.size());
  bool fits = dims.size() == from.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    pads.push_back(dims[i] - from[i]);
    fits = pads.back() >= 0;
  }
  if (w.status() && !fits) {
    w.Refuse(w.context().Invalid(
        fmt::format("output_shape is {}, must be at least {}", ToString(dims), ToString(from))));
  }
  return w.status() ? w.Op("Pad", {x, w.Ints(pads)}) : kNoValue;
}

// x, indices in the whole flattened output, [output_shape]. A larger output_shape adds zeros at the
// ends; the indices do not count them.
void ExpandMaxUnpool(Writer& w) {
  const Dims dims = Unpooled(w);
  if (!FitsMemory(w, dims)) return;
  const std::int64_t count = ElementCount(dims);
  const ValueId zeros = w.Op("Expand", {w.Number(0, w.TypeOf(w.In(0))), w.Ints({count})});
  const ValueId values =
      w.Op("ScatterElements", {zeros, w.Reshape(w.In(1), {-1}), w.Reshape(w.In(0), {-1})});
  ValueId y = w.Reshape(values, dims);
  if (w.In(2) != kNoValue) y = PaddedTo(w, y, IntsIn(w, 2, "output_shape"));
  w.SetOutput(0, y);
}

// A block of numbers along a spatial axis, or along all.
struct Blocks {
  Ints image, block, dilations, strides, pads;

  std::size_t axes() const { return image.size(); }
  std::int64_t Taps() const { return ElementCount(block); }
  // The places of the block along an axis.
  std::int64_t Steps(std::size_t i) const {
    const std::int64_t window = dilations[i] * (block[i] - 1) + 1;
    const std::int64_t room = image[i] + pads[i] + pads[i + axes()] - window;
    return room < 0 ? 0 : room / strides[i] + 1;
  }
  // The pixels along an axis behind the block at its last place.
  std::int64_t Rest(std::size_t i) const {
    const std::int64_t window = dilations[i] * (block[i] - 1) + 1;
    return (image[i] + pads[i] + pads[i + axes()] - window) % strides[i];
  }
};

Blocks BlocksOf(Writer& w) {
  Blocks blocks;
  blocks.image = IntsIn(w, 1, "image_shape");
  blocks.block = IntsIn(w, 2, "block_shape");
  const std::size_t axes = blocks.image.size();
  const auto all_positive = [](const Ints& sizes) {
    return std::all_of(sizes.begin(), sizes.end(),
                       [](std::int64_t size) { return size > 0 && size < (1 << 30); });
  };
  if (w.status() && (axes == 0 || axes > 3 || blocks.block.size() != axes ||
                     !all_positive(blocks.image) || !all_positive(blocks.block))) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("image_shape is {} and block_shape {}: supported are 1 to 3 positive sizes",
                    ToString(blocks.image), ToString(blocks.block))));
  }
  blocks.dilations = Listed(w, "dilations", axes, 1, 1);
  blocks.strides = Listed(w, "strides", axes, 1, 1);
  blocks.pads = Listed(w, "pads", 2 * axes, 0, 0);
  return blocks;
}

bool CheckColumns(Writer& w, const Blocks& blocks) {
  if (!w.status()) return false;
  Ints steps;
  for (std::size_t i = 0; i < blocks.axes(); ++i) steps.push_back(blocks.Steps(i));
  if (!FitsMemory(w, steps) || !FitsMemory(w, blocks.block)) return false;
  const std::int64_t places = ElementCount(steps);
  const Dims dims = w.DimsOf(w.In(0));
  if (dims.size() != 3 || dims[1] % blocks.Taps() != 0 || dims[2] != places || places == 0) {
    w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}, takes batch, channels * {} and {} columns",
                    ToString(dims), blocks.Taps(), places)));
  }
  return w.status().has_value();
}

// x [batch, channels * taps, places], image_shape, block_shape. Each tap of the block is a channel
// of a transposed convolution, the weights of which are 1 at this tap.
void ExpandCol2Im(Writer& w) {
  const Blocks blocks = BlocksOf(w);
  if (!CheckColumns(w, blocks)) return;
  const std::int64_t taps = blocks.Taps(), channels = w.Dim(w.In(0), 1) / taps;
  Dims places{w.Dim(w.In(0), 0), channels * taps}, weights{channels * taps, 1};
  Ints rest;
  for (std::size_t i = 0; i < blocks.axes(); ++i) {
    places.push_back(blocks.Steps(i));
    weights.push_back(blocks.block[i]);
    rest.push_back(blocks.Rest(i));
  }
  const ValueId ones = TableOf(w, w.TypeOf(w.In(0)), weights, [&](std::int64_t i) {
    return i / taps % taps == i % taps ? 1.0 : 0.0;
  });
  w.SetOutput(0, w.Op("ConvTranspose", {w.Reshape(w.In(0), places), ones},
                      {{"group", channels},
                       {"dilations", blocks.dilations},
                       {"strides", blocks.strides},
                       {"pads", blocks.pads},
                       {"output_padding", rest}}));
}

// The coordinate of pixel `i` of `size` pixels, which lie between -1 and 1.
double GridPlace(std::int64_t i, std::int64_t size, bool align_corners) {
  const auto at = static_cast<double>(i), count = static_cast<double>(size);
  if (!align_corners) return (2 * at + 1) / count - 1;
  return size == 1 ? 0 : 2 * at / (count - 1) - 1;
}

// theta [batch, axes, axes + 1], size: batch, channels and the spatial axes
void ExpandAffineGrid(Writer& w) {
  const Ints size = IntsIn(w, 1, "size");
  const ValueId theta = w.In(0);
  const std::size_t axes = size.size() < 4 ? 0 : size.size() - 2;
  const auto rows = static_cast<std::int64_t>(axes);
  const bool positive =
      std::all_of(size.begin(), size.end(), [](std::int64_t s) { return s > 0 && s < (1 << 30); });
  if (w.status() &&
      (axes < 2 || axes > 3 || !positive || w.DimsOf(theta) != Dims{size[0], rows, rows + 1})) {
    w.Refuse(w.context().Invalid(
        fmt::format("size is {} and theta has shape {}; takes [N,C,H,W] and [N,2,3], or "
                    "[N,C,D,H,W] and [N,3,4]",
                    ToString(size), ToString(w.DimsOf(theta)))));
  }
  if (!FitsMemory(w, size)) return;
  const DataType type = WideType(w, theta);
  const bool corners = w.node().Int("align_corners", 0) != 0;
  Dims grid = size;
  grid.erase(grid.begin() + 1);
  const std::int64_t pixels = ElementCount(grid) / size[0];
  // A row per pixel: its coordinates, that of the last axis first, and 1.
  const ValueId places = TableOf(w, type, {pixels, rows + 1}, [&](std::int64_t i) {
    std::int64_t pixel = i / (rows + 1);
    const std::int64_t column = i % (rows + 1);
    if (column == rows) return 1.0;
    for (std::int64_t k = 0; k < column; ++k) {
      pixel /= size[size.size() - 1 - static_cast<std::size_t>(k)];
    }
    const std::int64_t length = size[size.size() - 1 - static_cast<std::size_t>(column)];
    return GridPlace(pixel % length, length, corners);
  });
  grid.push_back(rows);
  const ValueId y = w.MatMul(places, w.SwapLastAxes(w.Cast(theta, type)));
  w.SetOutput(0, w.Cast(w.Reshape(y, grid), w.TypeOf(theta)));
}

// x, shape. Odd differences leave one more element at the end.
void ExpandCenterCropPad(Writer& w) {
  const Ints shape = IntsIn(w, 1, "shape");
  const std::size_t rank = w.RankOf(w.In(0));
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  axes = w.node().Ints("axes", axes);
  const Result<Ints> checked = w.context().Axes(axes, rank);  // fails for duplicates
  if (!checked) return w.Refuse(tl::unexpected(checked.error()));
  if (w.status() && axes.size() != shape.size()) {
    w.Refuse(
        w.context().Invalid(fmt::format("shape is {} for {} axes", ToString(shape), axes.size())));
  }
  ValueId y = w.In(0);
  Ints pads(2 * rank);
  for (std::size_t i = 0; i < axes.size() && w.status(); ++i) {
    const auto axis =
        static_cast<std::size_t>(axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i]);
    const std::int64_t size = w.Dim(y, static_cast<std::int64_t>(axis)), wanted = shape[i];
    if (wanted < 1 || wanted > (1 << 30)) {
      return w.Refuse(w.context().Invalid(fmt::format("axis {} cannot get size {}", axis, wanted)));
    }
    if (wanted < size) {
      const std::int64_t from = (size - wanted) / 2;
      y = w.Slice(y, static_cast<std::int64_t>(axis), from, from + wanted);
    } else {
      pads[axis] = (wanted - size) / 2;
      pads[axis + rank] = wanted - size - pads[axis];
    }
  }
  w.SetOutput(0, w.Op("Pad", {y, w.Ints(pads)}));
}

constexpr Expansion kRegionExpansions[] = {
    {"", {"MaxUnpool", 9, 2, 3, 1, "I:kernel_shape I:pads I:strides"}, ExpandMaxUnpool},
    {"", {"Col2Im", 18, 3, 3, 1, "I:dilations I:pads I:strides"}, ExpandCol2Im},
    {"", {"AffineGrid", 20, 2, 2, 1, "i:align_corners"}, ExpandAffineGrid},
    {"", {"CenterCropPad", 18, 2, 2, 1, "I:axes"}, ExpandCenterCropPad},
};

}  // namespace

std::span<const Expansion> RegionExpansions() { return kRegionExpansions; }

}  // namespace lagoon

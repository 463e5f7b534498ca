// Convolutions over volumes [N,C,D,H,W], compared with a plain loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/lower/builder.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::FromBytes;
using testing::ModelBuilder;
using testing::RunModel;
using testing::ToBytes;
using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;
using Axes = std::array<std::int64_t, 3>;

struct Volumes {
  std::int64_t in_channels = 4, out_channels = 6, groups = 1;
  Axes size{4, 5, 3}, kernel{3, 3, 3}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
  bool transposed = false;

  static constexpr std::int64_t kBatch = 2;

  Axes Out() const {
    Axes out{};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t extent = (kernel[i] - 1) * dilation[i] + 1;
      out[i] = transposed ? (size[i] - 1) * stride[i] + extent - 2 * pad[i]
                          : (size[i] + 2 * pad[i] - extent) / stride[i] + 1;
    }
    return out;
  }
  Ints WeightDims() const {
    Ints dims{out_channels, in_channels / groups, kernel[0], kernel[1], kernel[2]};
    if (transposed) dims = {in_channels, out_channels / groups, kernel[0], kernel[1], kernel[2]};
    return dims;
  }
};

std::int64_t Count(const Axes& axes) { return axes[0] * axes[1] * axes[2]; }

Floats Numbers(std::int64_t count, int seed) {
  Floats numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>((i * 29 + seed) % 19) / 8.0F - 1.0F);
  }
  return numbers;
}

/// Calls f(small, large, tap) for each pixel of the smaller side of the window (the output, or a
/// transposed convolution's input), and the pixel of the larger side under each tap.
template <typename F>
void ForEachTap(const Volumes& v, F f) {
  const Axes small = v.transposed ? v.size : v.Out(), large = v.transposed ? v.Out() : v.size;
  const auto place = [](std::int64_t i, const Axes& axes) {
    return Axes{i / (axes[1] * axes[2]), i / axes[2] % axes[1], i % axes[2]};
  };
  for (std::int64_t s = 0; s < Count(small); ++s) {
    for (std::int64_t t = 0; t < Count(v.kernel); ++t) {
      const Axes at = place(s, small), tap = place(t, v.kernel);
      std::int64_t l = 0;
      bool inside = true;
      for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t to = at[i] * v.stride[i] + tap[i] * v.dilation[i] - v.pad[i];
        inside = inside && to >= 0 && to < large[i];
        l = l * large[i] + to;
      }
      if (inside) f(s, l, t);
    }
  }
}

Floats Expected(const Volumes& v, const Floats& x, const Floats& w) {
  const std::int64_t in_pixels = Count(v.size), out_pixels = Count(v.Out());
  const std::int64_t taps = Count(v.kernel);
  const std::int64_t in = v.in_channels / v.groups, out = v.out_channels / v.groups;
  Floats y(static_cast<std::size_t>(v.kBatch * v.out_channels * out_pixels));
  ForEachTap(v, [&](std::int64_t small, std::int64_t large, std::int64_t tap) {
    const std::int64_t from = v.transposed ? small : large, to = v.transposed ? large : small;
    for (std::int64_t i = 0; i < v.kBatch * v.groups * in * out; ++i) {
      const std::int64_t m = i % out, c = i / out % in, group = i / out / in % v.groups;
      const std::int64_t image = i / out / in / v.groups;
      const std::int64_t x_channel = group * in + c, y_channel = group * out + m;
      const std::int64_t weight = v.transposed ? (x_channel * out + m) : (y_channel * in + c);
      y[static_cast<std::size_t>((image * v.out_channels + y_channel) * out_pixels + to)] +=
          x[static_cast<std::size_t>((image * v.in_channels + x_channel) * in_pixels + from)] *
          w[static_cast<std::size_t>(weight * taps + tap)];
    }
  });
  return y;
}

Ints ListOf(const Axes& axes) { return {axes.begin(), axes.end()}; }

void AddNode(ModelBuilder& m, const Volumes& v, const std::string& x, const std::string& w,
             const std::string& y) {
  m.Add(v.transposed ? "ConvTranspose" : "Conv", {x, w}, {y})
      .Ints("kernel_shape", ListOf(v.kernel))
      .Ints("strides", ListOf(v.stride))
      .Ints("dilations", ListOf(v.dilation))
      .Ints("pads", {v.pad[0], v.pad[1], v.pad[2], v.pad[0], v.pad[1], v.pad[2]})
      .Int("group", v.groups);
}

void ExpectNear(const Floats& y, const Floats& expected) {
  ASSERT_EQ(y.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4F) << i;
}

void ExpectAsPlain(const Volumes& v) {
  const Ints w_dims = v.WeightDims();
  ModelBuilder m;
  m.Input("x", {v.kBatch, v.in_channels, v.size[0], v.size[1], v.size[2]}).Output("y");
  const Floats w = Numbers(ElementCount(w_dims), 2);
  const Floats x = Numbers(v.kBatch * v.in_channels * Count(v.size), 1);
  m.Floats("w", w_dims, w);
  AddNode(m, v, "x", "w", "y");
  ExpectNear(FromBytes<float>(RunModel(m, {ToBytes(x)})[0]), Expected(v, x, w));
}

TEST(Volume, ConvolutionsAreThoseOfAPlainLoop) {
  ExpectAsPlain({});
  ExpectAsPlain({.pad = {1, 1, 1}});
  ExpectAsPlain({.stride = {2, 1, 2}, .pad = {1, 2, 1}});
  ExpectAsPlain({.kernel = {2, 3, 1}, .dilation = {3, 2, 1}, .pad = {2, 1, 0}});
  ExpectAsPlain({.kernel = {1, 3, 3}, .pad = {0, 1, 1}});
  ExpectAsPlain({.kernel = {3, 1, 1}, .pad = {1, 0, 0}});
  ExpectAsPlain({.kernel = {1, 1, 1}});
  ExpectAsPlain({.kernel = {1, 1, 1}, .stride = {2, 2, 2}});
  ExpectAsPlain({.kernel = {1, 1, 1}, .pad = {1, 0, 1}});
  ExpectAsPlain({.in_channels = 1, .kernel = {4, 5, 3}});
  ExpectAsPlain({.out_channels = 1, .pad = {3, 1, 0}});
}

TEST(Volume, WindowsAlongTheDepthAreThoseOfAPlainLoop) {
  ExpectAsPlain({.kernel = {3, 1, 1}, .stride = {2, 1, 1}, .pad = {1, 0, 0}});
  ExpectAsPlain({.groups = 2, .kernel = {2, 1, 1}, .dilation = {2, 1, 1}, .pad = {2, 0, 0}});
  ExpectAsPlain({.kernel = {3, 1, 1}, .stride = {1, 2, 1}, .pad = {1, 0, 0}});
  ExpectAsPlain({.kernel = {3, 1, 1}, .pad = {1, 0, 1}});
}

/// Most pixels of their windows lie in the padding.
TEST(Volume, ThinVolumesAreThoseOfAPlainLoop) {
  for (const std::int64_t depth : {1, 2, 3}) {
    for (const std::int64_t pad : {1, 2, 4}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t dilation : {1, 2}) {
          const Volumes v{.size = {depth, 3, 3},
                          .kernel = {3, 3, 3},
                          .stride = {stride, 1, 1},
                          .dilation = {dilation, 1, 1},
                          .pad = {pad, 1, 1}};
          if (depth + 2 * pad < 2 * dilation + 1) continue;
          SCOPED_TRACE(::testing::Message() << depth << ", pad " << pad << ", stride " << stride
                                            << ", dilation " << dilation);
          ExpectAsPlain(v);
        }
      }
    }
  }
}

TEST(Volume, GroupsReadTheirOwnChannels) {
  ExpectAsPlain({.groups = 2, .pad = {1, 1, 1}});
  ExpectAsPlain({.in_channels = 6, .groups = 6, .stride = {1, 2, 1}, .pad = {1, 1, 1}});
  ExpectAsPlain({.in_channels = 6, .out_channels = 12, .groups = 3, .kernel = {2, 2, 2}});
}

TEST(Volume, TransposedConvolutionsAreThoseOfAPlainLoop) {
  ExpectAsPlain({.kernel = {2, 2, 2}, .stride = {2, 2, 2}, .transposed = true});
  ExpectAsPlain({.kernel = {3, 4, 2}, .stride = {2, 2, 1}, .pad = {1, 1, 0}, .transposed = true});
  ExpectAsPlain({.groups = 2, .stride = {2, 2, 2}, .pad = {1, 1, 1}, .transposed = true});
  ExpectAsPlain({.kernel = {2, 2, 2}, .dilation = {2, 1, 2}, .transposed = true});
}

enum class Pool : std::uint8_t { kMax, kAverage, kAverageWithPadding };

Floats Pooled(const Volumes& v, Pool pool, const Floats& x) {
  const std::int64_t in_pixels = Count(v.size), out_pixels = Count(v.Out());
  Floats y;
  for (std::int64_t plane = 0; plane < v.kBatch * v.in_channels; ++plane) {
    Floats sum(static_cast<std::size_t>(out_pixels)), most(sum.size(), -1e30F), count(sum.size());
    ForEachTap(v, [&](std::int64_t to, std::int64_t from, std::int64_t) {
      const float value = x[static_cast<std::size_t>(plane * in_pixels + from)];
      const auto at = static_cast<std::size_t>(to);
      sum[at] += value;
      most[at] = std::max(most[at], value);
      ++count[at];
    });
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float all = pool == Pool::kAverage ? count[i] : static_cast<float>(Count(v.kernel));
      y.push_back(pool == Pool::kMax ? most[i] : sum[i] / all);
    }
  }
  return y;
}

TEST(Volume, PoolsAreThoseOfAPlainLoop) {
  const std::vector<Volumes> cases{
      {.kernel = {2, 2, 2}, .stride = {2, 2, 2}},
      {.kernel = {3, 3, 2}, .stride = {2, 1, 1}, .pad = {1, 1, 0}},
      {.kernel = {1, 2, 2}, .stride = {1, 2, 1}},
      {.kernel = {3, 1, 1}, .pad = {1, 0, 0}},
      {.size = {1, 1, 1}, .kernel = {2, 2, 2}, .pad = {1, 1, 1}},
  };
  for (const Volumes& v : cases) {
    for (const Pool pool : {Pool::kMax, Pool::kAverage, Pool::kAverageWithPadding}) {
      ModelBuilder m;
      m.Input("x", {v.kBatch, v.in_channels, v.size[0], v.size[1], v.size[2]}).Output("y");
      const Floats x = Numbers(v.kBatch * v.in_channels * Count(v.size), 1);
      testing::NodeRef node = m.Add(pool == Pool::kMax ? "MaxPool" : "AveragePool", {"x"}, {"y"});
      node.Ints("kernel_shape", ListOf(v.kernel)).Ints("strides", ListOf(v.stride));
      node.Ints("pads", {v.pad[0], v.pad[1], v.pad[2], v.pad[0], v.pad[1], v.pad[2]});
      if (pool == Pool::kAverageWithPadding) node.Int("count_include_pad", 1);
      ExpectNear(FromBytes<float>(RunModel(m, {ToBytes(x)})[0]), Pooled(v, pool, x));
    }
  }
}

/// What U-Nets do: a join with an earlier volume, a scale for each channel, a function.
TEST(Volume, JoinsAndElementwiseNodesMoveNothing) {
  const Volumes v{.out_channels = 4, .pad = {1, 1, 1}}, joined{.in_channels = 8, .out_channels = 4};
  const Floats x = Numbers(v.kBatch * v.in_channels * Count(v.size), 1);
  const Floats w = Numbers(ElementCount(v.WeightDims()), 2);
  const Floats w2 = Numbers(ElementCount(joined.WeightDims()), 3);
  const Floats scale{1, 0.5F, -1, 2, 0.25F, 1, 1, -2};
  ModelBuilder m;
  m.Input("x", {v.kBatch, v.in_channels, v.size[0], v.size[1], v.size[2]}).Output("y");
  m.Floats("w", v.WeightDims(), w).Floats("w2", joined.WeightDims(), w2);
  m.Floats("scale", {1, 8, 1, 1, 1}, scale);
  AddNode(m, v, "x", "w", "a");
  m.Add("Concat", {"a", "x"}, {"b"}).Int("axis", 1);
  m.Add("Mul", {"b", "scale"}, {"c"});
  m.Add("Abs", {"c"}, {"d"});
  AddNode(m, joined, "d", "w2", "y");

  const Floats a = Expected(v, x, w);
  const auto volume = static_cast<std::size_t>(4 * Count(v.size));
  Floats d;
  for (std::size_t image = 0; image < 2; ++image) {
    for (const Floats* from : {&a, &x}) {
      d.insert(d.end(), from->begin() + static_cast<std::ptrdiff_t>(image * volume),
               from->begin() + static_cast<std::ptrdiff_t>((image + 1) * volume));
    }
  }
  for (std::size_t i = 0; i < d.size(); ++i) {
    d[i] = std::abs(d[i] * scale[i / static_cast<std::size_t>(Count(v.size)) % 8]);
  }
  const Result<Graph> graph = m.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ExpectNear(FromBytes<float>(RunModel(m, {ToBytes(x)})[0]), Expected(joined, d, w2));
  const Result<LoweredProgram> program = Lower(*graph, "joins");
  const auto moves = std::ranges::count_if(program->ops, [](const LoweredOp& op) {
    return std::string_view(op.kernel.name) == "transpose";
  });
  EXPECT_EQ(moves, 2);  // of the input, and to the output
}

/// Two layers with batch-norm and Relu, and the residual around them.
TEST(Volume, ABlockOfAVideoModelIsTwoConvolutions) {
  const Volumes v{.out_channels = 4, .pad = {1, 1, 1}};
  const Floats x = Numbers(v.kBatch * v.in_channels * Count(v.size), 1);
  const Floats w = Numbers(ElementCount(v.WeightDims()), 2);
  ModelBuilder m;
  m.Input("x", {v.kBatch, v.in_channels, v.size[0], v.size[1], v.size[2]}).Output("y");
  m.Floats("w", v.WeightDims(), w);
  m.Floats("scale", {4}, {0.5F, 0.25F, 0.125F, -0.5F}).Floats("shift", {4}, {1, 0, -1, 0.5F});
  m.Floats("mean", {4}, Floats(4)).Floats("variance", {4}, Floats(4, 1));
  AddNode(m, v, "x", "w", "a");
  m.Add("BatchNormalization", {"a", "scale", "shift", "mean", "variance"}, {"b"})
      .Float("epsilon", 0);
  m.Add("Relu", {"b"}, {"c"});
  AddNode(m, v, "c", "w", "d");
  m.Add("Add", {"d", "x"}, {"e"});
  m.Add("Relu", {"e"}, {"y"});

  const Floats scale{0.5F, 0.25F, 0.125F, -0.5F}, shift{1, 0, -1, 0.5F};
  Floats first = Expected(v, x, w);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t channel = i / static_cast<std::size_t>(Count(v.size)) % 4;
    first[i] = std::max(first[i] * scale[channel] + shift[channel], 0.0F);
  }
  Floats y = Expected(v, first, w);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i] + x[i], 0.0F);

  const Result<Graph> graph = m.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ExpectNear(FromBytes<float>(RunModel(m, {ToBytes(x)})[0]), y);
  // Nothing moves between the layers, and nothing is a kernel of its own that can be fused.
  std::vector<std::string> names;
  const Result<LoweredProgram> program = Lower(*graph, "block");
  for (const LoweredOp& op : program->ops) names.emplace_back(op.kernel.name);
  EXPECT_EQ(names, (std::vector<std::string>{"transpose", "take", "strided_copy", "conv2d", "take",
                                             "strided_copy", "conv2d", "transpose"}));
}

TEST(Volume, ConvolutionsWithComputedWeightsAddTheirResidual) {
  const Volumes v{.out_channels = 4, .pad = {1, 1, 1}};
  const Floats x = Numbers(v.kBatch * v.in_channels * Count(v.size), 1);
  const Floats w = Numbers(ElementCount(v.WeightDims()), 2);
  ModelBuilder m;
  m.Input("x", {v.kBatch, v.in_channels, v.size[0], v.size[1], v.size[2]});
  m.Input("w", v.WeightDims()).Output("y");
  AddNode(m, v, "x", "w", "c");
  m.Add("Add", {"c", "x"}, {"s"});
  m.Add("Relu", {"s"}, {"y"});
  Floats y = Expected(v, x, w);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i] + x[i], 0.0F);
  ExpectNear(FromBytes<float>(RunModel(m, {ToBytes(x), ToBytes(w)})[0]), y);
}

}  // namespace
}  // namespace lagoon

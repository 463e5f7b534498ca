// Transposed convolutions, compared with a plain loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/lower/builder.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::FromBytes;
using testing::ModelBuilder;
using testing::RunTyped;
using testing::ToBytes;
using Floats = std::vector<float>;

/// An image of 2 x 6 channels and a window with these parameters.
struct Transposed {
  std::int64_t out_channels = 3;
  std::int64_t kernel_h = 2, kernel_w = 2, stride_h = 2, stride_w = 2;
  std::int64_t pad = 0, more = 0;  // on all sides; rows and columns that the output has more
  std::int64_t groups = 1, dilation = 1;
  bool bias = true, batch_norm = false, relu = false;
  bool line = false;  // [N, C, L]; then height and kernel_h are 1

  static constexpr std::int64_t kBatch = 2, kChannels = 6, kWidth = 3;

  std::int64_t in_height() const { return line ? 1 : 4; }
  std::int64_t Out(std::int64_t in, std::int64_t kernel, std::int64_t stride) const {
    return (in - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad + more;
  }
  std::int64_t height() const { return line ? 1 : Out(in_height(), kernel_h, stride_h); }
  std::int64_t width() const { return Out(kWidth, kernel_w, stride_w); }
};

Floats Numbers(std::int64_t count, int seed) {
  Floats numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>((i * 37 + seed) % 23) / 8.0F - 1.0F);
  }
  return numbers;
}

/// Scale and shift of the batch-norm, channel by channel.
constexpr float kGamma = 0.5F, kBeta = 0.25F;

Floats Expected(const Transposed& t, const Floats& x, const Floats& w, const Floats& bias) {
  const std::int64_t height = t.height(), width = t.width();
  const auto plane = static_cast<std::size_t>(height * width);
  Floats y;
  for (std::int64_t i = 0; i < t.kBatch * t.out_channels; ++i) {
    y.insert(y.end(), plane, bias[static_cast<std::size_t>(i % t.out_channels)]);
  }
  const auto add = [&](std::int64_t image, std::int64_t m, std::int64_t row, std::int64_t column,
                       float value) {
    if (row < 0 || row >= height || column < 0 || column >= width) return;
    y[static_cast<std::size_t>(((image * t.out_channels + m) * height + row) * width + column)] +=
        value;
  };
  const std::int64_t taps = t.kernel_h * t.kernel_w, pixels = t.in_height() * t.kWidth;
  const std::int64_t per_group = t.out_channels / t.groups;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
    const std::int64_t channel = i / pixels % t.kChannels, image = i / pixels / t.kChannels;
    const std::int64_t group = channel / (t.kChannels / t.groups);
    const std::int64_t row = t.line ? 0 : i % pixels / t.kWidth * t.stride_h - t.pad;
    const std::int64_t column = i % t.kWidth * t.stride_w - t.pad;
    for (std::int64_t j = 0; j < per_group * taps; ++j) {
      const std::int64_t m = group * per_group + j / taps, tap = j % taps;
      add(image, m, row + tap / t.kernel_w * t.dilation, column + tap % t.kernel_w * t.dilation,
          x[static_cast<std::size_t>(i)] *
              w[static_cast<std::size_t>(channel * per_group * taps + j)]);
    }
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto channel = static_cast<float>(i / plane % static_cast<std::size_t>(t.out_channels));
    if (t.batch_norm) y[i] = y[i] * (kGamma + channel) + kBeta * channel;
    if (t.relu) y[i] = std::max(y[i], 0.0F);
  }
  return y;
}

ModelBuilder Model(const Transposed& t, const Floats& w, const Floats& bias) {
  ModelBuilder m;
  std::vector<std::int64_t> x_dims{t.kBatch, t.kChannels, t.in_height(), t.kWidth};
  std::vector<std::int64_t> w_dims{t.kChannels, t.out_channels / t.groups, t.kernel_h, t.kernel_w};
  std::vector<std::int64_t> strides{t.stride_h, t.stride_w};
  if (t.line) {
    x_dims.erase(x_dims.begin() + 2);
    w_dims.erase(w_dims.begin() + 2);
    strides.erase(strides.begin());
  }
  const std::size_t axes = strides.size();
  m.Input("x", x_dims).Output("y");
  m.Floats("w", w_dims, w).Floats("b", {t.out_channels}, bias);
  std::vector<std::string> inputs{"x", "w"};
  if (t.bias) inputs.emplace_back("b");
  std::string y = t.batch_norm || t.relu ? "c" : "y";
  m.Add("ConvTranspose", inputs, {y})
      .Ints("strides", strides)
      .Ints("pads", std::vector<std::int64_t>(2 * axes, t.pad))
      .Ints("dilations", std::vector<std::int64_t>(axes, t.dilation))
      .Ints("output_padding", std::vector<std::int64_t>(axes, t.more))
      .Int("group", t.groups);
  if (t.batch_norm) {
    Floats gamma, beta;
    for (std::int64_t i = 0; i < t.out_channels; ++i) {
      gamma.push_back(kGamma + static_cast<float>(i));
      beta.push_back(kBeta * static_cast<float>(i));
    }
    const Floats zeros(gamma.size()), ones(gamma.size(), 1);
    m.Floats("gamma", {t.out_channels}, gamma).Floats("beta", {t.out_channels}, beta);
    m.Floats("mean", {t.out_channels}, zeros).Floats("variance", {t.out_channels}, ones);
    y = t.relu ? "n" : "y";
    m.Add("BatchNormalization", {"c", "gamma", "beta", "mean", "variance"}, {y})
        .Float("epsilon", 0);
  }
  if (t.relu) m.Add("Relu", {y}, {"y"});
  return m;
}

/// Returns the names of the kernels.
std::vector<std::string> ExpectAsPlain(const Transposed& t) {
  const Floats x = Numbers(t.kBatch * t.kChannels * t.in_height() * t.kWidth, 1);
  const Floats w = Numbers(t.kChannels * t.out_channels / t.groups * t.kernel_h * t.kernel_w, 2);
  const Floats bias =
      t.bias ? Numbers(t.out_channels, 3) : Floats(static_cast<std::size_t>(t.out_channels));
  const Result<Graph> graph = Model(t, w, bias).Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  if (!graph) return {};
  const Floats y = FromBytes<float>(RunTyped(*graph, {ToBytes(x)})[0]);
  const Floats expected = Expected(t, x, w, bias);
  EXPECT_EQ(y.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(y.at(i), expected[i], 1e-5F) << i;
  const Result<LoweredProgram> program = Lower(*graph, "transposed");
  std::vector<std::string> names;
  for (const LoweredOp& op : program->ops) names.emplace_back(op.kernel.name);
  return names;
}

std::ptrdiff_t Takes(const Transposed& t) {
  const std::vector<std::string> names = ExpectAsPlain(t);
  return std::count(names.begin(), names.end(), "take");
}

TEST(ConvTranspose, TilesAreAConvolutionOfPixels) {
  EXPECT_EQ(Takes({}), 0);
  EXPECT_EQ(Takes({.out_channels = 1, .bias = false}), 0);
  EXPECT_EQ(Takes({.out_channels = 17, .relu = true}), 0);
  EXPECT_EQ(Takes({.kernel_h = 3, .kernel_w = 2, .stride_h = 3, .stride_w = 2}), 0);
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1}), 0);
}

TEST(ConvTranspose, WindowsThatOverlapAreOneConvolutionOfAllPhases) {
  // Of GANs, U-Nets, vocoders and super-resolution.
  EXPECT_EQ(Takes({.kernel_h = 4, .kernel_w = 4, .pad = 1}), 0);
  EXPECT_EQ(Takes({.kernel_h = 3, .kernel_w = 3, .pad = 1, .more = 1, .relu = true}), 0);
  EXPECT_EQ(Takes({.kernel_h = 9, .kernel_w = 9, .stride_h = 3, .stride_w = 3, .pad = 4}), 0);
  EXPECT_EQ(Takes({.kernel_h = 5, .kernel_w = 2, .stride_h = 1, .stride_w = 3}), 0);
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 16, .stride_w = 8, .pad = 4, .line = true}), 0);
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 1, .relu = true}), 0);
  EXPECT_EQ(Takes({.more = 1}), 0);
  EXPECT_EQ(Takes({.pad = 1}), 0);
}

TEST(ConvTranspose, AnyWindowAsAPlainLoop) {
  for (const std::int64_t kernel : {1, 2, 3, 4, 7}) {
    for (const std::int64_t stride : {1, 2, 3, 5}) {
      for (const std::int64_t pad : {0, 1, 2, 3}) {
        for (const std::int64_t more : {0, 1}) {
          for (const bool line : {false, true}) {
            const Transposed t{.kernel_h = line ? 1 : kernel,
                               .kernel_w = kernel,
                               .stride_h = stride,
                               .stride_w = stride,
                               .pad = pad,
                               .more = more,
                               .line = line};
            if (more >= stride || t.height() < 1 || t.width() < 1) continue;
            SCOPED_TRACE(::testing::Message() << "kernel " << kernel << ", stride " << stride
                                              << ", pad " << pad << ", more " << more);
            ExpectAsPlain(t);
          }
        }
      }
    }
  }
}

TEST(ConvTranspose, GroupsHavePhasesOfTheirOwn) {
  EXPECT_EQ(Takes({.groups = 3}), 0);
  EXPECT_EQ(Takes({.out_channels = 4, .kernel_h = 3, .pad = 1, .groups = 2}), 0);
  EXPECT_EQ(Takes({.out_channels = 6, .kernel_h = 4, .kernel_w = 4, .pad = 1, .groups = 6}), 0);
  EXPECT_EQ(Takes({.out_channels = 6, .kernel_h = 1, .kernel_w = 4, .groups = 6, .line = true}), 0);
}

TEST(ConvTranspose, BatchNormAndActivationAreFused) {
  for (const bool line : {false, true}) {
    const std::vector<std::string> names = ExpectAsPlain({.out_channels = 4,
                                                          .kernel_h = line ? 1 : 4,
                                                          .kernel_w = 4,
                                                          .pad = 1,
                                                          .bias = false,
                                                          .batch_norm = true,
                                                          .relu = true,
                                                          .line = line});
    EXPECT_EQ(std::count(names.begin(), names.end(), "unary"), 0);
    EXPECT_EQ(std::count(names.begin(), names.end(), "channel_affine"), 0);
    EXPECT_EQ(std::count(names.begin(), names.end(), "binary"), 0);
  }
  ExpectAsPlain({.kernel_h = 3, .groups = 3, .batch_norm = true, .relu = true});
  ExpectAsPlain({.kernel_h = 3, .dilation = 2, .batch_norm = true, .relu = true});
}

TEST(ConvTranspose, OthersAreComputedOnASpreadImage) {
  EXPECT_EQ(Takes({.kernel_h = 3, .kernel_w = 3, .dilation = 2}), 1);
  // Mostly zeros as weights.
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 1, .stride_h = 3, .stride_w = 3}), 1);
  // The padding cuts off all that the first pixels add.
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .pad = 1}), 1);
}

}  // namespace
}  // namespace lagoon

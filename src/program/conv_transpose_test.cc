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

/// An image of 2 x 5 channels and a window with these parameters.
struct Transposed {
  std::int64_t out_channels = 3;
  std::int64_t kernel_h = 2, kernel_w = 2, stride_h = 2, stride_w = 2;
  std::int64_t pad = 0, more = 0;  // on all sides; rows and columns that the output has more
  bool bias = true, relu = false;

  static constexpr std::int64_t kBatch = 2, kChannels = 5, kHeight = 4, kWidth = 3;

  std::int64_t height() const { return (kHeight - 1) * stride_h + kernel_h - 2 * pad + more; }
  std::int64_t width() const { return (kWidth - 1) * stride_w + kernel_w - 2 * pad + more; }
};

Floats Numbers(std::int64_t count, int seed) {
  Floats numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>((i * 37 + seed) % 23) / 8.0F - 1.0F);
  }
  return numbers;
}

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
  const std::int64_t taps = t.kernel_h * t.kernel_w, pixels = t.kHeight * t.kWidth;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
    const std::int64_t channel = i / pixels % t.kChannels, image = i / pixels / t.kChannels;
    const std::int64_t row = i % pixels / t.kWidth * t.stride_h - t.pad;
    const std::int64_t column = i % t.kWidth * t.stride_w - t.pad;
    for (std::int64_t j = 0; j < t.out_channels * taps; ++j) {
      const std::int64_t m = j / taps, tap = j % taps;
      add(image, m, row + tap / t.kernel_w, column + tap % t.kernel_w,
          x[static_cast<std::size_t>(i)] *
              w[static_cast<std::size_t>(channel * t.out_channels * taps + j)]);
    }
  }
  for (float& number : y) number = t.relu ? std::max(number, 0.0F) : number;
  return y;
}

/// Returns the names of the kernels.
std::vector<std::string> ExpectAsPlain(const Transposed& t) {
  ModelBuilder m;
  m.Input("x", {t.kBatch, t.kChannels, t.kHeight, t.kWidth}).Output("y");
  const Floats x = Numbers(t.kBatch * t.kChannels * t.kHeight * t.kWidth, 1);
  const Floats w = Numbers(t.kChannels * t.out_channels * t.kernel_h * t.kernel_w, 2);
  const Floats bias =
      t.bias ? Numbers(t.out_channels, 3) : Floats(static_cast<std::size_t>(t.out_channels));
  m.Floats("w", {t.kChannels, t.out_channels, t.kernel_h, t.kernel_w}, w);
  m.Floats("b", {t.out_channels}, bias);
  std::vector<std::string> inputs{"x", "w"};
  if (t.bias) inputs.emplace_back("b");
  m.Add("ConvTranspose", inputs, {t.relu ? "c" : "y"})
      .Ints("strides", {t.stride_h, t.stride_w})
      .Ints("pads", {t.pad, t.pad, t.pad, t.pad})
      .Ints("output_padding", {t.more, t.more});
  if (t.relu) m.Add("Relu", {"c"}, {"y"});
  const Result<Graph> graph = m.Load();
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

TEST(ConvTranspose, OthersAreComputedOnASpreadImage) {
  EXPECT_EQ(Takes({.kernel_h = 3, .kernel_w = 3, .pad = 1, .more = 1}), 1);
  EXPECT_EQ(Takes({.pad = 1}), 1);
  EXPECT_EQ(Takes({.more = 1}), 1);
  EXPECT_EQ(Takes({.kernel_h = 1, .kernel_w = 1, .relu = true}), 1);
}

}  // namespace
}  // namespace lagoon

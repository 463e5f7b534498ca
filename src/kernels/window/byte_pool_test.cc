#include "kernels/window/byte_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/testing/target.h"
#include "kernels/testing/typed.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

std::vector<std::uint8_t> RandomPixels(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() >> 8);
  return bytes;
}

/// The pooled bytes; none if a window meets no element.
std::vector<std::uint8_t> Pooled(const ByteMaxPoolSpec& spec, const std::vector<std::uint8_t>& x) {
  const ImageWindow& w = spec.window;
  std::vector<std::uint8_t> y(OutputPixels(w) * spec.channels);
  for (std::size_t at = 0; at < y.size(); ++at) {
    const std::size_t pixel = at / spec.channels, row = pixel / w.out_width;
    bool meets = false;
    for (std::int64_t tap = 0; tap < w.kernel_h * std::int64_t{w.kernel_w}; ++tap) {
      const std::int64_t iy = static_cast<std::int64_t>(row % w.out_height * w.stride_h) +
                              tap / w.kernel_w * w.dilation_h - w.pad_top;
      const std::int64_t ix = static_cast<std::int64_t>(pixel % w.out_width * w.stride_w) +
                              tap % w.kernel_w * w.dilation_w - w.pad_left;
      if (iy < 0 || iy >= w.height || ix < 0 || ix >= w.width) continue;
      const std::int64_t from =
          (static_cast<std::int64_t>(row / w.out_height) * w.height + iy) * w.width + ix;
      meets = true;
      y[at] =
          std::max(y[at], x[static_cast<std::size_t>(from) * spec.channels + at % spec.channels]);
    }
    if (!meets) return {};
  }
  return y;
}

void CheckPool(const ByteMaxPoolSpec& spec) {
  const std::vector<std::uint8_t> x = RandomPixels(InputPixels(spec.window) * spec.channels, 4);
  const std::vector<std::uint8_t> expected = Pooled(spec, x);
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget use(target);
    if (expected.empty()) {
      EXPECT_FALSE(MakeByteMaxPool(spec));
    } else {
      testing::ExpectTyped(MakeByteMaxPool(spec), {testing::ToBytes(x)}, expected);
    }
  }
}

TEST(ByteMaxPool, EqualsAPlainLoop) {
  std::minstd_rand random(3);
  const auto up_to = [&random](std::uint32_t most) {
    return static_cast<std::uint32_t>(1 + (random() >> 8) % most);
  };
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    ByteMaxPoolSpec spec;
    spec.window = {.batch = up_to(2),
                   .height = 2 + up_to(9),
                   .width = 2 + up_to(9),
                   .out_height = up_to(4),
                   .out_width = up_to(4),
                   .kernel_h = up_to(3),
                   .kernel_w = up_to(3),
                   .stride_h = up_to(2),
                   .stride_w = up_to(2),
                   .dilation_h = up_to(2),
                   .dilation_w = up_to(2),
                   .pad_top = up_to(2) - 1,
                   .pad_left = up_to(2) - 1};
    spec.channels = up_to(70);
    CheckPool(spec);
  }
}

TEST(ByteMaxPool, AnyNumberOfChannels) {
  ByteMaxPoolSpec spec;
  spec.window = {.height = 5,
                 .width = 6,
                 .out_height = 3,
                 .out_width = 3,
                 .kernel_h = 3,
                 .kernel_w = 3,
                 .stride_h = 2,
                 .stride_w = 2,
                 .pad_top = 1,
                 .pad_left = 1};
  for (const std::uint32_t channels :
       {1U, 7U, 8U, 9U, 15U, 16U, 17U, 24U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 130U}) {
    SCOPED_TRACE(channels);
    spec.channels = channels;
    CheckPool(spec);
  }
}

TEST(ByteMaxPool, RefusesWhatOneBlockCannotDo) {
  EXPECT_FALSE(MakeByteMaxPool({{}, 0}));
  ByteMaxPoolSpec spec;
  spec.window = {.height = 200, .width = 200, .kernel_h = 200, .kernel_w = 200};
  spec.channels = 64;
  EXPECT_FALSE(MakeByteMaxPool(spec));
  spec.window = {.height = 4, .width = 4, .out_height = 4, .stride_h = 2};
  EXPECT_FALSE(MakeByteMaxPool(spec)) << "the last windows lie behind the image";
  spec.window.out_height = 2;
  EXPECT_TRUE(MakeByteMaxPool(spec));
}

}  // namespace
}  // namespace lagoon

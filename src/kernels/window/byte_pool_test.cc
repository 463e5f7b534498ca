#include "kernels/window/byte_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

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

TEST(ByteMaxPool, EqualsAPlainLoop) {
  std::minstd_rand random(3);
  const auto up_to = [&random](std::uint32_t most) {
    return static_cast<std::uint32_t>(1 + (random() >> 8) % most);
  };
  for (int i = 0; i < 60; ++i) {
    ByteMaxPoolSpec spec;
    ImageWindow& w = spec.window;
    w = {.batch = up_to(2),
         .height = 2 + up_to(9),
         .width = 2 + up_to(9),
         .out_height = up_to(4),
         .out_width = up_to(4),
         .kernel_h = up_to(3),
         .kernel_w = up_to(3),
         .stride_h = up_to(2),
         .stride_w = up_to(2),
         .dilation_h = up_to(2),
         .dilation_w = 1,
         .pad_top = up_to(2) - 1,
         .pad_left = up_to(2) - 1};
    spec.channels = up_to(70);
    const std::vector<std::uint8_t> x = RandomPixels(InputPixels(w) * spec.channels, 4);
    std::vector<std::uint8_t> expected(OutputPixels(w) * spec.channels);
    for (std::size_t at = 0; at < expected.size(); ++at) {
      const std::size_t pixel = at / spec.channels, row = pixel / w.out_width;
      for (std::int64_t tap = 0; tap < w.kernel_h * std::int64_t{w.kernel_w}; ++tap) {
        const std::int64_t iy = static_cast<std::int64_t>(row % w.out_height * w.stride_h) +
                                tap / w.kernel_w * w.dilation_h - w.pad_top;
        const std::int64_t ix = static_cast<std::int64_t>(pixel % w.out_width * w.stride_w) +
                                tap % w.kernel_w - w.pad_left;
        if (iy < 0 || iy >= w.height || ix < 0 || ix >= w.width) continue;
        const std::int64_t from =
            (static_cast<std::int64_t>(row / w.out_height) * w.height + iy) * w.width + ix;
        expected[at] = std::max(
            expected[at], x[static_cast<std::size_t>(from) * spec.channels + at % spec.channels]);
      }
    }
    testing::TypedRun run(*MakeByteMaxPool(spec), {testing::ToBytes(x)}, {expected.size()});
    run.ExpectTiles();
    ASSERT_EQ(testing::FromBytes<std::uint8_t>(run.Run()[0]), expected) << i;
  }
  EXPECT_FALSE(MakeByteMaxPool({{}, 0}));
}

}  // namespace
}  // namespace lagoon

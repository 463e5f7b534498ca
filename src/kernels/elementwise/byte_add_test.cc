#include "kernels/elementwise/byte_add.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

std::vector<std::uint8_t> RandomBytes(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() >> 8);
  return bytes;
}

TEST(ByteAdd, EqualsAPlainLoop) {
  const ByteAddScales by{0.031F, 100, 0.017F, 3, 0.05F, 90, 20, 250};
  for (const std::size_t count : {1U, 15U, 16U, 100U, 100'003U}) {
    const std::vector<std::uint8_t> a = RandomBytes(count, 1), b = RandomBytes(count, 2);
    std::vector<std::uint8_t> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      const float left = (static_cast<float>(a[i]) - by.a_zero) * by.a_scale;
      const float right = (static_cast<float>(b[i]) - by.b_zero) * by.b_scale;
      const float level = std::nearbyint((left + right) / by.y_scale) + by.y_zero;
      expected[i] = static_cast<std::uint8_t>(std::clamp(level, by.y_low, by.y_high));
    }
    testing::TypedRun run(*MakeByteAdd(count),
                          {testing::ToBytes(a), testing::ToBytes(b),
                           testing::ToBytes(std::vector<ByteAddScales>{by})},
                          {count});
    run.ExpectTiles();
    ASSERT_EQ(testing::FromBytes<std::uint8_t>(run.Run()[0]), expected) << count;
  }
  EXPECT_FALSE(MakeByteAdd(0));
}

}  // namespace
}  // namespace lagoon

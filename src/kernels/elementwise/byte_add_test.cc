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

void ExpectAsAPlainLoop(const ByteAddScales& by) {
  for (const std::size_t count : {1U, 15U, 16U, 100U, 66'003U}) {
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
}

TEST(ByteAdd, EqualsAPlainLoop) {
  ExpectAsAPlainLoop({0.0312837F, 100, 0.0171913F, 3, 0.0507641F, 90, 20, 250});
  EXPECT_FALSE(MakeByteAdd(0));
}

// Where many levels are halves, or nearly so.
TEST(ByteAdd, RoundsHalvesToEven) {
  ExpectAsAPlainLoop({0.5F, 0, 0.5F, 0, 1, 0, 0, 255});
  ExpectAsAPlainLoop({0.031F, 100, 0.017F, 3, 0.05F, 90, 20, 250});
  ExpectAsAPlainLoop({0.3F, 17, 0.1F, 201, 0.2F, 11, 0, 255});
}

// Of scales so far apart that no level is known but by a division.
TEST(ByteAdd, TakesScalesOfAnySize) {
  ExpectAsAPlainLoop({1e-30F, 7, 1e-37F, 9, 3e-32F, 128, 0, 255});
  ExpectAsAPlainLoop({1e5F, 7, 1e-5F, 9, 1e-2F, 128, 0, 255});
  ExpectAsAPlainLoop({1e30F, 128, 1e30F, 128, 1e-30F, 128, 0, 255});
}

// A level is at most a few units in the last place from where the division puts it.
TEST(ByteAdd, RandomScalesGiveTheSameBytes) {
  std::minstd_rand random(5);
  const auto scale = [&] { return 1e-3F + static_cast<float>(random() % 100000) * 1e-6F; };
  for (int i = 0; i < 40; ++i) {
    const auto zero = [&] { return static_cast<float>(random() % 256); };
    ExpectAsAPlainLoop({scale(), zero(), scale(), zero(), scale(), zero(), 0, 255});
  }
}

}  // namespace
}  // namespace lagoon

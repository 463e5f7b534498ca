#include "bench/shares/timed_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cpu/cpu_device.h"

namespace lagoon::bench {
namespace {

TEST(TimeCopies, CopiesAllEachTimeAndTakesTheMedian) {
  const auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value()) << device.error().message;
  constexpr std::size_t kBytes = (std::size_t{3} << 16) + 5;
  const std::vector<std::byte> from(kBytes, std::byte{7});
  std::vector<std::byte> first(kBytes), second(kBytes);
  conformance::Record one(CopyBlocks(kBytes)), two(CopyBlocks(kBytes));
  const Copy copies[] = {
      {.to = first.data(), .from = from.data(), .bytes = kBytes, .progress = one.get()},
      {.to = second.data(), .from = from.data(), .bytes = kBytes, .progress = two.get()}};
  int resets = 0;
  const auto ms = TimeCopies(**device, copies, 3, [&] {
    ++resets;
    one->Reset();
    two->Reset();
    std::ranges::fill(first, std::byte{0});
  });
  ASSERT_TRUE(ms.has_value()) << ms.error().message;
  EXPECT_GT(*ms, 0);
  EXPECT_EQ(resets, 3);
  EXPECT_EQ(first, from);
  EXPECT_EQ(second, from);
}

}  // namespace
}  // namespace lagoon::bench

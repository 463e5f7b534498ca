#include "trace/ring.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(Ring, KeepsEverythingUntilItIsFull) {
  Ring<int> ring(3);
  EXPECT_EQ(ring.size(), 0u);
  for (int i = 0; i < 3; ++i) ring.Push(i);
  EXPECT_EQ(ring.size(), 3u);
  EXPECT_EQ(ring.lost(), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ring[static_cast<std::size_t>(i)], i);
}

TEST(Ring, ThenTheNewestAndCountsTheOthers) {
  Ring<int> ring(3);
  for (int i = 0; i < 8; ++i) ring.Push(i);
  EXPECT_EQ(ring.size(), 3u);
  EXPECT_EQ(ring.lost(), 5u);
  EXPECT_EQ(ring.pushed(), 8u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ring[static_cast<std::size_t>(i)], 5 + i);
}

}  // namespace
}  // namespace lagoon

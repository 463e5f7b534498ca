#include "bench/measure/for_each.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

namespace lagoon::bench {
namespace {

TEST(ForEach, CallsEveryTaskOnceInAnyNumberOfThreads) {
  for (const int threads : {1, 3, 100}) {
    std::array<std::atomic<int>, 20> calls{};
    const Status status = ForEach(calls.size(), threads, [&](std::size_t i) -> Status {
      ++calls[i];
      return {};
    });
    EXPECT_TRUE(status.has_value());
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count.load(), 1) << threads;
  }
}

TEST(ForEach, AnErrorEndsAll) {
  std::atomic<int> calls{0};
  const Status status = ForEach(1000, 1, [&](std::size_t i) -> Status {
    ++calls;
    if (i == 3) return Fail(ErrorCode::kInternal, "the fourth");
    return {};
  });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "the fourth");
  EXPECT_EQ(calls.load(), 4);
}

}  // namespace
}  // namespace lagoon::bench

#include "server/edge/buffer_pool.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BufferPool, ReusesABufferOfTheSameSizeClass) {
  const auto pool = BufferPool::Create(16 * kMiB);
  auto first = pool->Acquire(602112);
  const std::byte* address = first.get();
  first.reset();
  EXPECT_EQ(pool->Acquire(602000).get(), address);
}

TEST(BufferPool, DoesNotShareABufferThatIsInUse) {
  const auto pool = BufferPool::Create(16 * kMiB);
  const auto first = pool->Acquire(5000);
  const auto second = pool->Acquire(5000);
  EXPECT_NE(first.get(), second.get());
}

TEST(BufferPool, BuffersOutliveTheirPool) {
  auto pool = BufferPool::Create(kMiB);
  const auto buffer = pool->Acquire(100);
  pool.reset();
  buffer[99] = std::byte{7};
  EXPECT_EQ(buffer[99], std::byte{7});
}

}  // namespace
}  // namespace lagoon

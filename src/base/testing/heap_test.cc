#include "base/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace lagoon {
namespace {

// Faults of pages while ten blocks of 1 MiB are filled and freed, ten times.
long FaultsOfBlocks() {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int i = 0; i < 10; ++i) {
      blocks.emplace_back(new char[kBytes]);
      std::memset(blocks.back().get(), round, kBytes);
    }
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(Heap, KeepsFreedMemoryAndReturnsIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__) || \
    !defined(__GLIBC__)
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const long fresh = FaultsOfBlocks();
  KeepFreedMemory();
  FaultsOfBlocks();
  const long kept = FaultsOfBlocks();
  EXPECT_LT(kept, fresh / 4);
  ReturnFreedMemory();
  EXPECT_GT(FaultsOfBlocks(), kept);
}

TEST(MemoryReserve, HelpsOneAllocationThatFails) {
  MemoryReserve reserve(std::size_t{1} << 20);
  const std::new_handler without_memory = std::get_new_handler();  // what operator new calls
  without_memory();
  EXPECT_THROW(without_memory(), std::bad_alloc);
  EXPECT_FALSE(reserve.Keep());
  EXPECT_EQ(std::get_new_handler(), nullptr);
}

TEST(MemoryReserve, IsLeftAloneOnceItIsKept) {
  MemoryReserve reserve(std::size_t{1} << 20);
  EXPECT_TRUE(reserve.Keep());
  EXPECT_EQ(std::get_new_handler(), nullptr);
  reserve.GiveUp();
  EXPECT_FALSE(reserve.Keep());
}

TEST(MemoryReserve, IsRefusedWhereTheSystemHasNotThatMuch) {
  EXPECT_THROW(MemoryReserve(std::size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace lagoon

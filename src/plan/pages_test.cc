#include "plan/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lagoon {
namespace {

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
constexpr std::size_t kPages = 64;

class Pages : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const at =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = static_cast<std::byte*>(at);
    std::fill_n(memory_, kPages * kPage, std::byte{7});
  }
  void TearDown() override { munmap(memory_, kPages * kPage); }
  std::size_t Resident() const {
    std::vector<unsigned char> pages(kPages);
    EXPECT_EQ(mincore(memory_, kPages * kPage, pages.data()), 0);
    std::size_t resident = 0;
    for (const unsigned char page : pages) resident += page & 1;
    return resident;
  }
  // Whether exactly the bytes of [begin, end) are zero.
  bool OnlyZero(std::size_t begin, std::size_t end) const {
    for (std::size_t i = 0; i < kPages * kPage; ++i) {
      if ((memory_[i] == std::byte{0}) != (i >= begin && i < end)) return false;
    }
    return true;
  }

  std::byte* memory_ = nullptr;
};

TEST_F(Pages, GivesBackTheWholePagesOfARange) {
  ASSERT_EQ(Resident(), kPages);
  ReleaseToZero(memory_ + 3, 10 * kPage);  // nine whole pages, and parts of two
  EXPECT_EQ(Resident(), kPages - 9);
  EXPECT_TRUE(OnlyZero(3, 3 + 10 * kPage));
}

TEST_F(Pages, ZeroesRangesWithoutAWholePage) {
  ReleaseToZero(memory_ + 5, 0);
  EXPECT_TRUE(OnlyZero(0, 0));
  ReleaseToZero(memory_ + 5, 100);
  EXPECT_TRUE(OnlyZero(5, 105));
  ReleaseToZero(memory_ + kPage - 5, 10);
  EXPECT_EQ(memory_[kPage - 5], std::byte{0});
  EXPECT_EQ(memory_[kPage + 4], std::byte{0});
  EXPECT_EQ(memory_[kPage + 5], std::byte{7});
  EXPECT_EQ(Resident(), kPages);
}

TEST_F(Pages, ZeroesLockedPages) {
  if (mlock(memory_, 4 * kPage) != 0) GTEST_SKIP() << "this user may not lock memory";
  ReleaseToZero(memory_, 4 * kPage);
  EXPECT_TRUE(OnlyZero(0, 4 * kPage));
  munlock(memory_, 4 * kPage);
}

}  // namespace
}  // namespace lagoon

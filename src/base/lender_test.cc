#include "base/lender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

namespace lagoon {
namespace {

TEST(Lender, LendsNothingBeforeLendAndAfterWithdraw) {
  Lender<int> lender;
  EXPECT_FALSE(lender.Borrow());
  EXPECT_EQ(lender.TakeBack(), nullptr);
  lender.Lend(std::make_unique<int>(7));
  {
    const auto lease = lender.Borrow();
    ASSERT_TRUE(lease);
    EXPECT_EQ(*lease, 7);
    EXPECT_EQ(lender.Withdraw(), &*lease);
    EXPECT_FALSE(lender.Borrow());
    EXPECT_EQ(*lease, 7);  // the lease goes on
  }
  const std::unique_ptr<int> back = lender.TakeBack();
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(*back, 7);
}

TEST(Lender, AMovedLeaseEndsOnce) {
  Lender<int> lender;
  lender.Lend(std::make_unique<int>(7));
  auto first = lender.Borrow();
  const auto other = lender.Borrow();
  {
    const auto second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): a moved lease is empty
    EXPECT_TRUE(second);
  }
  EXPECT_EQ(*other, 7);
}

/// Counts the threads inside, and notes whether one was inside at destruction.
struct Watched {
  explicit Watched(std::atomic<int>& users_at_end) : at_end(users_at_end) {}
  ~Watched() { at_end.fetch_add(users.load()); }
  std::atomic<int>& at_end;
  std::atomic<int> users{0};
};

TEST(Lender, TakesBackOnlyWhenTheLastLeaseHasEnded) {
  std::atomic<int> users_at_end{0};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> borrowed{0};
  Lender<Watched> lender;
  std::vector<std::jthread> users;
  for (int i = 0; i < 2; ++i) {
    users.emplace_back([&] {
      while (!stop) {
        const auto lease = lender.Borrow();
        if (!lease) {
          std::this_thread::yield();
          continue;
        }
        lease->users.fetch_add(1);
        borrowed.fetch_add(1);
        std::this_thread::yield();
        lease->users.fetch_sub(1);
      }
    });
  }
  constexpr int kObjects = 30;
  for (int i = 0; i < kObjects; ++i) {
    lender.Lend(std::make_unique<Watched>(users_at_end));
    const std::uint64_t before = borrowed;
    while (borrowed == before) std::this_thread::yield();  // each object is in use
    lender.TakeBack();
  }
  stop = true;
  users.clear();
  EXPECT_EQ(users_at_end, 0);
}

TEST(Lender, TheThreadThatTakesBackSleepsUntilTheLeaseEnds) {
  Lender<int> lender;
  lender.Lend(std::make_unique<int>(7));
  std::optional<Lender<int>::Lease> lease(lender.Borrow());
  std::atomic<bool> ended{false};
  bool ended_before = false;
  {
    const std::jthread owner([&] {
      const std::unique_ptr<int> back = lender.TakeBack();
      ended_before = ended;
    });
    while (lender.Borrow()) std::this_thread::yield();  // until it is withdrawn
    ended = true;
    lease.reset();
  }
  EXPECT_TRUE(ended_before);
}

TEST(Lender, TheDestructorWaitsToo) {
  std::atomic<int> users_at_end{0};
  std::atomic<bool> withdrawn{false};
  std::latch borrowed(1);
  std::jthread user;
  {
    Lender<Watched> lender;
    lender.Lend(std::make_unique<Watched>(users_at_end));
    user = std::jthread([&] {
      const auto lease = lender.Borrow();
      lease->users = 1;
      borrowed.count_down();
      while (!withdrawn) std::this_thread::yield();
      lease->users = 0;
    });
    borrowed.wait();
    lender.Withdraw();
    withdrawn = true;
  }
  EXPECT_EQ(users_at_end, 0);
}

}  // namespace
}  // namespace lagoon

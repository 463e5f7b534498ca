#include "server/memory_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace lagoon {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

class CountingHolder final : public MemoryHolder {
 public:
  void OnRevoked() override { ++revoked; }
  int revoked = 0;
};

// 16 MiB in all, of which 64 holders have 64 KiB each. 12 MiB are shared; large charges may take 9
// MiB of them.
class MemoryBudgetTest : public testing::Test {
 protected:
  std::unique_ptr<MemoryCharge> Charge(std::size_t bytes) {
    auto charge = std::make_unique<MemoryCharge>(budget_, holder_, now_);
    return charge->Grow(bytes, now_) ? std::move(charge) : nullptr;
  }
  void Pass(std::chrono::milliseconds time) { now_ += time; }

  std::shared_ptr<MemoryBudget> budget_ =
      std::make_shared<MemoryBudget>(MemoryBudget::Limits{16 * kMiB, 64});
  std::shared_ptr<CountingHolder> holder_ = std::make_shared<CountingHolder>();
  TimePoint now_{std::chrono::seconds(100)};
};

TEST_F(MemoryBudgetTest, AChargeGivesItsBytesBack) {
  auto charge = Charge(kMiB);
  ASSERT_NE(charge, nullptr);
  EXPECT_EQ(budget_->SharedBytesUsed(), kMiB - 64 * kKiB);
  charge.reset();
  EXPECT_EQ(budget_->SharedBytesUsed(), 0u);
}

TEST_F(MemoryBudgetTest, SmallChargesFindRoomWhenTheSharedPartIsFull) {
  std::vector<std::unique_ptr<MemoryCharge>> all;
  for (auto charge = Charge(kMiB); charge != nullptr; charge = Charge(kMiB)) {
    all.push_back(std::move(charge));
  }
  EXPECT_EQ(Charge(65 * kKiB + 12 * kMiB), nullptr);
  while (all.size() < 64) {
    all.push_back(Charge(64 * kKiB));
    ASSERT_NE(all.back(), nullptr);
  }
  EXPECT_LE(budget_->SharedBytesUsed() + 64 * budget_->OwnBytes(), 16 * kMiB);
}

TEST_F(MemoryBudgetTest, LargeChargesLeaveAQuarterToOthers) {
  std::vector<std::unique_ptr<MemoryCharge>> large;
  for (auto charge = Charge(2 * kMiB); charge != nullptr; charge = Charge(2 * kMiB)) {
    large.push_back(std::move(charge));
  }
  EXPECT_EQ(large.size(), 4u);
  EXPECT_LE(budget_->SharedBytesUsed(), 9 * kMiB);
  EXPECT_NE(Charge(kMiB), nullptr);
}

TEST_F(MemoryBudgetTest, WhatCanNeverFitIsAnotherErrorThanWhatDoesNotFitNow) {
  const std::size_t most = budget_->MostBytes();
  EXPECT_EQ(most, 9 * kMiB + 64 * kKiB);
  EXPECT_EQ(Charge(most + 1), nullptr);
  const auto charge = Charge(most);
  ASSERT_NE(charge, nullptr);
  EXPECT_EQ(charge->NoRoom(most).code, ErrorCode::kUnavailable);
  const Error never = charge->NoRoom(most + 1);
  EXPECT_EQ(never.code, ErrorCode::kResourceExhausted);
  EXPECT_NE(never.message.find("an answer of 9502721 bytes is larger than the 9502720 bytes"),
            std::string::npos)
      << never.message;
}

TEST_F(MemoryBudgetTest, AnAnswerThatNeverFitsBesideItsRequestIsTooLarge) {
  const auto request = Charge(6 * kMiB);
  ASSERT_NE(request, nullptr);
  MemoryCharge answer(budget_, holder_, now_);
  EXPECT_FALSE(answer.Hold(4 * kMiB, now_));
  const Error never = answer.NoRoom(4 * kMiB);
  EXPECT_EQ(never.code, ErrorCode::kResourceExhausted);
  EXPECT_NE(never.message.find("beside the 6225920 bytes of its request"), std::string::npos)
      << never.message;
  EXPECT_EQ(answer.NoRoom(3 * kMiB).code, ErrorCode::kUnavailable);
  EXPECT_EQ(answer.NoRoom(kMiB).code, ErrorCode::kUnavailable);
  // Of another holder, or of several requests, which end one by one.
  MemoryCharge other(budget_, std::make_shared<CountingHolder>(), now_);
  EXPECT_EQ(other.NoRoom(4 * kMiB).code, ErrorCode::kUnavailable);
  const auto second = Charge(kMiB);
  EXPECT_EQ(answer.NoRoom(4 * kMiB).code, ErrorCode::kUnavailable);
}

TEST_F(MemoryBudgetTest, ASlowChargeGivesWayToAnother) {
  const auto slow = Charge(9 * kMiB);
  ASSERT_NE(slow, nullptr);
  Pass(MemoryBudget::kGrace / 2);
  EXPECT_EQ(Charge(2 * kMiB), nullptr) << "a charge that is not slow stays";
  Pass(std::chrono::seconds(1));
  EXPECT_NE(Charge(2 * kMiB), nullptr);
  EXPECT_TRUE(slow->revoked());
  EXPECT_FALSE(slow->Grow(10 * kMiB, now_));
  EXPECT_FALSE(slow->Pin());
  EXPECT_EQ(holder_->revoked, 1);
}

TEST_F(MemoryBudgetTest, TheChargeThatCostTheMostGivesWayFirst) {
  const auto small_and_old = Charge(kMiB);
  Pass(std::chrono::seconds(1));
  const auto large = Charge(6 * kMiB);
  Pass(std::chrono::seconds(1));
  const auto wants = Charge(4 * kMiB);
  EXPECT_NE(wants, nullptr);
  EXPECT_TRUE(large->revoked());
  EXPECT_FALSE(small_and_old->revoked());
}

TEST_F(MemoryBudgetTest, APinnedChargeStays) {
  const auto pinned = Charge(9 * kMiB);
  ASSERT_TRUE(pinned->Pin());
  Pass(std::chrono::seconds(100));
  EXPECT_EQ(Charge(2 * kMiB), nullptr);
  EXPECT_FALSE(pinned->revoked());
}

TEST_F(MemoryBudgetTest, MemoryOfAComputationIsHeldAndCountsAnewAsAnAnswer) {
  MemoryCharge charge(budget_, holder_, now_);
  ASSERT_TRUE(charge.Hold(4 * kMiB, now_));
  ASSERT_TRUE(charge.Hold(8 * kMiB, now_)) << "a second part of the outputs";
  EXPECT_EQ(budget_->SharedBytesUsed(), 8 * kMiB - 64 * kKiB);
  Pass(std::chrono::seconds(100));
  EXPECT_EQ(Charge(4 * kMiB), nullptr);
  EXPECT_FALSE(charge.revoked());
  ASSERT_TRUE(charge.Renew(6 * kMiB, now_));
  EXPECT_EQ(budget_->SharedBytesUsed(), 6 * kMiB - 64 * kKiB);
  EXPECT_EQ(Charge(4 * kMiB), nullptr) << "its client has had no time yet";
  Pass(std::chrono::seconds(100));
  EXPECT_NE(Charge(4 * kMiB), nullptr);
  EXPECT_TRUE(charge.revoked());
  MemoryCharge other(budget_, holder_, now_);
  ASSERT_TRUE(other.Hold(4 * kMiB, now_));
  ASSERT_TRUE(other.Renew(kKiB, now_));
  EXPECT_EQ(budget_->SharedBytesUsed(), 0u);
}

TEST_F(MemoryBudgetTest, NothingIsRevokedInVain) {
  const auto pinned = Charge(8 * kMiB);
  ASSERT_TRUE(pinned->Pin());
  const auto slow = Charge(kMiB);
  Pass(std::chrono::seconds(100));
  EXPECT_EQ(Charge(3 * kMiB), nullptr);
  EXPECT_FALSE(slow->revoked());
}

TEST_F(MemoryBudgetTest, TheSlowestCannotGrowAtTheCostOfOthers) {
  const auto slow = Charge(8 * kMiB);
  Pass(std::chrono::seconds(10));
  const auto other = Charge(kMiB);
  Pass(std::chrono::seconds(1));
  EXPECT_FALSE(slow->Grow(10 * kMiB, now_));
  EXPECT_FALSE(slow->revoked());
  EXPECT_FALSE(other->revoked());
}

TEST_F(MemoryBudgetTest, ManyHoldersShareHalfOfTheTotal) {
  const MemoryBudget tiny({8192, 4});
  EXPECT_EQ(tiny.OwnBytes(), 1024u);
  EXPECT_EQ(tiny.SharedBytes(), 4096u);
}

TEST_F(MemoryBudgetTest, AHolderThatIsGoneIsNoTrouble) {
  const auto slow = Charge(9 * kMiB);
  holder_.reset();
  Pass(std::chrono::seconds(1));
  EXPECT_NE(Charge(2 * kMiB), nullptr);
}

}  // namespace
}  // namespace lagoon

#include "server/channel/channel_region.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace lagoon {
namespace {

using channel::kSlots;
using Taken = ChannelRegion::Taken;
using testing::HasSubstr;

class Region : public testing::Test {
 protected:
  void SetUp() override { region_ = *ChannelRegion::Make(1); }

  channel::Head& head() const {
    return *reinterpret_cast<channel::Head*>(region_->data().data() - channel::kDataAt);
  }
  /// As a client does it.
  void Push(std::uint64_t tag, channel::Kind kind = channel::Kind::kInfer) {
    channel::Submission entry{};
    entry.tag = tag;
    entry.kind = kind;
    const std::uint32_t number = head().submitted.load();
    std::memcpy(region_->data().data() - channel::kDataAt + channel::kSubmissionsAt +
                    (number % kSlots) * sizeof(entry),
                &entry, sizeof(entry));
    head().submitted.store(number + 1);
  }
  /// All slots are in flight.
  void Fill() {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      Push(i);
      ASSERT_EQ(region_->Take(entry_), Taken::kOne);
      region_->Begin();
    }
  }
  void Answer() {
    const channel::Completion entry{};
    region_->Complete(entry, offsetof(channel::Completion, output));
  }

  std::unique_ptr<ChannelRegion> region_;
  channel::Submission entry_{};
};

TEST_F(Region, HasWholePagesAndCannotShrink) {
  EXPECT_EQ(region_->data().size(), 4096u);
  EXPECT_NE(::ftruncate(region_->memory(), 1), 0);
  EXPECT_NE(::ftruncate(region_->memory(), 1 << 30), 0);
  EXPECT_NE(::fcntl(region_->memory(), F_ADD_SEALS, F_SEAL_WRITE), 0);  // the seals are sealed
}

TEST_F(Region, OfAnImpossibleSizeIsRefusedWithTheValues) {
  EXPECT_EQ(ChannelRegion::Make(0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ChannelRegion::Make(ChannelRegion::kMostBytes + 1).error().message,
              HasSubstr("1073741825"));
}

TEST_F(Region, GivesSubmissionsInOrderAndOnce) {
  EXPECT_EQ(region_->Take(entry_), Taken::kNone);
  for (std::uint64_t tag = 1; tag <= 3; ++tag) Push(tag);
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    ASSERT_EQ(region_->Take(entry_), Taken::kOne);
    EXPECT_EQ(entry_.tag, tag);
  }
  EXPECT_EQ(region_->Take(entry_), Taken::kNone);
  EXPECT_EQ(head().taken.load(), 3u);
}

TEST_F(Region, TakesNothingWhileAllSlotsAreInFlightOrNotRead) {
  Fill();
  Push(99);
  EXPECT_EQ(region_->Take(entry_), Taken::kNone);
  EXPECT_TRUE(region_->Sleep());  // no busy core for a client that reads nothing
  Answer();
  EXPECT_EQ(region_->Take(entry_), Taken::kNone);  // answered and not read
  head().read.store(1);
  ASSERT_EQ(region_->Take(entry_), Taken::kOne);
  EXPECT_EQ(entry_.tag, 99u);
}

TEST_F(Region, TakesCancellationsWhileAllSlotsAreInFlight) {
  Fill();
  Push(7, channel::Kind::kCancel);
  EXPECT_FALSE(region_->Sleep());
  ASSERT_EQ(region_->Take(entry_), Taken::kOne);
  EXPECT_EQ(entry_.tag, 7u);
  EXPECT_EQ(entry_.kind, channel::Kind::kCancel);
  EXPECT_TRUE(region_->Sleep());
}

TEST_F(Region, ARequestBehindAnAnswerThatWasReadFindsItsSlot) {
  Fill();
  std::jthread answers([&] {
    for (int i = 0; i < 5'000; ++i) {
      while (region_->in_flight() < kSlots) std::this_thread::yield();
      Answer();
    }
  });
  for (std::uint32_t read = 0; read < 5'000;) {
    if (head().completed.load() == read) continue;
    head().read.store(++read);
    Push(read);
    ASSERT_FALSE(region_->Sleep()) << read;
    ASSERT_EQ(region_->Take(entry_), Taken::kOne) << read;
    region_->Begin();
  }
}

TEST_F(Region, ImpossibleCountersAreALie) {
  head().submitted.store(kSlots + 1);
  EXPECT_EQ(region_->Take(entry_), Taken::kLie);
  EXPECT_FALSE(region_->Sleep());
  head().submitted.store(1);
  head().read.store(1);  // more than was completed
  EXPECT_EQ(region_->Take(entry_), Taken::kLie);
  EXPECT_FALSE(region_->Sleep());
}

TEST_F(Region, SlotsAreUsedAgain) {
  for (std::uint32_t i = 0; i < 3 * kSlots; ++i) {
    Push(i);
    ASSERT_EQ(region_->Take(entry_), Taken::kOne);
    EXPECT_EQ(entry_.tag, i);
    region_->Begin();
    Answer();
    head().read.store(i + 1);
  }
  EXPECT_EQ(head().completed.load(), 3 * kSlots);
  EXPECT_EQ(region_->in_flight(), 0u);
}

TEST_F(Region, DoesNotSleepBesideASubmission) {
  EXPECT_TRUE(region_->Sleep());
  EXPECT_EQ(head().server_sleeps.load(), 1u);
  region_->Awake();
  EXPECT_EQ(head().server_sleeps.load(), 0u);
  Push(1);
  EXPECT_FALSE(region_->Sleep());
}

TEST_F(Region, TellsOfAnswersThatAreAlmostThere) {
  const std::uint32_t bell = head().bell.load();
  region_->TellAlmostFinished();
  EXPECT_EQ(head().almost.load(), 1u);
  EXPECT_NE(head().bell.load(), bell);
  EXPECT_EQ(head().completed.load(), 0u);
}

}  // namespace
}  // namespace lagoon

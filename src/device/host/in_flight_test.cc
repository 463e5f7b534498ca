#include "device/host/in_flight.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/conformance/suite.h"
#include "device/host/event_ring.h"

namespace lagoon {
namespace {

using conformance::Record;

struct Slot : InFlight {};

class InFlightSlotsTest : public ::testing::Test {
 protected:
  Slot* Take(std::uint64_t id, StreamId stream = kUnordered) {
    return slots_.Take(Launch{.progress = record_.get()}.As(LaunchId{id}, stream, 7), events_);
  }
  Slot& Linked(std::uint64_t id, StreamId stream = kUnordered) {
    Slot& slot = *Take(id, stream);
    slots_.Link(slot);
    if (stream != kUnordered) slots_.LinkStream(slot);
    return slot;
  }
  std::vector<std::uint64_t> Live() const {
    std::vector<std::uint64_t> ids;
    for (std::uint32_t i = slots_.oldest(); i != kNoIndex; i = slots_[i].live_after) {
      ids.push_back(Raw(slots_[i].id));
    }
    return ids;
  }

  Record record_{4};
  InFlightSlots<Slot> slots_{3, 2};
  EventRing events_{16};
};

TEST_F(InFlightSlotsTest, ASlotHoldsWhatWasAsked) {
  Record before(2);
  const Dep dep = before.AllDone();
  GuardWords words(1);
  const GuardId guard = words.Create("test").value();
  const int args = 5;
  Launch launch{.id = LaunchId{9},
                .stream = StreamId{1},
                .rank = 3,
                .args = &args,
                .progress = record_.get(),
                .max_claimants = 2,
                .deps = {&dep, 1}};
  launch.guards[1] = {&words.word(guard), 4, true};
  const Slot* const slot = slots_.Take(launch, events_);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->id, LaunchId{9});
  EXPECT_EQ(slot->stream, StreamId{1});
  EXPECT_EQ(slot->rank, 3u);
  EXPECT_EQ(slot->args, &args);
  EXPECT_EQ(slot->progress, record_.get());
  EXPECT_EQ(slot->max_claimants, 2u);
  EXPECT_EQ(slot->deps.data(), &dep);
  EXPECT_EQ(slot->guards[1].limit, 4u);
  EXPECT_FALSE(slot->is_copy);
}

TEST_F(InFlightSlotsTest, ACopyChecksItsGuardsOnlyBeforeItStarts) {
  GuardWords words(1);
  const GuardId guard = words.Create("test").value();
  Record chunk(1);
  Copy copy{.bytes = 8, .progress = chunk.get()};
  copy.guards[0] = {&words.word(guard), 0};
  Slot* const slot = slots_.Take(copy, events_);
  ASSERT_NE(slot, nullptr);
  EXPECT_TRUE(slot->is_copy);
  EXPECT_FALSE(slot->Left());
  words.Set(guard, 1);
  EXPECT_TRUE(slot->Left());
  slot->started = true;
  EXPECT_FALSE(slot->Left());
}

TEST_F(InFlightSlotsTest, TheOrderOfSubmissionOutlivesAnyFree) {
  Linked(1);
  Slot& second = Linked(2);
  Slot& third = Linked(3);
  EXPECT_LT(second.sequence, third.sequence);
  EXPECT_EQ(Take(4), nullptr) << "no slot is left";
  slots_.Free(second, events_);
  EXPECT_EQ(Live(), (std::vector<std::uint64_t>{1, 3}));
  Linked(4);
  EXPECT_EQ(Live(), (std::vector<std::uint64_t>{1, 3, 4}));
  EXPECT_EQ(slots_.live(), 3u);
  EXPECT_EQ(slots_.newest(), slots_.IndexOf(second)) << "the slot is used again";
}

TEST_F(InFlightSlotsTest, AStreamMovesOnWhenItsFirstLaunchLeavesIt) {
  const StreamId stream{2};
  Slot& first = Linked(1, stream);
  Slot& second = Linked(2, stream);
  Slot& third = Linked(3, stream);
  EXPECT_EQ(slots_.UnlinkStream(second), kNoIndex) << "the first launch is still there";
  EXPECT_EQ(slots_.UnlinkStream(first), slots_.IndexOf(third));
  EXPECT_EQ(slots_.UnlinkStream(third), kNoIndex) << "the stream is empty";
  slots_.Free(first, events_);
  Slot& next = *Take(4, stream);
  EXPECT_TRUE(slots_.LinkStream(next));
}

TEST_F(InFlightSlotsTest, EventsThatDoNotComeGiveTheirRoomBack) {
  // 16 credits are room for five launches.
  for (int round = 0; round < 20; ++round) {
    Slot& slot = Linked(1);
    slots_.UseCredit(slot);
    events_.Push({DeviceEvent::Kind::kRetired, slot.id, {}});
    slots_.Free(slot, events_);
    DeviceEvent event;
    EXPECT_EQ(events_.Pop({&event, 1}), 1u);
  }
  EXPECT_TRUE(events_.Reserve(16));
  EXPECT_EQ(Take(1), nullptr) << "no room for its events";
  events_.Release(16);
  EXPECT_NE(Take(1), nullptr);
}

TEST_F(InFlightSlotsTest, OnlyPartialCountsAreWatched) {
  GuardWords words(1);
  const GuardId guard = words.Create("test").value();
  Record on(3);
  const Dep whole = on.AllDone(), part{on.get(), 2};
  Launch launch{.progress = record_.get()};
  const auto watches = [&] {
    Slot& slot = *slots_.Take(launch, events_);
    const bool found = slot.WatchesCount(words);
    slots_.Free(slot, events_);
    return found;
  };
  launch.guards[0] = {&words.word(guard), 1};
  launch.deps = {&whole, 1};
  EXPECT_FALSE(watches());
  launch.deps = {&part, 1};
  EXPECT_TRUE(watches());
  launch.deps = {};
  launch.guards[1] = {&on->done_word(), 1};
  EXPECT_TRUE(watches());
}

TEST(GuardWords, GrowOnlyAndWrapAround) {
  GuardWords words(1);
  const GuardId guard = words.Create("test").value();
  EXPECT_FALSE(words.IsLater(guard, 0));
  EXPECT_TRUE(words.IsLater(guard, 1));
  words.Set(guard, 0xfffffff0);
  EXPECT_TRUE(words.IsLater(guard, 3));
  EXPECT_FALSE(words.IsLater(guard, 0xffffffef));
  const Result<GuardId> more = words.Create("test");
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().message, "device 'test': all 1 guards are in use");
}

}  // namespace
}  // namespace lagoon

#include "sim/device/timer_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace lagoon {
namespace {

TimePoint At(int ns) { return TimePoint(Nanoseconds(ns)); }

TEST(TimerHeap, EqualTimesComeInTheOrderInWhichTheyWereSet) {
  TimerHeap heap(4);
  EXPECT_EQ(heap.next(), kNoDeadline);
  for (const std::uint32_t id : {2u, 0u, 3u, 1u}) heap.Set(id, At(7));
  EXPECT_EQ(heap.next(), At(7));
  heap.Set(0, At(7));  // again: now the last one
  for (const std::uint32_t id : {2u, 3u, 1u, 0u}) EXPECT_EQ(heap.Pop(), id);
  EXPECT_TRUE(heap.empty());
}

// Against an ordered set of (time, order of setting, id).
TEST(TimerHeap, AgreesWithASortedSetUnderRandomUse) {
  constexpr std::uint32_t kIds = 50;
  TimerHeap heap(kIds);
  std::set<std::tuple<TimePoint, int, std::uint32_t>> expected;
  std::map<std::uint32_t, std::tuple<TimePoint, int, std::uint32_t>> of;
  std::mt19937 random(5);
  int pops = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint32_t id = random() % kIds;
    const auto choice = random() % 8;
    if (choice < 5) {
      const auto entry = std::make_tuple(At(static_cast<int>(random() % 100)), step, id);
      if (of.contains(id)) expected.erase(of[id]);
      expected.insert(of[id] = entry);
      heap.Set(id, std::get<0>(entry));
    } else if (choice < 6) {
      if (of.contains(id)) expected.erase(of[id]);
      of.erase(id);
      heap.Drop(id);
    } else if (!expected.empty()) {
      ++pops;
      const std::uint32_t first = std::get<2>(*expected.begin());
      expected.erase(expected.begin());
      of.erase(first);
      ASSERT_EQ(heap.Pop(), first);
    }
    ASSERT_EQ(heap.next(), expected.empty() ? kNoDeadline : std::get<0>(*expected.begin()));
    ASSERT_EQ(heap.IsSet(id), of.contains(id));
  }
  EXPECT_GT(pops, 1000);
}

}  // namespace
}  // namespace lagoon

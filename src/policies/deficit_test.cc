#include "policies/deficit.h"

#include <gtest/gtest.h>

#include <vector>

namespace lagoon {
namespace {

constexpr ClientId kA{0}, kB{1}, kC{2};

std::vector<ClientId> Above(const DeficitCounters& counters, double threshold) {
  std::vector<ClientId> clients;
  counters.FirstAbove(threshold, [&](ClientId id) -> const int* {
    clients.push_back(id);
    return nullptr;
  });
  return clients;
}

TEST(DeficitCounters, AKernelMovesShareFromItsClientToTheOthers) {
  DeficitCounters counters;
  for (const ClientId client : {kA, kB, kC}) counters.OnArrival(client);
  counters.OnServed(kA, 3);
  EXPECT_DOUBLE_EQ(counters.deficit(kA), -3 * (1 - 1.0 / 3));
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 1);
  EXPECT_DOUBLE_EQ(counters.deficit(kC), 1);
  counters.OnServed(kB, 3);
  EXPECT_DOUBLE_EQ(counters.deficit(kA), -1);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), -1);
  EXPECT_EQ(Above(counters, 1.5), std::vector{kC});
  EXPECT_EQ(Above(counters, -2), (std::vector{kC, kA, kB}));
}

TEST(DeficitCounters, RaisedKernelsCountOnce) {
  DeficitCounters counters;
  for (const ClientId client : {kA, kB, kC}) counters.OnArrival(client);
  counters.OnServed(kA, 3);
  counters.OnServed(kB, 4);
  counters.OnRaised(kB, 4);
  EXPECT_DOUBLE_EQ(counters.deficit(kA), -2);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 1);
  EXPECT_TRUE(counters.AnyAbove(0.9));
  EXPECT_FALSE(counters.AnyAbove(1));
}

TEST(DeficitCounters, WhoHasNoJobsSavesNothingUp) {
  DeficitCounters counters;
  counters.OnArrival(kA);
  counters.OnArrival(kB);
  counters.OnArrival(kB);
  counters.OnServed(kA, 10);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 5);
  counters.OnFinished(kB);  // one of two
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 5);
  counters.OnFinished(kB);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 0);
  counters.OnArrival(kB);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 0);
}

TEST(DeficitCounters, WhoComesBackSoonHasTheDeficitThatItLeftWith) {
  DeficitCounters counters(/*memory=*/8);
  counters.OnArrival(kA);
  counters.OnArrival(kB);
  counters.OnServed(kA, 10);
  counters.OnFinished(kB);
  counters.OnServed(kA, 7);  // alone: nobody falls behind
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 0);
  counters.OnArrival(kB);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 5);
  EXPECT_DOUBLE_EQ(counters.deficit(kA), -5);
  counters.OnFinished(kB);
  counters.OnServed(kA, 8);
  counters.OnArrival(kB);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 0);
}

TEST(DeficitCounters, KeepTheirDigitsOverAThousandMillionKernels) {
  DeficitCounters counters;
  counters.OnArrival(kA);
  counters.OnArrival(kB);
  for (int i = 0; i < 10; ++i) {
    counters.OnServed(kA, 500'000'000);
    counters.OnServed(kB, 500'000'000);
  }
  counters.OnServed(kA, 1);
  EXPECT_DOUBLE_EQ(counters.deficit(kA), -0.5);
  EXPECT_DOUBLE_EQ(counters.deficit(kB), 0.5);
}

}  // namespace
}  // namespace lagoon

#include "server/grpc/grpc_conduct.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lagoon {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr GrpcConduct::Limits kLimits{256, 64 * kMib, 512 * kMib};

// One connection, judged ten times a second.
class GrpcConductTest : public testing::Test {
 protected:
  bool Stays() {
    now_ += std::chrono::milliseconds(100);
    return conduct_.Judge(kLimits, traffic_, now_).empty();
  }

  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
  GrpcConduct conduct_{now_};
  GrpcTraffic traffic_;
};

TEST_F(GrpcConductTest, FastClientsStay) {
  for (int i = 0; i < 1000; ++i) {
    traffic_.started += 5000;  // 50,000 a second, of 600 KB
    traffic_.answered = traffic_.started - 256;
    traffic_.messages = traffic_.started - 3;
    traffic_.received += 3000 * kMib;
    traffic_.sent += kMib;
    ASSERT_TRUE(Stays()) << i;
  }
}

TEST_F(GrpcConductTest, ClientsThatGiveUpStay) {
  for (int i = 0; i < 1000; ++i) {
    traffic_.started += 200;  // 2,000 a second, none in time
    traffic_.messages = traffic_.failed = traffic_.started;
    traffic_.received += 10 * kMib;
    traffic_.sent += 1;
    ASSERT_TRUE(Stays()) << i;
  }
  traffic_.started += 3900;  // all calls of a client that ends
  traffic_.failed = traffic_.started;
  EXPECT_TRUE(Stays());
}

TEST_F(GrpcConductTest, ResetsInALoopAreCutWithinASecond) {
  int periods = 0;
  while (Stays() && periods < 10) {
    ++periods;
    traffic_.started += 2000;  // 20,000 a second
    traffic_.failed = traffic_.messages = traffic_.started;
    traffic_.received += kMib / 10;
    traffic_.sent += 100;
  }
  EXPECT_LT(periods, 5);
}

TEST_F(GrpcConductTest, MoreOpenCallsThanAllowedAreCut) {
  traffic_.started = 4 * 256;
  traffic_.received = kMib;
  EXPECT_TRUE(Stays()) << "a client that does not know the limit yet";
  ++traffic_.started;
  EXPECT_FALSE(Stays());
}

TEST_F(GrpcConductTest, AHeaderWithoutEndIsCut) {
  traffic_.started = 1;
  traffic_.received = 1000;
  traffic_.sent = 100;
  EXPECT_TRUE(Stays());
  traffic_.received += 23 * kMib;
  EXPECT_TRUE(Stays()) << "data for which the server has given leave";
  traffic_.received += 2 * kMib;
  EXPECT_FALSE(Stays());
}

TEST_F(GrpcConductTest, ALargeUploadStays) {
  traffic_.started = 1;
  while (traffic_.received < 64 * kMib) {
    traffic_.received += 4 * kMib;
    traffic_.sent += 13;  // a window update
    ASSERT_TRUE(Stays());
  }
  traffic_.received += 6 * kMib;  // the first 4 came before the call was seen
  traffic_.sent += 13;
  EXPECT_FALSE(Stays()) << "more than a message";
}

TEST_F(GrpcConductTest, FramesOfNoCallAreCut) {
  traffic_.received = kMib / 2;
  traffic_.sent = kMib / 2;  // answers to pings
  EXPECT_TRUE(Stays());
  traffic_.received += kMib;
  traffic_.sent += kMib;
  EXPECT_FALSE(Stays());
}

}  // namespace
}  // namespace lagoon

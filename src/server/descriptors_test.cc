#include "server/descriptors.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon {
namespace {

TEST(Descriptors, ConnectionsLeaveDescriptorsToOthers) {
  EXPECT_EQ(ConnectionsWithin(std::numeric_limits<std::size_t>::max(), 1024), 1024u);
  EXPECT_EQ(ConnectionsWithin(65536, 1024), 1024u);
  EXPECT_EQ(ConnectionsWithin(1024, 1024), 768u);
  EXPECT_EQ(ConnectionsWithin(100, 1024), 50u);
  EXPECT_EQ(ConnectionsWithin(1024, 3), 3u);
  EXPECT_EQ(ConnectionsWithin(0, 1024), 1u);
}

TEST(Descriptors, GrpcLeavesDescriptorsToOthers) {
  EXPECT_EQ(DescriptorsForGrpc(1024), 960u);
  EXPECT_EQ(DescriptorsForGrpc(80), 70u);
}

TEST(Descriptors, AReserveIsTakenAgainAfterItWasGiven) {
  SpareDescriptor spare;
  spare.Give();
  EXPECT_TRUE(spare.Take());
  EXPECT_GE(DescriptorLimit(), 1u);
}

}  // namespace
}  // namespace lagoon

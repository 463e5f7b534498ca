#include "server/descriptors.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <limits>

namespace lagoon {
namespace {

int OptionOf(int socket, int level, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(socket, level, option, &value, &size), 0);
  return value;
}

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

TEST(Descriptors, ACallOfTheSystemTakesLittleForAClientOnThisMachine) {
  namespace net = boost::asio;
  net::io_context context;
  net::ip::tcp::acceptor acceptor(context, {net::ip::address_v4::loopback(), 0});
  net::ip::tcp::socket client(context);
  client.connect(acceptor.local_endpoint());
  net::ip::tcp::socket server = acceptor.accept();
  PrepareConnection(server.native_handle());
  EXPECT_NE(OptionOf(server.native_handle(), IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_LE(OptionOf(server.native_handle(), SOL_SOCKET, SO_SNDBUF), 256 << 10);
}

}  // namespace
}  // namespace lagoon

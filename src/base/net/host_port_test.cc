#include "base/net/host_port.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lagoon {
namespace {

std::string Parts(std::string_view text, std::uint16_t port = 0) {
  const auto parsed = ParseHostPort(text, port);
  return parsed ? parsed->host + " " + std::to_string(parsed->port) : parsed.error().message;
}

TEST(HostPort, IsOneHostAndOnePort) {
  EXPECT_EQ(Parts("10.0.0.1:8001"), "10.0.0.1 8001");
  EXPECT_EQ(Parts("node-1.local:1"), "node-1.local 1");
  EXPECT_EQ(Parts("a_b:65535"), "a_b 65535");
  EXPECT_EQ(Parts("[::1]:8001"), "::1 8001");
  EXPECT_EQ(Parts("[fe80::1%eth0]:8001"), "fe80::1%eth0 8001");
  EXPECT_EQ(Parts(std::string(253, 'h') + ":7"), std::string(253, 'h') + " 7");
}

TEST(HostPort, OtherTextsSayWhatIsWrong) {
  using namespace std::string_literals;
  const std::string host = "its host is no name, no IPv4 address and no IPv6 address in brackets";
  const std::string port = "its port is no number from 1 to 65535";
  const std::string inside = "what it has in brackets is no IPv6 address";
  for (const auto& [text, why] :
       {std::pair{""s, "it has no host"s},
        {":7", "it has no host"},
        {"[]:7", "it has no host"},
        {"h", "it has no port"},
        {"[::1]", "it has no port"},
        {"h:", port},
        {"h:0", port},
        {"h:00", port},
        {"h:65536", port},
        {"h:-1", port},
        {"h:+7", port},
        {"h:7x", port},
        {"127.0.0.1:037721", port},
        {"h:1:2", host},
        {"h:7,h:8", host},
        {"[::1]8001", port},
        {"http://h:1", host},
        {"a b:7", host},
        {"user@h:7", host},
        {"h/path:7", host},
        {"h\n:7", host},
        {"h\0:7"s, host},
        {"::1:8001", host},
        {"[1]:7", inside},
        {"[::1 ]:7", inside},
        {"[::1:7", "it has '[' without ']'"},
        {std::string(254, 'h') + ":7", "its host is longer than 253 bytes"}}) {
    const auto parsed = ParseHostPort(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().message, why) << text;
  }
}

TEST(HostPort, IsWrittenAsItIsRead) {
  for (const std::string text : {"localhost:1", "10.0.0.7:8000", "[::1]:65535"}) {
    EXPECT_EQ(ToString(*ParseHostPort(text)), text);
  }
}

TEST(HostPort, APortMayBeLeftAwayWhereThereIsADefault) {
  EXPECT_EQ(Parts("localhost", 4318), "localhost 4318");
  EXPECT_EQ(Parts("[::1]", 4318), "::1 4318");
  EXPECT_EQ(Parts("localhost:1", 4318), "localhost 1");
  EXPECT_EQ(Parts("localhost:", 4318), "its port is no number from 1 to 65535");
}

}  // namespace
}  // namespace lagoon

#include "serving/fleet/join.h"

#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

TEST(CheckJoin, AnAddressIsOneHostAndOnePort) {
  for (const char* good :
       {"10.0.0.1:8001", "node-1.local:1", "a_b:65535", "[::1]:8001", "[fe80::1%eth0]:8001"}) {
    EXPECT_TRUE(CheckJoin({"a", good})) << good;
  }
  for (const char* bad :
       {"",        "h",        ":7",         "h:",      "h:0",    "h:65536",  "h:-1",
        "h:+7",    "h:7x",     "http://h:1", "dns:h:1", "a b:7",  "h:7,h:8",  "127.0.0.1:037721",
        "h:00",    "::1:8001", "[]:7",       "[1]:7",   "[::1:7", "h/path:7", "h\n:7",
        "user@h:7"}) {
    const Status status = CheckJoin({"a", bad});
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find("member 'a': the address"), std::string::npos);
  }
  EXPECT_FALSE(CheckJoin({"a", std::string(300, 'h') + ":7"}));
}

TEST(CheckJoin, ANameHasNoControlCharacters) {
  EXPECT_TRUE(CheckJoin({"n\xc3\xb6rdlich", "h:7"}));
  EXPECT_FALSE(CheckJoin({"", "h:7"}));
  EXPECT_FALSE(CheckJoin({"a\nb", "h:7"}));
  EXPECT_FALSE(CheckJoin({std::string(300, 'n'), "h:7"}));
}

}  // namespace
}  // namespace lagoon

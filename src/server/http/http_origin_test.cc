#include "server/http/http_origin.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lagoon {
namespace {

TEST(HttpHosts, AServerForOtherMachinesHasAnyNameUnlessSomeAreGiven) {
  EXPECT_TRUE(HostsFor("0.0.0.0", {}).Allows("lagoon.default.svc"));
  EXPECT_TRUE(HostsFor("::", {}).Allows("lagoon.default.svc"));
  EXPECT_FALSE(HostsFor("0.0.0.0", {"a.b"}).Allows("lagoon.default.svc"));
  EXPECT_FALSE(HostsFor("127.0.0.1", {}).Allows("lagoon.default.svc"));
  EXPECT_FALSE(HostsFor("::1", {}).Allows("lagoon.default.svc"));
  EXPECT_TRUE(HostsFor("127.0.0.1", {"*"}).Allows("lagoon.default.svc"));
  // But a browser may change a server under an address or a given name only.
  HttpRequestHeader header;
  header.set("Host", "rebound.example");
  header.set("Origin", "http://rebound.example");
  EXPECT_FALSE(RefuseForeign(header, HostsFor("0.0.0.0", {}), false));
  EXPECT_TRUE(RefuseForeign(header, HostsFor("0.0.0.0", {}), true));
}

TEST(HttpHosts, ANameIsOneThatClientsCanSend) {
  for (const char* name :
       {"a.b", "models.example", "xn--bcher-kva.example", "lagoon", "10.0.0.1"}) {
    EXPECT_TRUE(IsHostName(name)) << name;
  }
  for (const char* name : {"", "http://a.b", "a.b:8000", "*.a.b", "a b", "a.b.", ".a", "a..b",
                           "ä.b", "[::1]", "a,b.c"}) {
    EXPECT_FALSE(IsHostName(name)) << name;
  }
  EXPECT_FALSE(IsHostName(std::string(254, 'a')));
}

// The status of a refusal; 0: none.
unsigned Change(const HttpHosts& hosts, const std::string& host, const std::string& field,
                const std::string& value) {
  HttpRequestHeader header;
  header.set("Host", host);
  header.set(field, value);
  const auto refusal = RefuseForeign(header, hosts, true);
  return refusal ? refusal->status : 0;
}

TEST(RefuseForeign, ChangesAreForPagesOfTheServerItself) {
  const HttpHosts hosts = HostsFor("127.0.0.1", {"models.example"});
  EXPECT_EQ(Change(hosts, "127.0.0.1:8002", "Origin", "http://127.0.0.1:8002"), 0u);
  EXPECT_EQ(Change(hosts, "127.0.0.1:8002", "Origin", "http://127.0.0.1:8000"), 403u);
  EXPECT_EQ(Change(hosts, "127.0.0.1:8002", "Origin", "https://models.example:4"), 0u);
  for (const char* origin : {"http://evil.example", "null", "", "http://models.example.evil"}) {
    EXPECT_EQ(Change(hosts, "127.0.0.1:8002", "Origin", origin), 403u) << origin;
  }
  EXPECT_EQ(Change(hosts, "localhost", "Sec-Fetch-Site", "cross-site"), 403u);
  EXPECT_EQ(Change(hosts, "localhost", "Sec-Fetch-Site", "same-site"), 403u);
  EXPECT_EQ(Change(hosts, "localhost", "Sec-Fetch-Site", "same-origin"), 0u);
  EXPECT_EQ(Change(hosts, "localhost", "Sec-Fetch-Site", "none"), 0u);
}

TEST(RefuseForeign, ChangesAreNoForms) {
  const HttpHosts hosts = HostsFor("127.0.0.1", {});
  for (const char* type : {"text/plain", "TEXT/Plain ; charset=utf-8", "multipart/form-data"}) {
    EXPECT_EQ(Change(hosts, "a", "Content-Type", type), 415u) << type;
  }
  for (const char* type : {"application/json", "application/x-www-form-urlencoded", ""}) {
    EXPECT_EQ(Change(hosts, "a", "Content-Type", type), 0u) << type;
  }
}

TEST(RefuseForeign, NamesWithADotAreRefusedAtALoopbackAddress) {
  const HttpHosts hosts = HostsFor("127.0.0.1", {});
  for (const char* host : {"evil.example", "evil.example:80", "evil.example.", "1.2.3.4.evil"}) {
    EXPECT_FALSE(hosts.Allows(host)) << host;
  }
  for (const char* host : {"", "lagoon", "localhost.", "a.localhost:1", "1.2.3.4:80", "[::1]:80"}) {
    EXPECT_TRUE(hosts.Allows(host)) << host;
  }
}

}  // namespace
}  // namespace lagoon

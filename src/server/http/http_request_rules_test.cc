#include "server/http/http_request_rules.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace lagoon {
namespace {

using Fields = std::initializer_list<std::pair<const char*, const char*>>;

// The status of the refusal; 0: not refused.
unsigned StatusOf(Fields fields, unsigned version = 11) {
  HttpRequestHeader header;
  header.version(version);
  for (const auto& [name, value] : fields) header.insert(name, value);
  const auto refusal = RefuseHeader(header, std::nullopt, HttpLimits().max_body_bytes);
  return refusal ? refusal->status : 0;
}

TEST(HttpRequestRules, ExactlyOneHostInHttp11) {
  EXPECT_EQ(StatusOf({{"Host", "a"}}), 0u);
  EXPECT_EQ(StatusOf({{"Host", ""}}), 0u);
  EXPECT_EQ(StatusOf({}), 400u);
  EXPECT_EQ(StatusOf({{"Host", "a"}, {"Host", "a"}}), 400u);
  EXPECT_EQ(StatusOf({}, 10), 0u);
}

TEST(HttpRequestRules, ChunkedAloneIsAnEncodingOfTransfers) {
  EXPECT_EQ(StatusOf({{"Host", "a"}, {"Transfer-Encoding", "chunked"}}), 0u);
  EXPECT_EQ(StatusOf({{"Host", "a"}, {"transfer-encoding", "Chunked"}}), 0u);
  for (const char* value : {"gzip", "xchunked", "identity", "chunked, gzip", "gzip, chunked",
                            "chunked, chunked", "chunked;q=1", ""}) {
    EXPECT_EQ(StatusOf({{"Host", "a"}, {"Transfer-Encoding", value}}), 501u) << value;
  }
  for (const auto& [first, second] : {std::pair("gzip", "chunked"), std::pair("chunked", "gzip"),
                                      std::pair("chunked", "chunked")}) {
    EXPECT_EQ(
        StatusOf({{"Host", "a"}, {"Transfer-Encoding", first}, {"Transfer-Encoding", second}}),
        501u)
        << first << ", then " << second;
  }
  EXPECT_EQ(StatusOf({{"Host", "a"}, {"Transfer-Encoding", "chunked"}}, 10), 400u);
}

TEST(HttpRequestRules, FieldsThatReadersCouldDisagreeAboutComeOnce) {
  for (const char* name : {"Inference-Header-Content-Length", "Content-Encoding", "Expect"}) {
    EXPECT_EQ(StatusOf({{"Host", "a"}, {name, "1"}, {name, "2"}}), 400u) << name;
  }
}

TEST(HttpRequestRules, AnAbsoluteUriNamesAPath) {
  EXPECT_EQ(OriginForm("/v2?x=http://y/z"), "/v2?x=http://y/z");
  EXPECT_EQ(OriginForm("http://host:8000/v2/health/live?a"), "/v2/health/live?a");
  EXPECT_EQ(OriginForm("HTTPS://host/v2"), "/v2");
  EXPECT_EQ(OriginForm("http://host"), "/");
  EXPECT_EQ(OriginForm("*"), "*");
}

}  // namespace
}  // namespace lagoon

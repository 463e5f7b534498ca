#include "server/grpc/grpc_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace lagoon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;

GrpcHeadReader Call() {
  GrpcHeadReader head(TimePoint{} + hours(1));
  head.Add(":method", "POST");
  head.Add(":path", "/s/M");
  head.Add("content-type", "application/grpc+proto");
  return head;
}

TEST(GrpcTimeout, IsAtMostEightDigitsAndAUnit) {
  EXPECT_EQ(ParseGrpcTimeout("1H"), hours(1));
  EXPECT_EQ(ParseGrpcTimeout("2M"), std::chrono::minutes(2));
  EXPECT_EQ(ParseGrpcTimeout("30S"), std::chrono::seconds(30));
  EXPECT_EQ(ParseGrpcTimeout("150m"), milliseconds(150));
  EXPECT_EQ(ParseGrpcTimeout("99999999u"), std::chrono::microseconds(99'999'999));
  EXPECT_EQ(ParseGrpcTimeout("0n"), Nanoseconds(0));
  EXPECT_EQ(ParseGrpcTimeout("99999999H"), hours(24 * 365));  // would not fit
  for (const char* const bad : {"", "1", "S", "-1S", "+1S", "1.5S", "1x", "1 S", "123456789S"}) {
    EXPECT_FALSE(ParseGrpcTimeout(bad)) << bad;
  }
}

TEST(GrpcHead, KeepsWhatTheServerReads) {
  GrpcHeadReader head = Call();
  head.Add("grpc-timeout", "20m");
  head.Add("grpc-encoding", "gzip");
  head.Add("x-other", "y");
  head.Add("lagoon-tenant", "a");
  head.Add("lagoon-tenant", "b");
  head.Add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(head.End().ok());
  EXPECT_EQ(head.http_status(), 200);
  EXPECT_EQ(head.head().method, "/s/M");
  EXPECT_EQ(head.head().tenant, "a,b");
  EXPECT_TRUE(head.head().trace.any());
  EXPECT_EQ(head.head().deadline, TimePoint{} + hours(1) + milliseconds(20));
  EXPECT_EQ(head.coding(), GrpcHeadReader::Coding::kDeflated);
}

TEST(GrpcHead, TwoTracesAreNone) {
  GrpcHeadReader head = Call();
  for (int i = 0; i < 2; ++i) {
    head.Add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  }
  ASSERT_TRUE(head.End().ok());
  EXPECT_FALSE(head.head().trace.any());
  EXPECT_EQ(head.head().deadline, kNoDeadline);
}

TEST(GrpcHead, RefusesWhatItCannotRead) {
  GrpcHeadReader coded = Call();
  coded.Add("grpc-encoding", "snappy");
  const grpc::Status unknown = coded.End();
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(unknown.error_message(), HasSubstr("'snappy'; gzip, deflate and identity"));
  GrpcHeadReader timed = Call();
  timed.Add("grpc-timeout", "soon");
  EXPECT_EQ(timed.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(GrpcHead, OtherRequestsOfHttpAreNoCalls) {
  GrpcHeadReader get(TimePoint{});
  get.Add(":method", "GET");
  EXPECT_EQ(get.http_status(), 405);
  for (const char* const type : {"application/json", "application/grpc-web", ""}) {
    GrpcHeadReader post(TimePoint{});
    post.Add(":method", "POST");
    post.Add("content-type", type);
    EXPECT_EQ(post.http_status(), 415) << type;
  }
}

TEST(GrpcMessageField, IsPercentEncoded) {
  EXPECT_EQ(PercentEncoded("input 'x': 100% of it"), "input 'x': 100%25 of it");
  EXPECT_EQ(PercentEncoded("line\n\xc3\xa9"), "line%0A%C3%A9");
}

}  // namespace
}  // namespace lagoon

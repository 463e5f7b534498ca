#include "server/error_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lagoon {
namespace {

TEST(ErrorMap, EveryCodeHasOneHttpStatusAndOneGrpcCode) {
  const struct {
    ErrorCode code;
    unsigned http;
    grpc::StatusCode grpc;
  } expected[] = {
      {ErrorCode::kInvalidArgument, 400, grpc::StatusCode::INVALID_ARGUMENT},
      {ErrorCode::kNotFound, 404, grpc::StatusCode::NOT_FOUND},
      {ErrorCode::kAlreadyExists, 409, grpc::StatusCode::ALREADY_EXISTS},
      {ErrorCode::kUnimplemented, 501, grpc::StatusCode::UNIMPLEMENTED},
      {ErrorCode::kResourceExhausted, 413, grpc::StatusCode::RESOURCE_EXHAUSTED},
      {ErrorCode::kDeadlineExceeded, 504, grpc::StatusCode::DEADLINE_EXCEEDED},
      {ErrorCode::kCancelled, 499, grpc::StatusCode::CANCELLED},
      {ErrorCode::kUnavailable, 503, grpc::StatusCode::UNAVAILABLE},
      {ErrorCode::kInternal, 500, grpc::StatusCode::INTERNAL},
  };
  for (const auto& row : expected) {
    EXPECT_EQ(HttpStatus(row.code), row.http) << Name(row.code);
    EXPECT_EQ(GrpcCode(row.code), row.grpc) << Name(row.code);
    EXPECT_EQ(ErrorCodeOf(row.grpc), row.code) << Name(row.code);
  }
}

TEST(ErrorMap, ACodeThatLagoonDoesNotSendIsAnInternalError) {
  EXPECT_EQ(ErrorCodeOf(grpc::StatusCode::UNKNOWN), ErrorCode::kInternal);
  EXPECT_EQ(ErrorCodeOf(grpc::StatusCode::ABORTED), ErrorCode::kInternal);
}

TEST(ErrorMap, BodyIsJsonWhateverTheMessageHolds) {
  const std::string message = "model 'a\"b\\\n': \xff\xfe";
  const auto parsed = nlohmann::json::parse(ErrorBody(message));
  EXPECT_THAT(parsed.at("error").get<std::string>(), testing::StartsWith("model 'a\"b\\\n': "));
}

TEST(ErrorMap, MessagesAreCutBetweenCharacters) {
  EXPECT_EQ(CutMessage(std::string(kMaxMessageBytes, 'x')), std::string(kMaxMessageBytes, 'x'));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\u00e4";
  for (const std::string& message : {text, "x" + text, std::string(100'000, 'x')}) {
    const std::string cut = CutMessage(message);
    EXPECT_LE(cut.size(), kMaxMessageBytes);
    EXPECT_THAT(cut, testing::EndsWith("..."));
    EXPECT_TRUE(message.starts_with(cut.substr(0, cut.size() - 3)));
    EXPECT_NO_THROW(nlohmann::json(cut).dump());  // UTF-8
  }
  const auto body = nlohmann::json::parse(ErrorBody(std::string(100'000, 'x')));
  EXPECT_EQ(body.at("error").get<std::string>().size(), kMaxMessageBytes);
}

}  // namespace
}  // namespace lagoon

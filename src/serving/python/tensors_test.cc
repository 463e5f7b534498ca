#include "serving/python/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace lagoon {
namespace {

TEST(ProgramTensors, LieBehindEachOther) {
  const nlohmann::json list = {TensorObject("x", DataType::kFloat32, {2, 3}, 24),
                               TensorObject("s", DataType::kString, {2}, 11),
                               TensorObject("n", DataType::kInt64, {}, 8)};
  const auto tensors = ReadTensors(list, 43);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[1].offset, 24u);
  EXPECT_EQ((*tensors)[1].type, DataType::kString);
  EXPECT_EQ((*tensors)[2].offset, 35u);
  EXPECT_EQ((*tensors)[0].dims, (Dims{2, 3}));
}

TEST(ProgramTensors, WrongOnesAreErrors) {
  const nlohmann::json good = TensorObject("x", DataType::kFloat32, {2}, 8);
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[key] = value;
    return nlohmann::json::array({bad});
  };
  ASSERT_TRUE(ReadTensors(nlohmann::json::array({good}), 8));
  for (const nlohmann::json& bad :
       {with("type", "FP31"), with("type", 3), with("dims", nlohmann::json::array({-2})),
        with("dims", nlohmann::json::array({1.5})), with("dims", "2"),
        with("dims", nlohmann::json::array({std::int64_t{1} << 62, 8})), with("bytes", 7),
        with("bytes", -8), with("bytes", 12), nlohmann::json::array({1}), nlohmann::json(3),
        nlohmann::json::array({good, good})}) {
    const auto tensors = ReadTensors(bad, 8);
    ASSERT_FALSE(tensors) << bad;
    EXPECT_EQ(tensors.error().code, ErrorCode::kInternal);
  }
}

TEST(ProgramErrors, HaveCodesBothWays) {
  for (const ErrorCode code : {ErrorCode::kInternal, ErrorCode::kNotFound, ErrorCode::kUnavailable,
                               ErrorCode::kInvalidArgument, ErrorCode::kCancelled}) {
    const Error error = ReadError(ErrorObject({code, "why"}));
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(error.message, "why");
  }
  EXPECT_EQ(ReadError(3).code, ErrorCode::kInternal);
  EXPECT_FALSE(ReadError(nlohmann::json::object()).message.empty());
  EXPECT_EQ(ReadError({{"code", 7}, {"message", std::string(9000, 'x')}}).message.size(), 4096u);
}

}  // namespace
}  // namespace lagoon

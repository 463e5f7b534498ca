#include "server/tensor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lagoon {
namespace {

TEST(TensorCodec, KnowsTheProtocolsTypeNames) {
  EXPECT_EQ(ParseOipType("FP32"), DataType::kFloat32);
  EXPECT_EQ(ParseOipType("BOOL"), DataType::kBool);
  EXPECT_EQ(ParseOipType("BYTES"), DataType::kString);
  EXPECT_EQ(ParseOipType("fp32"), std::nullopt);
  EXPECT_EQ(ParseOipType(""), std::nullopt);
}

TEST(TensorCodec, CountsBytes) {
  EXPECT_EQ(TensorBytes(DataType::kFloat32, {1, 3, 224, 224}).value(), 602112u);
  EXPECT_EQ(TensorBytes(DataType::kInt8, {}).value(), 1u);
  EXPECT_EQ(TensorBytes(DataType::kFloat64, {5, 0}).value(), 0u);
}

TEST(TensorCodec, RefusesShapesThatHaveNoSize) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(TensorBytes(DataType::kFloat32, {1, -1}).error().message,
              testing::HasSubstr("[1,-1]"));
  EXPECT_FALSE(TensorBytes(DataType::kInt8, {huge, huge}));
  EXPECT_FALSE(TensorBytes(DataType::kInt8, {huge, 2}));
  EXPECT_FALSE(TensorBytes(DataType::kInt8, {0, huge, huge}));
  EXPECT_EQ(TensorBytes(DataType::kString, {1}).error().code, ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace lagoon

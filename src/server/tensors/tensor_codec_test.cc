#include "server/tensors/tensor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "plan/bytes_tensor.h"

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
}

TEST(TensorCodec, TensorsOfBytesHaveAsManyElementsAsTheirShapeSays) {
  std::vector<std::byte> data;
  for (const char* text : {"one", "", "three"}) AppendBytesElement(text, data);
  EXPECT_EQ(data.size(), 3 * 4 + 8u);
  EXPECT_TRUE(CheckTensorBytes(DataType::kString, {3, 1}, data));
  EXPECT_TRUE(CheckTensorBytes(DataType::kString, {0}, {}));
  std::vector<std::string> texts;
  ASSERT_TRUE(
      VisitBytesElements(data, 3, [&](std::string_view text) { texts.emplace_back(text); }));
  EXPECT_THAT(texts, testing::ElementsAre("one", "", "three"));
  for (const Dims& dims : {Dims{2}, Dims{4}, Dims{}}) {
    const Status status = CheckTensorBytes(DataType::kString, dims, data);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, testing::HasSubstr("has 3 elements of BYTES"));
  }
  // Every text that is cut off in an element or in a length.
  for (std::size_t size = 1; size < data.size(); ++size) {
    EXPECT_FALSE(CheckTensorBytes(DataType::kString, {3, 1}, std::span(data).first(size))) << size;
  }
  data[0] = data[1] = data[2] = data[3] = std::byte{0xff};
  EXPECT_THAT(CheckTensorBytes(DataType::kString, {3}, data).error().message,
              testing::HasSubstr("element 0 of BYTES leads beyond the end"));
}

}  // namespace
}  // namespace lagoon

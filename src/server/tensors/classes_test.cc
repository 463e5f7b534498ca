#include "server/tensors/classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "plan/bytes_tensor.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
InferResponse Answer(DataType type, Dims dims, const std::vector<T>& values, ClassView view) {
  OutputTensor output{"y", type, std::move(dims), {}, std::move(view)};
  output.data.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(output.data.data(), values.data(), output.data.size());
  InferResponse response;
  response.model = "m";
  response.outputs.push_back(std::move(output));
  return response;
}

std::vector<std::string> Texts(InferResponse response) {
  const Status rendered = RenderClasses(response);
  EXPECT_TRUE(rendered) << rendered.error().message;
  const OutputTensor& output = response.outputs[0];
  EXPECT_EQ(output.type, DataType::kString);
  std::vector<std::string> texts;
  EXPECT_TRUE(VisitBytesElements(output.data, static_cast<std::size_t>(ElementCount(output.dims)),
                                 [&](std::string_view text) { texts.emplace_back(text); }));
  return texts;
}

TEST(Classes, AreTheLargestOfEachRow) {
  const std::vector<float> values = {1, 3, 2, -1, -3, -2};
  const ClassView rows{2, std::make_shared<const Labels>(Labels{"cat", "dog"}), true};
  EXPECT_THAT(Texts(Answer(DataType::kFloat32, {2, 3}, values, rows)),
              ElementsAre("3.000000:1:dog", "2.000000:2", "-1.000000:0:cat", "-2.000000:2"));
  EXPECT_THAT(Texts(Answer(DataType::kFloat32, {2, 3}, values, {1, nullptr, false})),
              ElementsAre("3.000000:1"));
}

TEST(Classes, AreAtMostAsManyAsThereAreElements) {
  InferResponse answer =
      Answer<std::int32_t>(DataType::kInt32, {2, 1, 2}, {7, 8, 30, 15}, {9, {}, true});
  EXPECT_THAT(Texts(answer), ElementsAre("8:1", "7:0", "30:0", "15:1"));
  ASSERT_TRUE(RenderClasses(answer));
  EXPECT_EQ(answer.outputs[0].dims, (Dims{2, 2}));
}

TEST(Classes, EqualOnesKeepTheirOrderAndNaNIsLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Texts(Answer<float>(DataType::kFloat32, {6}, {nan, 1, nan, 1, -infinity, infinity},
                                  {6, nullptr, false})),
              ElementsAre("inf:5", "1.000000:1", "1.000000:3", "-inf:4", HasSubstr("nan:0"),
                          HasSubstr("nan:2")));
}

TEST(Classes, AreOfEveryTypeOfNumbers) {
  const auto of = [](DataType type, auto a, auto b) {
    return Texts(Answer<decltype(a)>(type, {2}, {a, b}, {1, nullptr, false}));
  };
  EXPECT_THAT(of(DataType::kUInt64, std::uint64_t{1}, ~std::uint64_t{0}),
              ElementsAre("18446744073709551615:1"));
  EXPECT_THAT(of(DataType::kInt8, std::int8_t{-1}, std::int8_t{-2}), ElementsAre("-1:0"));
  EXPECT_THAT(of(DataType::kBool, std::uint8_t{0}, std::uint8_t{7}), ElementsAre("1:1"));
  EXPECT_THAT(of(DataType::kFloat16, Float16::From(0.5F), Float16::From(2)),
              ElementsAre("2.000000:1"));
  EXPECT_THAT(of(DataType::kBFloat16, BFloat16::From(4), BFloat16::From(2)),
              ElementsAre("4.000000:0"));
}

TEST(Classes, OfNothingAreNone) {
  EXPECT_THAT(Texts(Answer<float>(DataType::kFloat32, {0, 3}, {}, {2, nullptr, true})), IsEmpty());
  EXPECT_THAT(Texts(Answer<float>(DataType::kFloat32, {2, 0}, {}, {2, nullptr, true})), IsEmpty());
}

TEST(Classes, AreNotGivenWithoutEnd) {
  std::vector<std::uint8_t> many(kMaxClasses + 1);
  InferResponse answer = Answer(DataType::kUInt8, {static_cast<std::int64_t>(many.size())}, many,
                                {~0U, nullptr, false});
  const Status rendered = RenderClasses(answer);
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(rendered.error().message, HasSubstr("model 'm': output 'y': 'classification'"));
}

}  // namespace
}  // namespace lagoon

#include "program/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> BytesIn(const auto& values) { return std::as_bytes(std::span(values)); }

std::vector<float> FloatsOf(const HostTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(float));
  return values;
}

/// A part with the outputs "y" [2,2], "picked" of at most [4], and the actual dims of "picked".
class PartsTest : public ::testing::Test {
 protected:
  PartsTest() {
    plan_.model = "m";
    for (const auto& [name, type, dims] : {std::tuple{"y", DataType::kFloat32, Dims{2, 2}},
                                           {"picked", DataType::kFloat32, Dims{4}},
                                           {"count", DataType::kInt64, Dims{1}}}) {
      plan_.outputs.push_back({{name, type, dims}, {}, {}});
    }
    links_.sizes = {std::nullopt, 2, std::nullopt};
    run_.outputs = {BytesIn(y_), BytesIn(picked_), BytesIn(count_)};
  }

  Plan plan_;
  PartLinks links_;
  PartRun run_;
  const std::array<float, 4> y_{1, 2, 3, 4};
  const std::array<float, 4> picked_{5, 6, 7, 8};
  std::array<std::int64_t, 1> count_{3};
};

TEST_F(PartsTest, AnOutputHasTheDimsThatThePartComputed) {
  const Result<HostTensor> y = PartOutput(links_, plan_, run_, 0);
  ASSERT_TRUE(y);
  EXPECT_EQ(y->dims, (Dims{2, 2}));
  EXPECT_THAT(FloatsOf(*y), ElementsAre(1, 2, 3, 4));
  const Result<HostTensor> picked = PartOutput(links_, plan_, run_, 1);
  ASSERT_TRUE(picked);
  EXPECT_EQ(picked->dims, Dims{3});
  EXPECT_THAT(FloatsOf(*picked), ElementsAre(5, 6, 7));
  count_ = {0};
  EXPECT_TRUE(PartOutput(links_, plan_, run_, 1)->bytes.empty());
}

TEST_F(PartsTest, DimsBeyondTheCapacityAreRefused) {
  count_ = {4};
  EXPECT_TRUE(PartOutput(links_, plan_, run_, 1));
  for (const std::int64_t count : {5, -1}) {
    count_ = {count};
    const Result<HostTensor> picked = PartOutput(links_, plan_, run_, 1);
    ASSERT_FALSE(picked) << count;
    EXPECT_EQ(picked.error().code, ErrorCode::kInternal);
    EXPECT_THAT(picked.error().message, HasSubstr("its capacity is [4]"));
  }
}

TEST_F(PartsTest, TheNextPartTakesItsInputsFromInputsAndOutputs) {
  links_.next.emplace();
  links_.next->sources = {{true, 1}, {false, 0}, {true, 0}, {false, 1}};
  const std::array<float, 1> first{10}, second{20};
  const std::vector<HostTensor> inputs{{{1}, BytesIn(first)}, {{1}, BytesIn(second)}};
  const auto next = InputsOfNextPart(links_, plan_, inputs, run_);
  ASSERT_TRUE(next);
  ASSERT_EQ(next->size(), 4U);
  EXPECT_THAT(FloatsOf(next->at(0)), ElementsAre(20));
  EXPECT_THAT(FloatsOf(next->at(1)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(FloatsOf(next->at(2)), ElementsAre(10));
  EXPECT_THAT(FloatsOf(next->at(3)), ElementsAre(5, 6, 7));
}

TEST_F(PartsTest, WhatAnEngineMadeHasItsOwnDims) {
  plan_.outputs[0].made = OpaqueOutput{0, 0};
  MadeTensor made{DataType::kFloat32, {1, 3}, std::vector<std::byte>(12)};
  run_.made = {std::make_shared<const MadeTensor>(made)};
  const Result<HostTensor> y = PartOutput(links_, plan_, run_, 0);
  ASSERT_TRUE(y);
  EXPECT_EQ(y->dims, (Dims{1, 3}));
  EXPECT_EQ(y->bytes.data(), run_.made[0]->bytes.data());

  made.type = DataType::kInt32;
  run_.made = {std::make_shared<const MadeTensor>(made)};
  const Result<HostTensor> other = PartOutput(links_, plan_, run_, 0);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("has type FP32, and made INT32"));
  run_.made.clear();
  const Result<HostTensor> none = PartOutput(links_, plan_, run_, 0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("made nothing"));
}

}  // namespace
}  // namespace lagoon

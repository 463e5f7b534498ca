#include "graph/import/tensor_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "graph/testing/model_builder.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::RawTensor;

Result<Constant> Import(onnx::TensorProto proto, std::size_t max_bytes = 1 << 20) {
  ByteBudget budget(max_bytes);
  return ImportTensor(proto, {{"/nonexistent", ""}, budget});
}

template <typename T>
std::vector<T> Elements(const Constant& constant) {
  std::vector<T> values(constant.bytes->size() / sizeof(T));
  std::memcpy(values.data(), constant.bytes->data(), constant.bytes->size());
  return values;
}

onnx::TensorProto Empty(int type, const Dims& dims) {
  onnx::TensorProto proto;
  proto.set_data_type(type);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

template <typename T, typename Add>
std::vector<T> FromField(int type, DataType expected, Add add) {
  onnx::TensorProto proto = Empty(type, {2});
  add(proto);
  const Result<Constant> constant = Import(proto);
  if (!constant) {
    ADD_FAILURE() << constant.error().message;
    return {};
  }
  EXPECT_EQ(constant->type, expected);
  EXPECT_EQ(constant->dims, Dims{2});
  return Elements<T>(*constant);
}

TEST(ImportTensor, ReadsEveryTypedField) {
  using P = onnx::TensorProto;
  const auto int32s = [](P& p) { p.add_int32_data(1), p.add_int32_data(7); };
  EXPECT_THAT(FromField<float>(P::FLOAT, DataType::kFloat32,
                               [](P& p) { p.add_float_data(1.5f), p.add_float_data(-2); }),
              ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(FromField<double>(P::DOUBLE, DataType::kFloat64,
                                [](P& p) { p.add_double_data(0.1), p.add_double_data(3); }),
              ElementsAre(0.1, 3.0));
  EXPECT_THAT(
      FromField<std::int64_t>(P::INT64, DataType::kInt64,
                              [](P& p) { p.add_int64_data(-5), p.add_int64_data(1LL << 40); }),
      ElementsAre(-5, 1LL << 40));
  EXPECT_THAT(
      FromField<std::uint64_t>(P::UINT64, DataType::kUInt64,
                               [](P& p) { p.add_uint64_data(5), p.add_uint64_data(~0ULL); }),
      ElementsAre(5, ~0ULL));
  EXPECT_THAT(FromField<std::uint32_t>(P::UINT32, DataType::kUInt32,
                                       [](P& p) { p.add_uint64_data(5), p.add_uint64_data(~0U); }),
              ElementsAre(5, ~0U));
  EXPECT_THAT(FromField<std::int32_t>(P::INT32, DataType::kInt32, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::int16_t>(P::INT16, DataType::kInt16, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::int8_t>(P::INT8, DataType::kInt8, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::uint16_t>(P::UINT16, DataType::kUInt16, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::uint8_t>(P::UINT8, DataType::kUInt8, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::uint16_t>(P::FLOAT16, DataType::kFloat16, int32s), ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::uint16_t>(P::BFLOAT16, DataType::kBFloat16, int32s),
              ElementsAre(1, 7));
  EXPECT_THAT(FromField<std::uint8_t>(P::BOOL, DataType::kBool, int32s), ElementsAre(1, 1));
}

TEST(ImportTensor, ReadsRawData) {
  const Result<Constant> constant =
      Import(RawTensor<float>("w", onnx::TensorProto::FLOAT, {2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(constant.has_value()) << constant.error().message;
  EXPECT_THAT(constant->floats(), ElementsAre(1, 2, 3, 4));
}

TEST(ImportTensor, ReadsScalarsAndEmptyTensors) {
  const Result<Constant> scalar =
      Import(RawTensor<std::int64_t>("s", onnx::TensorProto::INT64, {}, {42}));
  ASSERT_TRUE(scalar.has_value()) << scalar.error().message;
  EXPECT_THAT(scalar->ToInt64(), ElementsAre(42));
  const Result<Constant> empty = Import(Empty(onnx::TensorProto::INT64, {0}));
  ASSERT_TRUE(empty.has_value()) << empty.error().message;
  EXPECT_TRUE(empty->ToInt64().empty());
}

TEST(ImportTensor, MakesRawBoolsZeroOrOne) {
  const Result<Constant> constant =
      Import(RawTensor<std::uint8_t>("b", onnx::TensorProto::BOOL, {3}, {0, 1, 200}));
  ASSERT_TRUE(constant.has_value()) << constant.error().message;
  EXPECT_THAT(Elements<std::uint8_t>(*constant), ElementsAre(0, 1, 1));
}

TEST(ImportTensor, RefusesDataThatDoesNotFillTheShape) {
  EXPECT_THAT(MessageOf(Import(RawTensor<float>("w", onnx::TensorProto::FLOAT, {3}, {1, 2})),
                        ErrorCode::kInvalidArgument),
              HasSubstr("raw_data has 8 bytes, the shape needs 12"));
  onnx::TensorProto typed = Empty(onnx::TensorProto::FLOAT, {3});
  typed.add_float_data(1);
  EXPECT_THAT(MessageOf(Import(typed), ErrorCode::kInvalidArgument),
              HasSubstr("has 1 elements, the shape needs 3"));
  onnx::TensorProto wrong_field = Empty(onnx::TensorProto::FLOAT, {1});
  wrong_field.add_int64_data(1);
  EXPECT_THAT(MessageOf(Import(wrong_field), ErrorCode::kInvalidArgument),
              HasSubstr("has 0 elements"));
  EXPECT_THAT(MessageOf(Import(Empty(onnx::TensorProto::FLOAT, {1})), ErrorCode::kInvalidArgument),
              HasSubstr("has 0 elements"));
}

TEST(ImportTensor, RefusesDataInTwoPlaces) {
  onnx::TensorProto proto = RawTensor<float>("w", onnx::TensorProto::FLOAT, {1}, {1});
  proto.add_float_data(1);
  EXPECT_THAT(MessageOf(Import(proto), ErrorCode::kInvalidArgument),
              HasSubstr("more than one place"));
}

TEST(ImportTensor, RefusesElementsOutOfRange) {
  onnx::TensorProto proto = Empty(onnx::TensorProto::INT8, {1});
  proto.add_int32_data(300);
  EXPECT_THAT(MessageOf(Import(proto), ErrorCode::kInvalidArgument), HasSubstr("300"));
}

TEST(ImportTensor, RefusesTypesItDoesNotKnow) {
  for (const int type : {0, 14, 99, -1}) {
    EXPECT_THAT(MessageOf(Import(Empty(type, {1})), ErrorCode::kUnimplemented),
                HasSubstr("ONNX element type " + std::to_string(type)));
  }
}

TEST(ImportTensor, ReadsStrings) {
  onnx::TensorProto proto = Empty(onnx::TensorProto::STRING, {2, 1});
  proto.add_string_data("ab");
  proto.add_string_data(std::string("\0", 1));
  const Result<Constant> constant = Import(proto);
  ASSERT_TRUE(constant.has_value()) << constant.error().message;
  EXPECT_EQ(constant->type, DataType::kString);
  EXPECT_EQ(constant->dims, (Dims{2, 1}));
  EXPECT_THAT(Elements<char>(*constant), ElementsAre(2, 0, 0, 0, 'a', 'b', 1, 0, 0, 0, 0));
  EXPECT_THAT(MessageOf(Import(proto, 10), ErrorCode::kResourceExhausted), HasSubstr("11 bytes"));
  proto.set_dims(0, 3);
  EXPECT_THAT(MessageOf(Import(proto), ErrorCode::kInvalidArgument),
              HasSubstr("has 2 elements, the shape needs 3"));
  proto.set_raw_data("ab");
  EXPECT_THAT(MessageOf(Import(proto), ErrorCode::kInvalidArgument), HasSubstr("string_data"));
  proto = Empty(onnx::TensorProto::STRING, {1});
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  EXPECT_THAT(MessageOf(Import(proto), ErrorCode::kInvalidArgument), HasSubstr("string_data"));
}

TEST(ImportTensor, RefusesShapesThatAreNegativeHugeOrDeep) {
  const auto message = [](const Dims& dims, ErrorCode code) {
    return MessageOf(Import(Empty(onnx::TensorProto::FLOAT, dims)), code);
  };
  EXPECT_THAT(message({2, -1}, ErrorCode::kInvalidArgument), HasSubstr("negative"));
  EXPECT_THAT(message({1LL << 50}, ErrorCode::kResourceExhausted), HasSubstr("needs"));
  EXPECT_THAT(message({1LL << 40, 1LL << 40}, ErrorCode::kResourceExhausted), HasSubstr("2^63"));
  EXPECT_THAT(message({0, 1LL << 40, 1LL << 40}, ErrorCode::kResourceExhausted), HasSubstr("2^63"));
  EXPECT_THAT(message(Dims(17, 1), ErrorCode::kResourceExhausted), HasSubstr("rank 17"));
}

TEST(ImportTensor, KeepsToTheBudget) {
  const onnx::TensorProto proto =
      RawTensor<float>("w", onnx::TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  EXPECT_TRUE(Import(proto, 16).has_value());
  EXPECT_THAT(MessageOf(Import(proto, 15), ErrorCode::kResourceExhausted), HasSubstr("16 bytes"));
}

TEST(Float16, ConvertsEveryKindOfNumber) {
  EXPECT_EQ(static_cast<float>(Float16{0x3c00}), 1.0f);
  EXPECT_EQ(static_cast<float>(Float16{0xc000}), -2.0f);
  EXPECT_EQ(static_cast<float>(Float16{0x7bff}), 65504.0f);
  EXPECT_EQ(static_cast<float>(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(static_cast<float>(Float16{0x83ff}), -0x1.ff8p-15f);
  EXPECT_TRUE(std::signbit(static_cast<float>(Float16{0x8000})));
  EXPECT_TRUE(std::isinf(static_cast<float>(Float16{0x7c00})));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16{0x7e00})));
  EXPECT_EQ(static_cast<float>(BFloat16{0x3f80}), 1.0f);
}

}  // namespace
}  // namespace lagoon

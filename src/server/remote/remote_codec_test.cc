#include "server/remote/remote_codec.h"

#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "server/grpc/grpc_codec.h"

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> Bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

inference::ModelInferRequest Read(grpc::ByteBuffer& bytes) {
  inference::ModelInferRequest message;
  EXPECT_TRUE(
      grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(&bytes, &message).ok());
  return message;
}

template <typename Message>
grpc::ByteBuffer Write(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

InferRequest WithInputs(const std::vector<std::byte>& small, const std::vector<std::byte>& large) {
  InferRequest request;
  request.model = "m";
  request.version = "2";
  request.id = "r";
  request.inputs = {{"a", DataType::kUInt8, {1, static_cast<std::int64_t>(small.size())}, small},
                    {"b", DataType::kInt8, {static_cast<std::int64_t>(large.size())}, large}};
  request.outputs = {"y", "z"};
  return request;
}

TEST(RemoteCodec, RequestsCarryAllThatTheServerReads) {
  const auto small = Bytes(3);
  const auto large = Bytes(100'000);
  InferRequest request = WithInputs(small, large);
  request.priority = 2;
  request.parameters = {{"a", true},
                        {"b", std::int64_t{-3}},
                        {"c", std::uint64_t{7}},
                        {"d", 0.5},
                        {"e", std::string("text")}};
  const auto payload = std::make_shared<int>(0);
  request.payload = payload;
  grpc::ByteBuffer bytes = RequestBytes(request, std::chrono::nanoseconds(1'500'001));
  auto message = std::make_shared<inference::ModelInferRequest>(Read(bytes));
  const auto parsed = ParseGrpcInfer(message, SharedRegions(false));
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InferRequest& back = parsed->request;
  EXPECT_EQ(back.model, "m");
  EXPECT_EQ(back.version, "2");
  EXPECT_EQ(back.id, "r");
  EXPECT_EQ(back.priority, 2U);
  EXPECT_EQ(back.parameters, request.parameters);
  EXPECT_EQ(back.timeout, std::chrono::microseconds(1501));  // rounded up
  EXPECT_THAT(back.outputs, ElementsAre("y", "z"));
  ASSERT_EQ(back.inputs.size(), 2U);
  EXPECT_EQ(back.inputs[0].name, "a");
  EXPECT_EQ(back.inputs[0].type, DataType::kUInt8);
  EXPECT_THAT(back.inputs[0].dims, ElementsAre(1, 3));
  EXPECT_TRUE(std::ranges::equal(back.inputs[0].data, small));
  EXPECT_TRUE(std::ranges::equal(back.inputs[1].data, large));
}

TEST(RemoteCodec, LargeTensorsAreNotCopiedAndKeepTheirPayload) {
  const auto large = Bytes(1 << 20);
  InferRequest request = WithInputs({}, large);
  auto payload = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = payload;
  request.payload = std::move(payload);
  grpc::ByteBuffer bytes = RequestBytes(request, Nanoseconds{0});
  request.payload.reset();
  EXPECT_FALSE(alive.expired());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes.Dump(&slices).ok());
  EXPECT_TRUE(std::ranges::any_of(slices, [&](const grpc::Slice& slice) {
    return slice.begin() == reinterpret_cast<const std::uint8_t*>(large.data());
  }));
  slices.clear();
  bytes.Clear();
  EXPECT_TRUE(alive.expired());
}

TEST(RemoteCodec, ARequestWithoutADeadlineHasNoTimeout) {
  grpc::ByteBuffer bytes = RequestBytes(WithInputs(Bytes(1), Bytes(1)), Nanoseconds{0});
  EXPECT_TRUE(Read(bytes).parameters().empty());
}

UnfilledBytes OutputBytes(std::size_t size) {
  const std::vector<std::byte> bytes = Bytes(size);
  UnfilledBytes output;
  output.assign(bytes.begin(), bytes.end());
  return output;
}

inference::ModelInferResponse Message(InferResponse response) {
  grpc::ByteBuffer bytes = *RenderGrpcInfer(std::move(response), nullptr);
  inference::ModelInferResponse message;
  EXPECT_TRUE(
      grpc::SerializationTraits<inference::ModelInferResponse>::Deserialize(&bytes, &message).ok());
  return message;
}

InferResponse Answer() {
  InferResponse response;
  response.model = "m";
  response.version = "3";
  response.id = "r";
  response.outputs = {{"y", DataType::kInt32, {2, 2}, OutputBytes(16)},
                      {"none", DataType::kFloat32, {0, 4}, {}},
                      {"z", DataType::kBool, {200'000}, OutputBytes(200'000)}};
  return response;
}

TEST(RemoteCodec, AnswersOfTheServerAreReadWhole) {
  const EdgeStamps stamps;
  grpc::ByteBuffer bytes = *RenderGrpcInfer(Answer(), &stamps);  // parameters are skipped
  const auto parsed = ParseAnswer(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InferResponse expected = Answer();
  EXPECT_EQ(parsed->model, expected.model);
  EXPECT_EQ(parsed->version, expected.version);
  EXPECT_EQ(parsed->id, expected.id);
  ASSERT_EQ(parsed->outputs.size(), expected.outputs.size());
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_EQ(parsed->outputs[i].name, expected.outputs[i].name);
    EXPECT_EQ(parsed->outputs[i].type, expected.outputs[i].type);
    EXPECT_EQ(parsed->outputs[i].dims, expected.outputs[i].dims);
    EXPECT_EQ(parsed->outputs[i].data, expected.outputs[i].data);
  }
}

TEST(RemoteCodec, EveryCutOfAnAnswerIsAnError) {
  InferResponse response = Answer();
  response.outputs.pop_back();
  const std::string text = Message(std::move(response)).SerializeAsString();
  // The last field is the empty tensor, whose entry is two bytes.
  for (std::size_t size = 1; size < text.size(); ++size) {
    const grpc::Slice slice(text.substr(0, size));
    grpc::ByteBuffer bytes(&slice, 1);
    const auto parsed = ParseAnswer(bytes);
    if (parsed) {
      // Cut between two fields before the outputs: a message of its own.
      EXPECT_TRUE(parsed->outputs.empty()) << size;
    } else {
      EXPECT_EQ(parsed.error().code, ErrorCode::kInternal) << size;
    }
  }
}

TEST(RemoteCodec, AWrongSizeAllocatesNothing) {
  // Field 6, with the length 2^31 - 1 and no bytes.
  const grpc::Slice slice(std::string("\x32\xff\xff\xff\xff\x07", 6));
  grpc::ByteBuffer bytes(&slice, 1);
  EXPECT_FALSE(ParseAnswer(bytes));
}

TEST(RemoteCodec, AnswersWhoseTensorsDoNotFitAreErrors) {
  const auto error = [](const inference::ModelInferResponse& message) {
    grpc::ByteBuffer bytes = Write(message);
    const auto parsed = ParseAnswer(bytes);
    return parsed ? std::string("no error") : parsed.error().message;
  };
  inference::ModelInferResponse message = Message(Answer());
  message.mutable_raw_output_contents()->RemoveLast();
  EXPECT_THAT(error(message), HasSubstr("2 entries of raw_output_contents for 3 outputs"));
  message.add_raw_output_contents("x");
  EXPECT_THAT(error(message), HasSubstr("1 bytes for output 'z'"));
  message.mutable_outputs(2)->set_shape(0, -1);
  EXPECT_THAT(error(message), HasSubstr("for output 'z'"));
  message.mutable_outputs(2)->set_datatype("FP7");
  EXPECT_THAT(error(message), HasSubstr("is no ModelInferResponse"));
  message.mutable_outputs(2)->set_datatype("BOOL");
  message.mutable_outputs(2)->mutable_contents()->add_bool_contents(true);
  EXPECT_THAT(error(message), HasSubstr("is no ModelInferResponse"));
}

TEST(RemoteCodec, MetadataAndStatisticsComeBack) {
  const ModelMetadata model{"m",
                            {"1", "2"},
                            "lagoon_plan",
                            {{"x", DataType::kFloat16, {-1, 4}}},
                            {{"y", DataType::kInt64, {4}}}};
  inference::ModelMetadataResponse message;
  FillModelMetadata(model, message);
  const auto back = ParseMetadata(message);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->versions, model.versions);
  EXPECT_EQ(back->platform, model.platform);
  EXPECT_EQ(back->inputs.front().dims, model.inputs.front().dims);
  EXPECT_EQ(back->outputs.front().type, DataType::kInt64);
  message.mutable_inputs(0)->set_datatype("");
  EXPECT_FALSE(ParseMetadata(message));

  ModelStatistics row;
  row.name = "m";
  row.version = "2";
  row.inference_count = 5;
  row.pending = 3;
  row.success = {4, 400};
  row.batches = {{2, {1, 10}, {1, 20}, {1, 30}}};
  inference::ModelStatisticsResponse statistics;
  FillStatistics(std::span(&row, 1), statistics);
  const auto rows = ParseStatistics(statistics);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "m");
  EXPECT_EQ(rows[0].pending, 3U);
  EXPECT_EQ(rows[0].success.ns, 400U);
  EXPECT_EQ(rows[0].batches.front().compute_infer.ns, 20U);
}

TEST(RemoteCodec, OutputsWithoutJsonNumbersAreRefusedAsText) {
  InferResponse response;
  response.model = "m";
  response.outputs = {{"a", DataType::kFloat32, {1}, {}}, {"b", DataType::kBFloat16, {1}, {}}};
  constexpr auto kText = OutputForm::kText;
  constexpr auto kBytes = OutputForm::kBytes;
  EXPECT_TRUE(CheckForms(response, {}, {}, kBytes));
  const Status all = CheckForms(response, {}, {}, kText);
  EXPECT_EQ(all.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(all.error().message, HasSubstr("output 'b' is BF16"));
  const std::vector<std::string> outputs = {"a", "b"};
  EXPECT_TRUE(CheckForms(response, outputs, std::vector{kText, kBytes}, kText));
  EXPECT_FALSE(CheckForms(response, outputs, std::vector{kBytes, kText}, kBytes));
  EXPECT_FALSE(CheckForms(response, outputs, std::vector{kBytes}, kText));
}

TEST(RemoteCodec, ErrorsNameTheMemberWhereTheMemberIsTheReason) {
  const Error lost = ErrorOf({grpc::StatusCode::UNAVAILABLE, "socket closed"}, "member h:1");
  EXPECT_EQ(lost.code, ErrorCode::kUnavailable);
  EXPECT_EQ(lost.message, "member h:1: socket closed");
  const Error bad = ErrorOf({grpc::StatusCode::INVALID_ARGUMENT, "model 'm': no"}, "member h:1");
  EXPECT_EQ(bad.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.message, "model 'm': no");
}

TEST(CheckAnswer, AnAnswerIsOfItsRequest) {
  InferResponse response;
  response.model = "m";
  response.id = "r1";
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {1}, {}},
                      OutputTensor{"z", DataType::kFloat32, {1}, {}}};
  response.version = "3";
  const std::string m = "m", another = "another", r1 = "r1", any, third = "3", second = "2";
  const std::vector<std::string> both{"y", "z"}, one{"y"}, other{"y", "x"};
  EXPECT_TRUE(CheckAnswer(response, {m, any, r1, {}}));
  EXPECT_TRUE(CheckAnswer(response, {m, third, r1, both}));
  EXPECT_FALSE(CheckAnswer(response, {m, second, r1, both}));
  const auto why = [&](const std::string& id, std::span<const std::string> outputs) {
    const Status checked = CheckAnswer(response, {m, any, id, outputs});
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  };
  EXPECT_THAT(why("r2", both), testing::HasSubstr("has the id 'r1', the request has 'r2'"));
  EXPECT_THAT(why("r1", one), testing::HasSubstr("has 2 outputs, the request names 1"));
  EXPECT_THAT(why("r1", other), testing::HasSubstr("lacks the output 'x'"));
  EXPECT_FALSE(CheckAnswer(response, {another, any, r1, {}}));
  response.outputs[1].name = "y";
  EXPECT_THAT(why("r1", {}), testing::HasSubstr("has the output 'y' twice"));
  response.outputs.clear();
  EXPECT_THAT(why("r1", {}), testing::HasSubstr("has no outputs"));
}

TEST(CheckOutputs, AllOutputsAreThereUnlessSomeAreNamed) {
  ModelMetadata model;
  model.name = "m";
  model.outputs = {{"y", DataType::kFloat32, {-1, 2}}, {"z", DataType::kInt8, {}}};
  InferResponse response;
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {5, 2}, {}}};
  const std::vector<std::string> named{"y"};
  EXPECT_TRUE(CheckOutputs(response, model, named));
  const Status lacks = CheckOutputs(response, model, {});
  ASSERT_FALSE(lacks);
  EXPECT_EQ(lacks.error().code, ErrorCode::kInternal);
  EXPECT_THAT(lacks.error().message, HasSubstr("has 1 outputs, and the model 'm' has 2"));
  response.outputs.push_back(OutputTensor{"z", DataType::kInt8, {}, {}});
  EXPECT_TRUE(CheckOutputs(response, model, {}));
}

// What is known of a tensor whose rank the model does not know either.
TEST(CheckOutputs, ClassesHaveAShapeOfTheirOwn) {
  ModelMetadata model;
  model.outputs = {{"y", DataType::kFloat32, {-1, 10}}};
  InferResponse response;
  response.outputs = {{"y", DataType::kString, {1, 3}, {}}};
  const std::vector<std::string> names = {"y"};
  EXPECT_TRUE(CheckOutputs(response, model, names, names));
  EXPECT_FALSE(CheckOutputs(response, model, names));
  response.outputs[0] = {"y", DataType::kFloat32, {1, 10}, {}};
  EXPECT_FALSE(CheckOutputs(response, model, names, names));
}

TEST(CheckOutputs, ATensorOfOpenSizesMayHaveAnotherRank) {
  ModelMetadata model;
  model.outputs = {{"y", DataType::kFloat32, {-1}}};
  InferResponse response;
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {5, 2}, {}}};
  EXPECT_TRUE(CheckOutputs(response, model, {}));
}

TEST(RemoteCodec, ARequestCarriesTheFrontsThatItHasComeThrough) {
  InferRequest request;
  request.model = "m";
  const auto via = [&](std::string_view front) {
    grpc::ByteBuffer bytes = RequestBytes(request, Nanoseconds{0}, front);
    const auto parsed = ParseGrpcInfer(std::make_shared<inference::ModelInferRequest>(Read(bytes)),
                                       SharedRegions(false));
    return parsed ? parsed->request.via : parsed.error().message;
  };
  EXPECT_EQ(via(""), "");
  EXPECT_EQ(via("a"), "a");
  request.via = "a,b";
  EXPECT_EQ(via("c"), "a,b,c");
  auto message = std::make_shared<inference::ModelInferRequest>();
  (*message->mutable_parameters())["lagoon_via"].set_int64_param(1);
  const auto number = ParseGrpcInfer(message, SharedRegions(false));
  ASSERT_FALSE(number);
  EXPECT_THAT(number.error().message, HasSubstr("'lagoon_via' is not a text"));
}

}  // namespace
}  // namespace lagoon

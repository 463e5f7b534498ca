#include "server/grpc/grpc_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "server/grpc/grpc_infer_call.h"
#include "server/testing/shared_object.h"

namespace lagoon {
namespace {

using inference::ModelInferRequest;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<ModelInferRequest> Request(std::string datatype, std::vector<std::int64_t> shape) {
  auto message = std::make_shared<ModelInferRequest>();
  message->set_model_name("m");
  auto& input = *message->add_inputs();
  input.set_name("x");
  input.set_datatype(std::move(datatype));
  input.mutable_shape()->Add(shape.begin(), shape.end());
  return message;
}

/// As it comes from a client.
Result<GrpcInfer> Parse(const ModelInferRequest& message) {
  const auto bytes = std::make_shared<const std::string>(message.SerializeAsString());
  auto read = ReadInferMessage(std::as_bytes(std::span(*bytes)), bytes);
  EXPECT_TRUE(read);
  auto parsed = ParseGrpcInfer(*std::move(read));
  if (!parsed) return parsed;
  LAGOON_RETURN_IF_ERROR(BindRegions(SharedRegions(false), *parsed));
  return parsed;
}

template <typename T>
std::vector<T> Values(std::span<const std::byte> data) {
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

TEST(GrpcInferParse, LeavesRawContentsInTheMessageAndKeepsItAlive) {
  auto message = Request("FP32", {1, 2});
  message->set_id("q");
  message->set_model_version("2");
  const float values[] = {1.5f, -2};
  message->add_raw_input_contents(values, sizeof(values));
  (*message->mutable_parameters())["priority"].set_uint64_param(2);
  (*message->mutable_parameters())["timeout"].set_int64_param(1000);
  (*message->mutable_parameters())["lagoon_stages"].set_bool_param(true);
  (*message->mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  auto bytes = std::make_shared<const std::string>(message->SerializeAsString());
  const std::weak_ptr<const std::string> watch = bytes;
  const std::size_t at =
      bytes->find(std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  const void* const raw = bytes->data() + at;
  auto read = ReadInferMessage(std::as_bytes(std::span(*bytes)), bytes);
  bytes.reset();
  ASSERT_TRUE(read);
  const auto parsed = ParseGrpcInfer(*std::move(read));
  read = nullptr;
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(watch.expired());
  const InferRequest& request = parsed->request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.version, "2");
  EXPECT_EQ(request.id, "q");
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(request.timeout, std::chrono::milliseconds(1));
  EXPECT_TRUE(parsed->stages);
  EXPECT_EQ(request.inputs.front().data.data(), raw);
  EXPECT_EQ(request.inputs.front().dims, (Dims{1, 2}));
}

TEST(GrpcInferMessage, FieldsMayComeInAnyOrderBetweenTheTensors) {
  ModelInferRequest first;
  first.set_model_name("m");
  first.add_raw_input_contents("one");
  ModelInferRequest second;
  second.set_id("q");
  second.add_inputs()->set_name("x");
  second.add_raw_input_contents("");
  ModelInferRequest third;
  third.add_inputs()->set_name("y");
  const std::string bytes =
      first.SerializeAsString() + second.SerializeAsString() + third.SerializeAsString();
  const auto read = ReadInferMessage(std::as_bytes(std::span(bytes)), nullptr);
  ASSERT_TRUE(read);
  const InferMessage& message = **read;
  EXPECT_EQ(message.message.model_name(), "m");
  EXPECT_EQ(message.message.id(), "q");
  EXPECT_EQ(message.message.inputs_size(), 2);
  EXPECT_EQ(message.message.raw_input_contents_size(), 0);
  ASSERT_EQ(message.raws.size(), 2);
  EXPECT_EQ(message.raws[0].size(), 3);
  EXPECT_EQ(message.raws[1].size(), 0);
  EXPECT_EQ(BytesToParse(std::as_bytes(std::span(bytes))), bytes.size() - 3);
}

TEST(GrpcInferMessage, OneWithMuchBesideItsTensorsIsLongToParse) {
  ModelInferRequest request;
  const auto is_long = [&request] {
    const std::string bytes = request.SerializeAsString();
    return IsLongToParse(std::as_bytes(std::span(bytes)));
  };
  request.add_raw_input_contents(std::string(2 << 20, 'x'));
  EXPECT_FALSE(is_long());  // it is not parsed
  request.set_id(std::string(300 << 10, 'x'));
  EXPECT_TRUE(is_long());
}

TEST(GrpcInferMessage, MuchSharedMemoryIsReadBesideTheConnection) {
  SharedObject object(3 << 20);
  object.Write(0, std::vector<float>(3 << 18, 2));
  SharedRegions regions(true);
  ASSERT_TRUE(regions.Register({"r", object.key(), 0, 3 << 20}));
  // The inputs that `sizes` names, each from the begin of the region.
  std::optional<GrpcAsked> asked;
  const auto read = [&](const std::vector<std::int64_t>& sizes, const std::string& region) {
    ModelInferRequest request;
    request.set_id("q");
    for (const std::int64_t size : sizes) {
      auto& input = *request.add_inputs();
      input.set_datatype("FP32");
      input.add_shape(size / 4);
      (*input.mutable_parameters())["shared_memory_region"].set_string_param(region);
      (*input.mutable_parameters())["shared_memory_byte_size"].set_int64_param(size);
    }
    const auto bytes = std::make_shared<const std::string>(request.SerializeAsString());
    const GrpcHead head;
    asked.reset();
    const GrpcReading reading =
        ReadInfer({std::as_bytes(std::span(*bytes)), bytes, {}}, head, regions,
                  [&asked](GrpcAsked got) { asked = std::move(got); });
    const bool slow = reading.slow != nullptr;
    if (slow) reading.slow();
    reading.then();
    return slow;
  };
  EXPECT_FALSE(read({1 << 20}, "r"));
  ASSERT_TRUE(asked->parsed) << asked->parsed.error().message;
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{(1 << 20) + 4}, std::vector<std::int64_t>{1 << 20, 4}}) {
    EXPECT_TRUE(read(sizes, "r")) << "all inputs count";
    ASSERT_TRUE(asked->parsed) << asked->parsed.error().message;
    EXPECT_EQ(asked->id, "q");
    const auto values = Values<float>(asked->parsed->request.inputs[0].data);
    EXPECT_EQ(values, std::vector<float>(static_cast<std::size_t>(sizes[0] / 4), 2));
  }
  EXPECT_TRUE(read({2 << 20}, "s"));
  ASSERT_FALSE(asked->parsed);
  EXPECT_EQ(asked->parsed.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(asked->parsed.error().message, HasSubstr("'s'"));
}

TEST(GrpcInferMessage, EveryTruncationIsAnErrorOrAShorterMessage) {
  ModelInferRequest request;
  request.set_model_name("model");
  request.add_inputs()->set_name("x");
  request.add_raw_input_contents("0123456789");
  const std::string bytes = request.SerializeAsString();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto read = ReadInferMessage(std::as_bytes(std::span(bytes)).first(size), nullptr);
    ModelInferRequest same;
    ASSERT_EQ(read.has_value(), same.ParseFromString(bytes.substr(0, size))) << size;
    if (read) {
      EXPECT_EQ((*read)->raws.size(), 0);
    }
  }
  // The length of the tensor lies.
  const std::string lie = std::string("\x3a\xff\xff\xff\xff\x07", 6) + "few bytes";
  EXPECT_FALSE(ReadInferMessage(std::as_bytes(std::span(lie)), nullptr));
  const std::string end = std::string(1, '\x0c');  // the end of a group that has not begun
  EXPECT_FALSE(ReadInferMessage(std::as_bytes(std::span(end)), nullptr));
}

TEST(GrpcInferParse, ReadsWhoseTheRequestIs) {
  const auto message = Request("FP32", {0});
  message->add_raw_input_contents("");
  auto& parameters = *message->mutable_parameters();
  parameters["lagoon_tenant"].set_string_param("a");
  EXPECT_EQ(Parse(*message)->request.tenant_of_parameter, "a");
  parameters["lagoon_tenant"].set_int64_param(1);
  const auto refused = Parse(*message);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("parameter 'lagoon_tenant' is not a text"));
}

TEST(GrpcInferParse, KeepsTheParametersThatAreNotTheServers) {
  const auto message = Request("FP32", {0});
  message->add_raw_input_contents("");
  auto& parameters = *message->mutable_parameters();
  parameters["priority"].set_uint64_param(2);
  parameters["triton_x"].set_bool_param(true);
  parameters["lagoon_stages"].set_bool_param(true);
  parameters["a"].set_bool_param(true);
  parameters["b"].set_int64_param(-3);
  parameters["c"].set_uint64_param(7);
  parameters["d"].set_double_param(0.5);
  parameters["e"].set_string_param("text");
  parameters["f"];  // without a value
  const auto parsed = Parse(*message);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const std::vector<RequestParameter> expected = {{"a", true},
                                                  {"b", std::int64_t{-3}},
                                                  {"c", std::uint64_t{7}},
                                                  {"d", 0.5},
                                                  {"e", std::string("text")}};
  EXPECT_EQ(parsed->request.parameters, expected);
  parameters["d"].set_double_param(std::nan(""));  // a program in Python would get null
  const auto odd = Parse(*message);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(odd.error().message, HasSubstr("parameter 'd' is nan; only finite numbers"));
  parameters["d"].set_double_param(0.5);
  for (std::size_t i = 0; i < kMostRequestParameters; ++i) {
    parameters["more" + std::to_string(i)].set_bool_param(true);
  }
  const auto refused = Parse(*message);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("more than 64 parameters"));
}

TEST(GrpcInferParse, ReadsTypedContentsOfEveryType) {
  const auto parse = [](std::string type, auto fill) {
    auto message = Request(std::move(type), {2});
    fill(*message->mutable_inputs(0)->mutable_contents());
    return Parse(*message);
  };
  const auto data = [](const auto& parsed) { return parsed->request.inputs.front().data; };
  using Contents = inference::InferTensorContents;
  auto parsed = parse("FP32", [](Contents& c) {
    c.add_fp32_contents(1);
    c.add_fp32_contents(2);
  });
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(Values<float>(data(parsed)), ElementsAre(1, 2));
  parsed = parse("INT8", [](Contents& c) {
    c.add_int_contents(-128);
    c.add_int_contents(127);
  });
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::int8_t>(data(parsed)), ElementsAre(-128, 127));
  parsed = parse("UINT16", [](Contents& c) {
    c.add_uint_contents(65535);
    c.add_uint_contents(0);
  });
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::uint16_t>(data(parsed)), ElementsAre(65535, 0));
  parsed = parse("BOOL", [](Contents& c) {
    c.add_bool_contents(true);
    c.add_bool_contents(false);
  });
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::uint8_t>(data(parsed)), ElementsAre(1, 0));
  parsed = parse("INT8", [](Contents& c) {
    c.add_int_contents(128);
    c.add_int_contents(0);
  });
  EXPECT_THAT(parsed.error().message, HasSubstr("128"));
  parsed = parse("FP32", [](Contents& c) { c.add_int_contents(1); });
  EXPECT_THAT(parsed.error().message, HasSubstr("input 'x': got unexpected byte size 0"));
}

TEST(GrpcInferParse, RefusesWhatDoesNotFit) {
  const auto error = [](const std::shared_ptr<ModelInferRequest>& message) {
    return Parse(*message).error();
  };
  auto message = Request("FP32", {1});
  message->add_raw_input_contents("123");
  EXPECT_THAT(error(message).message,
              HasSubstr("model 'm': input 'x': got unexpected byte size 3"));
  message->set_raw_input_contents(0, "1234");
  message->add_raw_input_contents("4");
  EXPECT_THAT(error(message).message, HasSubstr("2 entries for 1 inputs"));

  message = Request("FP32", {1});
  message->add_raw_input_contents("1234");
  message->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(error(message).message,
              HasSubstr("contents field must not be specified when using raw_input_contents for"));

  message = Request("FP99", {1});
  EXPECT_THAT(error(message).message, HasSubstr("'FP99'"));
  EXPECT_THAT(error(Request("BYTES", {1})).message, HasSubstr("0 elements of BYTES"));
  EXPECT_EQ(error(Request("FP32", {-1})).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error(Request("FP32", {INT64_MAX, INT64_MAX})).code, ErrorCode::kInvalidArgument);

  message = Request("FP32", {0});
  (*message->mutable_parameters())["priority"].set_int64_param(-1);
  EXPECT_THAT(error(message).message, HasSubstr("'priority'"));
  message = Request("FP32", {0});
  (*message->mutable_parameters())["timeout"].set_string_param("1");
  EXPECT_THAT(error(message).message, HasSubstr("'timeout'"));
  message = Request("FP32", {0});
  (*message->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(error(message).message, HasSubstr("'shared_memory_byte_size'"));
  (*message->mutable_inputs(0)->mutable_parameters())["shared_memory_byte_size"].set_int64_param(0);
  EXPECT_EQ(error(message).code, ErrorCode::kUnimplemented);  // shared memory is off
  (*message->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_int64_param(1);
  EXPECT_EQ(error(message).code, ErrorCode::kInvalidArgument);
  message = Request("FP32", {0});
  (*message->add_outputs()->mutable_parameters())["classification"].set_int64_param(-3);
  EXPECT_THAT(error(message).message, HasSubstr("'classification'"));
}

TEST(GrpcInferParse, ReadsTextsAndHowManyClassesAreAskedFor) {
  auto message = Request("BYTES", {2});
  message->mutable_inputs(0)->mutable_contents()->add_bytes_contents("one");
  message->mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
  message->add_outputs()->set_name("z");
  message->add_outputs()->set_name("y");
  (*message->mutable_outputs(1)->mutable_parameters())["classification"].set_int64_param(3);
  const auto parsed = Parse(*message);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->request.inputs[0].data.size(), 11u);
  EXPECT_THAT(parsed->request.classes, ElementsAre(0u, 3u));
}

TEST(GrpcInferParse, RefusesContentsOfTwoTypes) {
  auto message = Request("FP32", {1});
  message->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ASSERT_TRUE(Parse(*message));
  message->mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  const auto parsed = Parse(*message);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(parsed.error().message, HasSubstr("int64_contents, fp32_contents"));
}

TEST(GrpcInferParse, MessagesStayShortWhateverTheClientWrote) {
  const std::string big(100'000, 'n');
  std::vector<std::shared_ptr<ModelInferRequest>> requests;
  requests.push_back(Request("FP32", std::vector<std::int64_t>(10'000, 2)));
  requests.push_back(Request("FP32", std::vector<std::int64_t>(10'000, 1)));
  requests.push_back(Request("FP32", std::vector<std::int64_t>(10'000, -1)));
  requests.push_back(Request(big, {1}));
  requests.push_back(Request("FP99", {1}));
  requests.back()->mutable_inputs(0)->set_name(big);
  requests.push_back(Request("FP99", {1}));
  requests.back()->set_model_name(big);
  requests.push_back(Request("FP32", {0}));
  requests.back()->add_outputs()->set_name(big);
  (*requests.back()->mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(
      -1);
  requests.push_back(Request("FP32", {0}));
  requests.back()->add_outputs()->set_name(big);
  (*requests.back()->mutable_outputs(0)->mutable_parameters())["shared_memory_region"]
      .set_string_param(big);
  for (const auto& request : requests) {
    const auto parsed = Parse(*request);
    ASSERT_FALSE(parsed);
    EXPECT_LT(parsed.error().message.size(), 1000u);
  }
}

TEST(GrpcStatus, IsCutFarBelowWhatGrpcCarries) {
  const grpc::Status status = GrpcStatus({ErrorCode::kInvalidArgument, std::string(100'000, 'x')});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LE(status.error_message().size(), 2048u);
  EXPECT_THAT(status.error_message(), testing::EndsWith("..."));
}

std::string TextOf(const GrpcBytes& bytes) {
  std::string text;
  for (const GrpcBytes::Part& part : bytes.parts) {
    text += part.text;
    text.append(reinterpret_cast<const char*>(part.data.data()), part.data.size());
  }
  EXPECT_EQ(text.size(), bytes.size());
  return text;
}

inference::ModelInferResponse Parsed(const GrpcBytes& bytes) {
  inference::ModelInferResponse message;
  EXPECT_TRUE(message.ParseFromString(TextOf(bytes)));
  return message;
}

TEST(GrpcInferRender, SendsEveryOutputRaw) {
  InferResponse response{"m", "1", "q", {{"y", DataType::kFloat32, {1, 1}, {}}}, {}};
  response.outputs[0].data.assign(4, std::byte{1});
  inference::ModelInferResponse message = Parsed(*RenderGrpcInfer(response, nullptr));
  EXPECT_EQ(message.model_name(), "m");
  EXPECT_EQ(message.model_version(), "1");
  EXPECT_EQ(message.id(), "q");
  EXPECT_TRUE(message.parameters().empty());
  EXPECT_EQ(message.outputs(0).name(), "y");
  EXPECT_EQ(message.outputs(0).datatype(), "FP32");
  EXPECT_THAT(message.outputs(0).shape(), ElementsAre(1, 1));
  EXPECT_EQ(message.raw_output_contents(0), std::string(4, '\1'));

  const EdgeStamps stamps;
  message = Parsed(*RenderGrpcInfer(response, &stamps));
  EXPECT_TRUE(message.parameters().contains("lagoon_queue_us"));
}

TEST(GrpcInferRender, OwnsTheOutputsAndCopiesNone) {
  InferResponse response{"m", "1", "", {}, {}};
  const std::size_t sizes[] = {0, 7, 16'384, 16'383, 3'000'000, 0};
  for (const std::size_t size : sizes) {
    OutputTensor& output = response.outputs.emplace_back();
    output.type = DataType::kUInt8;
    output.dims = {static_cast<std::int64_t>(size)};
    output.data.assign(size, static_cast<std::byte>(response.outputs.size()));
  }
  const void* const large = response.outputs[4].data.data();
  auto bytes = RenderGrpcInfer(std::move(response), nullptr);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(std::ranges::any_of(bytes->parts,
                                  [&](const auto& part) { return part.data.data() == large; }));
  const inference::ModelInferResponse message = Parsed(*bytes);
  ASSERT_EQ(message.raw_output_contents_size(), 6);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(message.raw_output_contents(i), std::string(sizes[i], static_cast<char>(i + 1)));
  }
  inference::ModelStreamInferResponse streamed;
  ASSERT_TRUE(streamed.ParseFromString(TextOf(WrapForStream(*std::move(bytes)))));
  EXPECT_EQ(streamed.infer_response().raw_output_contents(4).size(), 3'000'000u);
}

TEST(GrpcInferRender, AnAnswerWithoutOutputsAndNamesIsEmpty) {
  EXPECT_EQ(RenderGrpcInfer({}, nullptr)->size(), 0u);
}

}  // namespace
}  // namespace lagoon

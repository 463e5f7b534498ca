// Requests and answers with strings (BYTES).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/testing/test_engine.h"
#include "plan/bytes_tensor.h"
#include "serving/model/request_check.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

/// y = `op` of x, strings of `dims`; a dim of -1 is open. An op without a domain is Lagoon's own.
onnx::ModelProto StringModel(const std::string& op, const Dims& dims, const std::string& domain) {
  onnx::ModelProto model =
      OnnxBuilder().Input("x", dims).Node(op, {"x"}, "y").Output("y", dims).Build();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_node(0)->set_domain(domain);
  if (!domain.empty()) {
    onnx::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
  }
  for (onnx::ValueInfoProto* const value : {graph.mutable_input(0), graph.mutable_output(0)}) {
    onnx::TypeProto::Tensor& type = *value->mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::STRING);
    for (auto& dim : *type.mutable_shape()->mutable_dim()) {
      if (dim.dim_value() == -1) dim.set_dim_param("n");
    }
  }
  return model;
}

class StringsTest : public CoreTest {
 protected:
  StringsTest() { engine_ = HostOf(std::make_shared<TestEngine>()); }

  /// Models of two columns: "same" of Lagoon's own, "shout" by the engine.
  void Serve(const std::string& config) {
    repository_.AddModel("same", StringModel("Identity", {-1, 2}, ""), config);
    repository_.AddModel("shout", StringModel("Shout", {-1, 2}, "test"), config);
    Open("sequential");
  }
  static InferRequest Request(const std::string& model, const Dims& dims, const Texts& texts) {
    auto payload = std::make_shared<std::vector<std::byte>>();
    for (const std::string& text : texts) AppendBytesElement(text, *payload);
    InferRequest request;
    request.model = model;
    request.arrival = Now();
    request.inputs = {{"x", DataType::kString, dims, *payload}};
    request.payload = payload;
    return request;
  }
  static Texts TextsOf(const OutputTensor& output) {
    Texts texts;
    const Status read =
        VisitBytesElements({output.data.data(), output.data.size()},
                           static_cast<std::size_t>(ElementCount(output.dims)),
                           [&](std::string_view text) { texts.emplace_back(text); });
    EXPECT_TRUE(read) << read.error().message;
    return texts;
  }
  static Texts AnswerOf(const Answer& answer) {
    if (answer) return TextsOf(answer->outputs[0]);
    ADD_FAILURE() << answer.error().message;
    return {};
  }
};

TEST_F(StringsTest, AreMovedByLagoonAndComputedByAnEngine) {
  Serve("");
  const Texts texts = {"one", "", std::string("a\0b", 3), "\xff"};
  const Answer same = Ask(Request("same", {2, 2}, texts));
  EXPECT_EQ(AnswerOf(same), texts);
  EXPECT_EQ(same->outputs[0].type, DataType::kString);
  EXPECT_EQ(same->outputs[0].dims, (Dims{2, 2}));
  EXPECT_THAT(AnswerOf(Ask(Request("shout", {2, 2}, texts))),
              ElementsAre("one!", "!", std::string("a\0b!", 4), "\xff!"));
  EXPECT_TRUE(AnswerOf(Ask(Request("same", {0, 2}, {}))).empty());
  EXPECT_TRUE(AnswerOf(Ask(Request("shout", {0, 2}, {}))).empty());
}

TEST_F(StringsTest, RequestsOfOneBatchGetTheirOwn) {
  // They wait for each other: a device with gates is none that takes strings.
  Serve("max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200000 }\n");
  for (const std::string model : {"same", "shout"}) {
    std::vector<Sent> sent;
    for (int i = 0; i < 6; ++i) {
      sent.push_back(Send(Request(model, {1, 2}, {std::string(40, 'a' + i), std::to_string(i)})));
    }
    const std::string end = model == "same" ? "" : "!";
    for (int i = 0; i < 6; ++i) {
      EXPECT_THAT(AnswerOf(sent[static_cast<std::size_t>(i)].answer.get()),
                  ElementsAre(std::string(40, 'a' + i) + end, std::to_string(i) + end));
    }
    EXPECT_LT(StatisticsOf(model).execution_count, 6u) << model;
  }
}

TEST_F(StringsTest, PaddingIsCutOff) {
  Serve(Parameter("lagoon.buckets.n", "4,8"));
  for (const std::string model : {"same", "shout"}) {
    for (const std::int64_t rows : {1, 3, 4, 6, 9}) {
      Texts texts, expected;
      for (std::int64_t i = 0; i < 2 * rows; ++i) {
        texts.push_back("text " + std::to_string(i));
        expected.push_back(texts.back() + (model == "same" ? "" : "!"));
      }
      EXPECT_EQ(AnswerOf(Ask(Request(model, {rows, 2}, texts))), expected) << model << rows;
    }
  }
}

TEST_F(StringsTest, WhatDoesNotFitIsRefused) {
  Serve("");
  const Answer fewer = Ask(Request("same", {2, 2}, {"a", "b", "c"}));
  ASSERT_EQ(CodeOf(fewer), ErrorCode::kInvalidArgument);
  EXPECT_THAT(fewer.error().message, HasSubstr("input 'x' has 3 elements of BYTES"));
  const Answer many = Ask(Request("same", {kMaxStrings, 2}, {"a", "b"}));
  ASSERT_EQ(CodeOf(many), ErrorCode::kInvalidArgument);
  EXPECT_THAT(many.error().message, HasSubstr("has 8388608 strings, at most 4194304"));
  InferRequest cut = Request("same", {1, 2}, {"a", "b"});
  cut.inputs[0].data = cut.inputs[0].data.first(8);
  EXPECT_EQ(CodeOf(Ask(std::move(cut))), ErrorCode::kInvalidArgument);
  InferRequest numbers = Request("same", {1, 2}, {"a", "b"});
  numbers.inputs[0].type = DataType::kInt8;
  EXPECT_EQ(CodeOf(Ask(std::move(numbers))), ErrorCode::kInvalidArgument);
}

/// Counts, and has no room for more than `most`.
class Room final : public AnswerRoom {
 public:
  explicit Room(std::size_t most) : most_(most) {}
  Status Take(std::size_t bytes) override {
    EXPECT_GT(bytes, taken);
    taken = bytes;
    if (bytes <= most_) return {};
    return Fail(ErrorCode::kUnavailable, "no room");
  }
  std::size_t taken = 0;

 private:
  const std::size_t most_;
};

TEST_F(StringsTest, TheAnswersMemoryIsCounted) {
  Serve("");
  for (const std::string model : {"same", "shout"}) {
    const auto room = std::make_shared<Room>(2000);
    InferRequest request = Request(model, {1, 2}, {std::string(700, 'a'), std::string(300, 'b')});
    request.room = room;
    EXPECT_EQ(AnswerOf(Ask(std::move(request))).size(), 2u);
    EXPECT_GE(room->taken, 1008u);
    request = Request(model, {1, 2}, {std::string(2000, 'a'), ""});
    request.room = std::make_shared<Room>(2000);
    EXPECT_EQ(CodeOf(Ask(std::move(request))), ErrorCode::kUnavailable) << model;
  }
}

TEST_F(StringsTest, WithoutAnEngineAModelThatComputesWithThemIsRefused) {
  engine_ = nullptr;
  Serve("");
  EXPECT_THAT(AnswerOf(Ask(Request("same", {1, 2}, {"a", "b"}))), ElementsAre("a", "b"));
  EXPECT_THAT(ReasonOf("shout"), HasSubstr("pip install onnxruntime"));
}

}  // namespace
}  // namespace lagoon

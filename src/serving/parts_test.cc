// Models that run in parts, because data decide shapes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Answer;
using testing::CodeOf;
using ::testing::Contains;
using ::testing::ElementsAreArray;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OnnxBuilder;
using testing::Parameter;
using testing::RequestFor;

void Transposed(onnx::NodeProto& node) {
  onnx::AttributeProto& perm = *node.add_attribute();
  perm.set_name("perm");
  perm.set_type(onnx::AttributeProto::INTS);
  perm.add_ints(1);
  perm.add_ints(0);
}

/// From "x" [8]: "picked" = twice its elements that are not 0; "where" = their places [1, n], which
/// the first part computes; "all" = -x, which does not depend on how many there are. The second
/// part has the op Floor, which tests can hold back.
onnx::ModelProto PicksElements() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Node("NonZero", {"x"}, "where")
                               .Node("Transpose", {"where"}, "at")
                               .Node("GatherND", {"x", "at"}, "elements")
                               .Node("Floor", {"elements"}, "whole")
                               .Node("Add", {"whole", "whole"}, "picked")
                               .Node("Neg", {"x"}, "all")
                               .Build();
  auto& graph = *model.mutable_graph();
  Transposed(*graph.mutable_node(1));
  for (const char* output : {"picked", "where", "all"}) graph.add_output()->set_name(output);
  graph.mutable_output(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  return model;
}

/// Eight numbers of which those in `bits` are not 0.
InferRequest Bits(unsigned bits, std::vector<std::string> outputs = {}) {
  std::vector<float> x(8);
  for (std::size_t i = 0; i < 8; ++i) x[i] = (bits >> i & 1) != 0 ? static_cast<float>(i + 1) : 0;
  InferRequest request = RequestFor("picks", {8}, std::move(x));
  request.outputs = std::move(outputs);
  return request;
}

void ExpectBits(const Answer& answer, unsigned bits) {
  ASSERT_TRUE(answer) << answer.error().message;
  std::vector<float> picked, all;
  std::vector<std::int64_t> where;
  for (std::int64_t i = 0; i < 8; ++i) {
    const bool is_set = (bits >> i & 1) != 0;
    const auto x = static_cast<float>(is_set ? i + 1 : 0);
    if (is_set) picked.push_back(2 * x);
    if (is_set) where.push_back(i);
    all.push_back(-x);
  }
  const auto count = static_cast<std::int64_t>(where.size());
  ASSERT_EQ(answer->outputs.size(), 3u);
  EXPECT_EQ(answer->outputs[0].name, "picked");
  EXPECT_EQ(answer->outputs[0].dims, Dims{count});
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray(picked));
  EXPECT_EQ(answer->outputs[1].name, "where");
  EXPECT_EQ(answer->outputs[1].type, DataType::kInt64);
  EXPECT_EQ(answer->outputs[1].dims, (Dims{1, count}));
  EXPECT_EQ(testing::Values<std::int64_t>(answer->outputs[1]), where);
  EXPECT_THAT(Floats(answer->outputs[2]), ElementsAreArray(all));
}

class PartsTest : public testing::CoreTest {};

TEST_F(PartsTest, AnswersWithTheActualShapes) {
  repository_.AddModel("picks", PicksElements());
  Open();
  for (const unsigned bits : {0x0FU, 0x81U, 0xFFU, 0x0U, 0x0FU}) {
    ExpectBits(Ask(Bits(bits)), bits);
  }
  const testing::Answer first = Ask(Bits(0x7)), second = Ask(Bits(0xE));  // three elements both
  ASSERT_TRUE(first && second);
  EXPECT_GT(first->plan_wait, Nanoseconds(0));
  EXPECT_EQ(second->plan_wait, Nanoseconds(0));
  EXPECT_GE(second->job.finished, second->job.posted);
}

TEST_F(PartsTest, BestEffortWorkWaitsBetweenTheParts) {
  repository_.AddModel("picks", PicksElements(), testing::kRealTime);
  Open();
  ExpectBits(Ask(Bits(0x0F)), 0x0F);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().holds, 1u);
}

TEST_F(PartsTest, TheTimeAloneIsThatOfAllParts) {
  // No model is as fast as that, so the warning must come, and name the parts.
  repository_.AddModel("picks", PicksElements(), Parameter("lagoon.deadline_ms", "0.000001"));
  Open();
  const ModelStatus status = core_->Models().front();
  EXPECT_THAT(status.standalone_for, HasSubstr("2 parts"));
  EXPECT_THAT(status.warnings,
              Contains(AllOf(HasSubstr("above its lagoon.deadline_ms"), HasSubstr("2 parts"))));
}

TEST_F(PartsTest, TheMetadataSayWhatIsOpen) {
  repository_.AddModel("picks", PicksElements());
  Open();
  const auto metadata = core_->Metadata("picks", "");
  ASSERT_TRUE(metadata);
  ASSERT_EQ(metadata->outputs.size(), 3u);
  EXPECT_EQ(metadata->outputs[1].dims, (Dims{-1, -1}));
  EXPECT_EQ(metadata->outputs[2].dims, Dims{8});
}

TEST_F(PartsTest, OnlyTheOutputsThatAreAskedFor) {
  repository_.AddModel("picks", PicksElements());
  Open();
  for (const char* output : {"all", "picked", "where"}) {
    const Answer answer = Ask(Bits(0x15, {output}));
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->outputs.size(), 1u);
    EXPECT_EQ(answer->outputs[0].name, output);
    EXPECT_EQ(ElementCount(answer->outputs[0].dims), std::string_view(output) == "all" ? 8 : 3);
  }
}

TEST_F(PartsTest, ManyClients) {
  repository_.AddModel(
      "picks", PicksElements(),
      Parameter("lagoon.max_plans", "4") + testing::kRealTime + "instance_group { count: 2 }");
  Open();
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (unsigned client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (unsigned i = 0; i < 50; ++i) {
        const unsigned bits = (client * 37 + i * 11) & 0xFF;
        InferRequest request = Bits(bits);
        request.priority = i % 3;
        const Answer answer = Ask(std::move(request));
        ExpectBits(answer, bits);
        if (answer) ++answered;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 200);
  const ModelStatistics statistics = StatisticsOf("picks");
  EXPECT_EQ(statistics.success.count, 200u);  // requests, not parts
}

TEST_F(PartsTest, ExpiresAndIsCancelledBetweenParts) {
  repository_.AddModel("picks", PicksElements());
  testing::Gate& second_part = UseGates().blocks;
  Open();
  int expired = 0;
  for (unsigned i = 0; i < 60; ++i) {
    InferRequest request = Bits(i);
    request.timeout = std::chrono::microseconds(1 + i * 20);
    const Answer answer = Ask(std::move(request));
    if (answer) continue;
    EXPECT_EQ(CodeOf(answer), ErrorCode::kDeadlineExceeded);
    ++expired;
  }
  for (unsigned i = 0; i < 60; ++i) {
    Sent sent = Send(Bits(i));
    std::this_thread::sleep_for(std::chrono::microseconds(i * 10));
    core_->Cancel(sent.handle);
    const Answer answer = sent.answer.get();
    if (answer) continue;
    EXPECT_EQ(CodeOf(answer), ErrorCode::kCancelled);
  }
  second_part.Close();
  Sent sent = Send(Bits(0x7));
  AwaitRunning(sent);
  core_->Cancel(sent.handle);
  EXPECT_EQ(CodeOf(sent.answer.get()), ErrorCode::kCancelled);
  second_part.Open();
  EXPECT_GT(expired, 0);
  ExpectBits(Ask(Bits(0x3C)), 0x3C);
}

TEST_F(PartsTest, ADrainAnswersEveryRequest) {
  repository_.AddModel("picks", PicksElements());
  Open();
  std::vector<Sent> sent;
  for (unsigned i = 0; i < 20; ++i) sent.push_back(Send(Bits(i)));
  core_->Drain(Now());
  for (Sent& request : sent) {
    const Answer answer = request.answer.get();
    if (!answer) {
      EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
    }
  }
}

TEST_F(PartsTest, AShapeThatALaterPartRefusesIsAnswered) {
  // Three of x and the picked elements must fit each other.
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Constant("three", {3}, {1, 1, 1})
                               .Node("NonZero", {"x"}, "where")
                               .Node("Transpose", {"where"}, "at")
                               .Node("GatherND", {"x", "at"}, "elements")
                               .Node("Add", {"elements", "three"}, "picked")
                               .Build();
  Transposed(*model.mutable_graph()->mutable_node(1));
  model.mutable_graph()->add_output()->set_name("picked");
  repository_.AddModel("picks", model);
  Open();
  EXPECT_TRUE(Ask(Bits(0x7)));
  const Answer refused = Ask(Bits(0x1E));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("(Add, opset"));
  EXPECT_TRUE(Ask(Bits(0x70)));
}

/// Models whose plans are cut into parts (lagoon.parts).
class LagoonPartsTest : public testing::CoreTest {
 protected:
  /// "deep" computes a function of x in `nodes` kernels.
  void AddDeep(const std::string& config, int nodes = 6) {
    OnnxBuilder builder;
    builder.Input("x", {1, 4});
    std::string last = "x";
    for (int i = 0; i < nodes; ++i) {
      const std::string next = i + 1 == nodes ? "y" : "v" + std::to_string(i);
      builder.Node("Exp", {last}, next);
      last = next;
    }
    repository_.AddModel("deep", builder.Output("y", {1, 4}).Build(), config);
  }
};

TEST_F(LagoonPartsTest, AModelWithPartsAnswers) {
  AddDeep(Parameter("lagoon.parts", "auto"));
  Open();
  EXPECT_EQ(ReasonOf("deep"), "");
  EXPECT_TRUE(Ask(testing::RequestFor("deep", {1, 4}, {0, 1, 2, 3})));
}

TEST_F(LagoonPartsTest, AModelThatIsLongIsCutAndSaysSo) {
  AddDeep("");
  repository_.AddModel("picks", PicksElements());
  split_long_ = Nanoseconds(1);
  Open("split");
  for (const ModelStatus& status : core_->Models()) {
    const bool cut = status.standalone_for.find("cut into ") != std::string::npos;
    EXPECT_EQ(cut, status.name == "deep") << status.standalone_for;
  }
  EXPECT_TRUE(Ask(testing::RequestFor("deep", {1, 4}, {0, 1, 2, 3})));
}

TEST_F(LagoonPartsTest, AModelWithItsOwnNumberOfPartsKeepsIt) {
  AddDeep(Parameter("lagoon.parts", "2"));
  split_long_ = Nanoseconds(1);
  Open("split");
  EXPECT_THAT(core_->Models().front().standalone_for, HasSubstr("cut into 2 parts"));
}

TEST_F(LagoonPartsTest, AModelWithTooFewOpsIsNotServed) {
  AddDeep(Parameter("lagoon.parts", "4"), 2);
  Open();
  EXPECT_THAT(ReasonOf("deep"), HasSubstr("4 parts, but the model has 2 ops"));
}

TEST_F(LagoonPartsTest, AModelThatDataDecideIsNotServedInParts) {
  repository_.AddModel("picks", PicksElements(), Parameter("lagoon.parts", "auto"));
  Open();
  EXPECT_THAT(ReasonOf("picks"), HasSubstr("parameter 'lagoon.parts' is 'auto', but data decide"));
}

// The second part is a constant: with 0 it has neither kernels nor bytes to copy.
TEST_F(PartsTest, APartWithoutElementsIsAnswered) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1})
                               .Node("Cast", {"x"}, "n")
                               .Node("ConstantOfShape", {"n"}, "y")
                               .Build();
  onnx::AttributeProto& to = *model.mutable_graph()->mutable_node(0)->add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::INT64);
  model.mutable_graph()->add_output()->set_name("y");
  repository_.AddModel("zeros", model);
  Open();
  for (const int count : {3, 0, 0, 3}) {
    const Answer answer = Ask(RequestFor("zeros", {1}, {static_cast<float>(count)}));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, Dims{count});
    EXPECT_EQ(Floats(answer->outputs[0]).size(), static_cast<std::size_t>(count));
  }
  EXPECT_EQ(StatisticsOf("zeros").pending, 0u);
}

}  // namespace
}  // namespace lagoon

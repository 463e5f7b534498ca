// Models with kernels that an engine computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/testing/test_engine.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::CodeOf;
using ::testing::ElementsAreArray;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OnnxBuilder;
using testing::RequestFor;
using testing::TestEngine;

/// Nodes whose ops are the engine's get its domain.
onnx::ModelProto WithTestOps(onnx::ModelProto model) {
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("test");
  import.set_version(1);
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    for (const char* op : {"Twice", "Wait", "Positive", "Large"}) {
      if (node.op_type() == op) node.set_domain("test");
    }
  }
  return model;
}

/// x [4] -> Relu -> Wait -> Neg -> y.
onnx::ModelProto Waits() {
  return WithTestOps(OnnxBuilder()
                         .Input("x", {4})
                         .Node("Relu", {"x"}, "a")
                         .Node("Wait", {"a"}, "b")
                         .Node("Neg", {"b"}, "y")
                         .Output("y", {4})
                         .Build());
}

/// x [8] -> `op` -> picked -> Add -> y: twice the elements that the op picks, and z = -x.
onnx::ModelProto Picks(const std::string& op) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Node(op, {"x"}, "picked")
                               .Node("Add", {"picked", "picked"}, "y")
                               .Node("Neg", {"x"}, "z")
                               .Build();
  for (const char* output : {"y", "picked", "z"})
    model.mutable_graph()->add_output()->set_name(output);
  return WithTestOps(std::move(model));
}

class EngineTest : public testing::CoreTest {
 protected:
  EngineTest() { engine_ = testing::HostOf(test_engine_); }
  TestEngine::Gate& gate() { return test_engine_->gate(); }

  /// Eight numbers of which those in `bits` are above 10 and the others are 0.
  InferRequest Bits(unsigned bits) {
    std::vector<float> x(8);
    for (std::size_t i = 0; i < 8; ++i)
      x[i] = (bits >> i & 1) != 0 ? 11 + static_cast<float>(i) : 0;
    return RequestFor("picks", {8}, std::move(x));
  }

  void ExpectBits(const Answer& answer, unsigned bits) {
    ASSERT_TRUE(answer) << answer.error().message;
    std::vector<float> picked, twice;
    for (unsigned i = 0; i < 8; ++i) {
      if ((bits >> i & 1) == 0) continue;
      picked.push_back(11 + static_cast<float>(i));
      twice.push_back(2 * picked.back());
    }
    ASSERT_EQ(answer->outputs.size(), 3U);
    EXPECT_EQ(answer->outputs[0].dims, Dims{static_cast<std::int64_t>(picked.size())});
    EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray(twice));
    EXPECT_EQ(answer->outputs[1].dims, answer->outputs[0].dims);
    EXPECT_THAT(Floats(answer->outputs[1]), ElementsAreArray(picked));
    EXPECT_EQ(Floats(answer->outputs[2]).size(), 8U);
  }

  /// A request of the model "waits" whose kernel is running.
  Sent SendWaiting() {
    gate().Close();
    Sent sent = Send(RequestFor("waits", {4}, {1, -2, 3, 4}));
    gate().AwaitWaiting(1);
    return sent;
  }

  std::shared_ptr<TestEngine> test_engine_ = std::make_shared<TestEngine>();
};

TEST_F(EngineTest, AnswersWithShapesThatOnlyARunTells) {
  repository_.AddModel("picks", Picks("Positive"));
  Open();
  for (const unsigned bits : {0x0FU, 0x81U, 0xFFU, 0x0U, 0x0FU}) ExpectBits(Ask(Bits(bits)), bits);
  EXPECT_GT(StatisticsOf("picks").opaque_max, Nanoseconds(0));
}

TEST_F(EngineTest, ARequestThatRefutesAnAssumedShapeIsAnsweredAllTheSame) {
  // Neither zeros nor ones are above 10, so that the first plan has no picked elements.
  repository_.AddModel("picks", Picks("Large"));
  Open();
  ExpectBits(Ask(Bits(0)), 0);
  for (const unsigned bits : {0x03U, 0x80U, 0x0U}) ExpectBits(Ask(Bits(bits)), bits);
  const ModelStatistics statistics = StatisticsOf("picks");
  EXPECT_EQ(statistics.success.count, 4U);
  EXPECT_EQ(statistics.fail.count, 0U);
}

TEST_F(EngineTest, ManyClients) {
  repository_.AddModel("picks", Picks("Large"),
                       std::string(testing::kRealTime) + "instance_group { count: 2 }");
  Open();
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (unsigned client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (unsigned i = 0; i < 30; ++i) {
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
  EXPECT_EQ(answered, 120);
}

TEST_F(EngineTest, ACancelledRequestIsAnsweredWhenItsKernelIsThrough) {
  repository_.AddModel("waits", Waits());
  Open();
  Sent sent = SendWaiting();
  core_->Cancel(sent.handle);
  EXPECT_FALSE(sent.Answered());  // the kernel still reads and writes its memory
  gate().Open();
  EXPECT_EQ(CodeOf(sent.answer.get()), ErrorCode::kCancelled);
  EXPECT_TRUE(Ask(RequestFor("waits", {4}, {1, -2, 3, 4})));
}

TEST_F(EngineTest, ADeadlineThatPassesWhileTheKernelRuns) {
  repository_.AddModel("waits", Waits());
  Open();
  gate().Close();
  // On a busy machine a short deadline passes before the kernel runs.
  for (Nanoseconds timeout = 5ms;; timeout *= 2) {
    InferRequest request = RequestFor("waits", {4}, {1, -2, 3, 4});
    request.timeout = timeout;
    const TimePoint deadline = Now() + timeout;
    Sent sent = Send(std::move(request));
    while (!sent.Answered() && gate().waiting() == 0) std::this_thread::yield();
    const bool runs = !sent.Answered();
    while (Now() < deadline + 1ms) std::this_thread::yield();
    if (runs) gate().Open();
    EXPECT_EQ(CodeOf(sent.answer.get()), ErrorCode::kDeadlineExceeded);
    if (runs) break;
  }
}

TEST_F(EngineTest, ADrainWaitsForTheKernel) {
  repository_.AddModel("waits", Waits());
  Open();
  Sent sent = SendWaiting();
  std::thread drain([&] { core_->Drain(Now()); });
  EXPECT_FALSE(sent.Answered());
  gate().Open();
  drain.join();
  const Answer answer = sent.answer.get();
  if (!answer) {
    EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
  }
  core_.reset();
}

TEST_F(EngineTest, RealTimeRequestsPassAWaitingKernelOnOtherWorkers) {
  repository_.AddModel("waits", Waits());
  repository_.AddModel("small", testing::SmallModel(), testing::kRealTime);
  repository_.AddModel("slow", testing::SlowModel());
  Open();
  Sent waiting = SendWaiting();
  Sent slow = Send(testing::SlowRequest());  // best-effort: revoked, and goes on
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Ask(testing::SmallRequest()));
  EXPECT_FALSE(waiting.Answered());
  gate().Open();
  const Answer answer = waiting.answer.get();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray({-1.0F, -0.0F, -3.0F, -4.0F}));
  EXPECT_TRUE(slow.answer.get());
}

/// Picks the elements that are not 0, so that Twice is in the second part.
onnx::ModelProto UnknownInALaterPart() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Node("NonZero", {"x"}, "where")
                               .Node("Cast", {"where"}, "places")
                               .Node("Twice", {"places"}, "y")
                               .Build();
  onnx::AttributeProto& to = *model.mutable_graph()->mutable_node(1)->add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::FLOAT);
  model.mutable_graph()->add_output()->set_name("y");
  return WithTestOps(std::move(model));
}

TEST_F(EngineTest, WithoutAnEngineAnUnknownOpOfALaterPartIsRefusedAtLoad) {
  engine_ = nullptr;
  repository_.AddModel("picks", UnknownInALaterPart());
  Open();
  EXPECT_THAT(ReasonOf("picks"), HasSubstr("op 'Twice'"));
  EXPECT_THAT(ReasonOf("picks"), HasSubstr("pip install onnxruntime"));
}

TEST_F(EngineTest, AnUnknownOpOfALaterPartRuns) {
  repository_.AddModel("picks", UnknownInALaterPart());
  Open();
  const Answer answer = Ask(Bits(0x81));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray({0.0F, 14.0F}));
}

/// y = Abs(x) if the sum of x is above 0; else Twice(x).
onnx::ModelProto UnknownInABranch() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Constant("zero", {}, {0})
                               .Node("ReduceSum", {"x"}, "sum")
                               .Node("Greater", {"sum", "zero"}, "up")
                               .Node("If", {"up"}, "y")
                               .Build();
  onnx::AttributeProto& keep = *model.mutable_graph()->mutable_node(0)->add_attribute();
  keep.set_name("keepdims");
  keep.set_type(onnx::AttributeProto::INT);
  keep.set_i(0);
  for (const auto& [name, op] :
       {std::pair("then_branch", "Abs"), std::pair("else_branch", "Twice")}) {
    onnx::AttributeProto& branch = *model.mutable_graph()->mutable_node(2)->add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->set_name(name);
    onnx::NodeProto& node = *branch.mutable_g()->add_node();
    node.set_op_type(op);
    if (node.op_type() == "Twice") node.set_domain("test");
    node.add_input("x");
    node.add_output(std::string(name) + "_y");
    branch.mutable_g()->add_output()->set_name(node.output(0));
  }
  model.mutable_graph()->add_output()->set_name("y");
  return WithTestOps(std::move(model));
}

TEST_F(EngineTest, WithoutAnEngineABranchOfUnknownOpsIsRefusedWhenItIsTaken) {
  engine_ = nullptr;
  repository_.AddModel("picks", UnknownInABranch());
  Open();
  const Answer known = Ask(RequestFor("picks", {8}, {1, 1, 1, 1, 1, 1, 1, -1}));
  EXPECT_TRUE(known) << known.error().message;
  const Answer unknown = Ask(RequestFor("picks", {8}, {-1, 1, -1, 0, 0, 0, 0, 0}));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("pip install onnxruntime"));
}

TEST_F(EngineTest, ABranchOfUnknownOpsRunsWhenItIsTaken) {
  repository_.AddModel("picks", UnknownInABranch());
  Open();
  const Answer answer = Ask(RequestFor("picks", {8}, {-1, 1, -1, 0, 0, 0, 0, 0}));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(Floats(answer->outputs[0]),
              ElementsAreArray({-2.0F, 2.0F, -2.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F}));
}

}  // namespace
}  // namespace lagoon

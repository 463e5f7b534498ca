// Ensembles: requests that run through several models, and models that come and go under them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serving/config/model_config.pb.h"
#include "serving/core/repository_control.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// "y" = "x" times `factor`, with an open first dim.
onnx::ModelProto Times(float factor, std::int64_t columns = 4) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1, columns})
                               .Constant("factor", {1}, {factor})
                               .Node("Mul", {"x", "factor"}, "y")
                               .Output("y", {1, columns})
                               .Build();
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    auto& shape = *(*values)[0].mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_param("rows");
  }
  return model;
}

/// "y" = "a" - "b" [1,4].
onnx::ModelProto Difference() {
  return OnnxBuilder()
      .Input("a", {1, 4})
      .Input("b", {1, 4})
      .Node("Sub", {"a", "b"}, "y")
      .Output("y", {1, 4})
      .Build();
}

std::string Tensor(const std::string& kind, const std::string& name, const std::string& dims) {
  return kind + " { name: \"" + name + "\" data_type: TYPE_FP32 dims: [ " + dims + " ] }\n";
}

using Map = std::vector<std::array<std::string, 2>>;

std::string Step(const std::string& model, const Map& inputs, const Map& outputs) {
  std::string step = "step { model_name: \"" + model + "\" model_version: -1 ";
  for (const auto& [key, value] : inputs) {
    step += "input_map { key: \"" + key + "\" value: \"" + value + "\" } ";
  }
  for (const auto& [key, value] : outputs) {
    step += "output_map { key: \"" + key + "\" value: \"" + value + "\" } ";
  }
  return step + "}\n";
}

std::string Scheduling(const std::string& steps) {
  return "platform: \"ensemble\"\nensemble_scheduling {\n" + steps + "}\n";
}

/// "x" through `first` and `last` to "y", of dims `dims`.
std::string Chain(const std::string& first, const std::string& last,
                  const std::string& dims = "1, 4") {
  return Tensor("input", "x", dims) + Tensor("output", "y", dims) +
         Scheduling(Step(last, {{"x", "middle"}}, {{"y", "y"}}) +
                    Step(first, {{"x", "x"}}, {{"y", "middle"}}));
}

class EnsemblesTest : public CoreTest {
 protected:
  void AddEnsemble(const std::string& name, const std::string& config) {
    repository_.WriteFile(name + "/config.pbtxt", config);
    repository_.WriteFile(name + "/1/.keep", "");
  }
  void AddTwoAndThree(const std::string& config = "") {
    repository_.AddModel("two", Times(2), config);
    repository_.AddModel("three", Times(3), config);
  }
  /// Opens the core with these models only.
  void OpenWith(std::vector<std::string> models) {
    CoreOptions options;
    options.repository = repository_.path();
    options.models = std::move(models);
    options.device = Cpu(1);
    options.profile.runs = 1;
    options.engine = "none";
    auto core = OpenCore(options);
    ASSERT_TRUE(core.has_value()) << core.error().message;
    core_ = *std::move(core);
  }
  using Change = void (RepositoryControl::*)(const std::string&, std::function<void(Status)>);
  std::future<Status> Start(Change change, const std::string& model) {
    auto promise = std::make_shared<std::promise<Status>>();
    (core_->repository()->*change)(
        model, [promise](Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  Status Load(const std::string& model) {
    return Start(&RepositoryControl::LoadModel, model).get();
  }
  Status Unload(const std::string& model) {
    return Start(&RepositoryControl::UnloadModel, model).get();
  }
  bool IsServed(const std::string& model) { return core_->ModelReady(model, "").has_value(); }
  std::vector<float> Output(const Answer& answer, std::size_t at = 0) {
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? Floats(answer->outputs.at(at)) : std::vector<float>();
  }
};

// ---- Requests

TEST_F(EnsemblesTest, TheStepsRunInTheOrderOfTheirData) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three"));
  Open();
  InferRequest request = SmallRequest("six");
  request.id = "mine";
  const Answer answer = Ask(std::move(request));
  EXPECT_THAT(Output(answer), ElementsAre(6, 12, 18, -240));
  EXPECT_EQ(answer->outputs[0].name, "y");
  EXPECT_EQ(answer->outputs[0].dims, (Dims{1, 4}));
  EXPECT_EQ(answer->model, "six");
  EXPECT_EQ(answer->version, "1");
  EXPECT_EQ(answer->id, "mine");
  EXPECT_LE(answer->job.posted, answer->job.started);
  EXPECT_LE(answer->job.computed, answer->job.finished);
  for (const char* const model : {"two", "three", "six"}) {
    const ModelStatistics statistics = StatisticsOf(model);
    EXPECT_EQ(statistics.success.count, 1u) << model;
    EXPECT_EQ(statistics.inference_count, 1u) << model;
    EXPECT_EQ(statistics.execution_count, 1u) << model;
    EXPECT_EQ(statistics.fail.count, 0u) << model;
  }
  EXPECT_GE(StatisticsOf("six").success.ns, StatisticsOf("two").compute_infer.ns);
}

TEST_F(EnsemblesTest, MetadataAndConfigShowTheEnsemble) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three", "-1, 4") + Parameter("lagoon.deadline_ms", "3600000"));
  Open();
  const auto metadata = core_->Metadata("six", "");
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata->platform, "ensemble");
  EXPECT_EQ(metadata->inputs[0].dims, (Dims{-1, 4}));
  EXPECT_EQ(metadata->outputs[0].name, "y");
  const auto config = core_->Config("six", "");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->platform(), "ensemble");
  EXPECT_EQ(config->backend(), "");
  ASSERT_EQ(config->ensemble_scheduling().step_size(), 2);
  EXPECT_EQ(config->ensemble_scheduling().step(1).model_name(), "two");
  EXPECT_EQ(config->instance_group_size(), 0);
}

TEST_F(EnsemblesTest, BatchesRunThroughAllSteps) {
  AddTwoAndThree("max_batch_size: 4 dynamic_batching { }");
  AddEnsemble("six", "max_batch_size: 4\n" + Chain("two", "three", "4"));
  Open();
  const Answer answer = Ask(SmallRequest("six", 1, 3));
  EXPECT_THAT(Output(answer), ElementsAre(6, 12, 18, -240, 12, 12, 18, -240, 18, 12, 18, -240));
  EXPECT_EQ(StatisticsOf("six").inference_count, 3u);
  EXPECT_EQ(StatisticsOf("six").execution_count, 1u);
  EXPECT_EQ(StatisticsOf("three").inference_count, 3u);
  const Answer large = Ask(SmallRequest("six", 1, 5));
  ASSERT_EQ(CodeOf(large), ErrorCode::kInvalidArgument);
  EXPECT_THAT(large.error().message, AllOf(HasSubstr("'six'"), HasSubstr("1 to 4")));
}

/// left = 2x, right = 3x, y = left - right.
std::string Diamond() {
  return Tensor("input", "x", "1, 4") + Tensor("output", "y", "1, 4") +
         Tensor("output", "left", "1, 4") +
         Scheduling(Step("two", {{"x", "x"}}, {{"y", "left"}}) +
                    Step("three", {{"x", "x"}}, {{"y", "right"}}) +
                    Step("difference", {{"a", "left"}, {"b", "right"}}, {{"y", "y"}}));
}

TEST_F(EnsemblesTest, ATensorMayHaveManyReadersAndBeAnOutputToo) {
  AddTwoAndThree();
  repository_.AddModel("difference", Difference());
  AddEnsemble("diamond", Diamond());
  Open();
  const Answer answer = Ask(SmallRequest("diamond"));
  EXPECT_THAT(Output(answer, 0), ElementsAre(-1, -2, -3, 40));
  EXPECT_THAT(Output(answer, 1), ElementsAre(2, 4, 6, -80));
  EXPECT_EQ(answer->outputs[1].name, "left");
}

TEST_F(EnsemblesTest, OnlyStepsRunThatTheAnswerNeeds) {
  AddTwoAndThree();
  repository_.AddModel("difference", Difference());
  AddEnsemble("diamond", Diamond());
  Open();
  InferRequest request = SmallRequest("diamond");
  request.outputs = {"left"};
  request.classes = {2};
  const Answer answer = Ask(std::move(request));
  EXPECT_THAT(Output(answer), ElementsAre(2, 4, 6, -80));
  EXPECT_EQ(answer->outputs.size(), 1u);
  ASSERT_TRUE(answer->outputs[0].classes);
  EXPECT_EQ(answer->outputs[0].classes->count, 2u);
  EXPECT_EQ(StatisticsOf("two").success.count, 1u);
  EXPECT_EQ(StatisticsOf("three").success.count, 0u);
  EXPECT_EQ(StatisticsOf("difference").success.count, 0u);
}

/// Counts what it is asked for; refuses above `most`.
class CountingRoom final : public AnswerRoom {
 public:
  explicit CountingRoom(std::size_t most) : most_(most) {}
  Status Take(std::size_t bytes) override {
    if (bytes > most_) return Fail(ErrorCode::kUnavailable, "no room");
    taken = bytes;
    return {};
  }
  std::atomic<std::size_t> taken{0};

 private:
  const std::size_t most_;
};

/// Two steps that do not need each other: "slow" is held.
std::string Beside() {
  return Tensor("input", "x", "256, 1024") + Tensor("output", "y", "256, 1024") +
         Tensor("output", "z", "256, 1024") +
         Scheduling(Step("slow", {{"x", "x"}}, {{"y", "y"}}) +
                    Step("quick", {{"x", "x"}}, {{"y", "z"}}));
}

TEST_F(EnsemblesTest, StepsThatDoNotNeedEachOtherRunAtTheSameTime) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns));
  AddEnsemble("beside", Beside());
  Open();
  gates_->blocks.Close();
  constexpr std::size_t kBytes = kSlowRows * kSlowColumns * sizeof(float);
  const auto room = std::make_shared<CountingRoom>(2 * kBytes);
  InferRequest request = SlowRequest("beside");
  request.room = room;
  Sent sent = Send(std::move(request));
  AwaitRunning(sent);
  while (room->taken < 2 * kBytes) std::this_thread::yield();  // until both have jobs
  EXPECT_FALSE(sent.Answered());
  LetGo();
  const Answer answer = sent.answer.get();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->outputs.size(), 2u);
}

/// "x" through "slow", which is held, and "quick".
std::string HeldChain() { return Chain("slow", "quick", "256, 1024"); }

TEST_F(EnsemblesTest, ACancelEndsTheStepThatRunsAndThoseBehindIt) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns));
  AddEnsemble("chain", HeldChain());
  Open();
  gates_->blocks.Close();
  Sent sent = Send(SlowRequest("chain"));
  AwaitRunning(sent);
  core_->Cancel(sent.handle);
  LetGo();
  const Answer answer = sent.answer.get();
  ASSERT_EQ(CodeOf(answer), ErrorCode::kCancelled);
  EXPECT_EQ(answer.error().message, "model 'chain': request cancelled");
  EXPECT_EQ(StatisticsOf("chain").cancelled, 1u);
  EXPECT_EQ(StatisticsOf("slow").cancelled, 1u);
  EXPECT_EQ(StatisticsOf("quick").success.count, 0u);
  EXPECT_TRUE(Ask(SlowRequest("chain"))) << "the next one runs";
}

TEST_F(EnsemblesTest, OneDeadlineHoldsForAllSteps) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns),
                       Parameter("lagoon.deadline_ms", "0.000001"));
  AddEnsemble("chain", HeldChain());
  Open();
  EXPECT_TRUE(Ask(SlowRequest("chain"))) << "a step's own deadline is for requests of its own";
  gates_->blocks.Close();
  InferRequest request = SlowRequest("chain");
  request.timeout = std::chrono::milliseconds(20);
  Sent sent = Send(std::move(request));
  AwaitRunning(sent);
  const TimePoint late = Now() + std::chrono::milliseconds(20);
  while (Now() < late) std::this_thread::yield();
  LetGo();
  const Answer answer = sent.answer.get();
  ASSERT_EQ(CodeOf(answer), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(answer.error().message,
              AllOf(StartsWith("Request timeout expired: model 'chain'"), HasSubstr("step[")));
  EXPECT_EQ(StatisticsOf("chain").deadline_misses, 1u);
}

TEST_F(EnsemblesTest, TheErrorOfAStepNamesTheStep) {
  AddTwoAndThree("max_batch_size: 2");
  AddEnsemble("six", Chain("two", "three", "-1, 4"));
  Open();
  const Answer answer = Ask(SmallRequest("six", 1, 3));
  ASSERT_EQ(CodeOf(answer), ErrorCode::kInvalidArgument);
  EXPECT_THAT(answer.error().message,
              AllOf(StartsWith("model 'six': ensemble_scheduling.step[1] (model 'two'): "),
                    HasSubstr("1 to 2")));
  EXPECT_EQ(StatisticsOf("six").fail.count, 1u);
}

TEST_F(EnsemblesTest, TheTensorsBetweenStepsTakeRoomToo) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three"));
  Open();
  const auto room = std::make_shared<CountingRoom>(32);
  InferRequest request = SmallRequest("six");
  request.room = room;
  EXPECT_TRUE(Ask(std::move(request)));
  EXPECT_EQ(room->taken, 32u);  // two tensors of 4 floats
  request = SmallRequest("six");
  request.room = std::make_shared<CountingRoom>(31);
  EXPECT_EQ(CodeOf(Ask(std::move(request))), ErrorCode::kUnavailable);
}

TEST_F(EnsemblesTest, AllStepsAreOfOneClass) {
  AddTwoAndThree(kRealTime);
  AddEnsemble("six", kRealTime + Chain("two", "three"));
  AddEnsemble("slow_six", Chain("two", "three"));
  Open();
  EXPECT_TRUE(Ask(SmallRequest("six")));
  InferRequest request = SmallRequest("six");
  request.priority = 2;
  EXPECT_TRUE(Ask(std::move(request)));
  EXPECT_THAT(ReasonOf("slow_six"), HasSubstr("the model is real-time (PRIORITY_MAX)"));
}

TEST_F(EnsemblesTest, ARequestThatHasBegunEndsWhileTheServerDrains) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns));
  AddEnsemble("chain", HeldChain());
  Open();
  gates_->blocks.Close();
  Sent sent = Send(SlowRequest("chain"));
  AwaitRunning(sent);
  std::thread drain([&] { core_->Drain(kNoDeadline); });
  while (core_->Ready()) std::this_thread::yield();
  while (CodeOf(Ask(SlowRequest("quick"))) != ErrorCode::kUnavailable) std::this_thread::yield();
  LetGo();
  const Answer answer = sent.answer.get();
  EXPECT_TRUE(answer) << answer.error().message;
  drain.join();
}

TEST_F(EnsemblesTest, ARequestThatTheServerEndsSaysSo) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns));
  AddEnsemble("chain", HeldChain());
  Open();
  gates_->blocks.Close();
  Sent sent = Send(SlowRequest("chain"));
  AwaitRunning(sent);
  std::thread drain([&] { core_->Drain(Now()); });
  while (core_->Ready()) std::this_thread::yield();
  LetGo();
  const Answer answer = sent.answer.get();
  drain.join();
  if (!answer) {  // the step may have ended before
    EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
    EXPECT_THAT(answer.error().message, HasSubstr("the server is shutting down"));
  }
}

TEST_F(EnsemblesTest, ManyRequestsFromManyThreads) {
  AddTwoAndThree("max_batch_size: 4 dynamic_batching { }");
  AddEnsemble("six", "max_batch_size: 4\n" + Chain("two", "three", "4"));
  Open();
  std::vector<std::jthread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 100; ++i) {
        const float first = static_cast<float>(client * 1000 + i);
        Sent sent = Send(SmallRequest("six", first, 1 + i % 2));
        if (i % 5 == 4) core_->Cancel(sent.handle);
        const Answer answer = sent.answer.get();
        if (answer) {
          EXPECT_EQ(Floats(answer->outputs[0])[0], 6 * first);
        } else {
          EXPECT_EQ(CodeOf(answer), ErrorCode::kCancelled) << answer.error().message;
        }
      }
    });
  }
}

// ---- Models come and go

TEST_F(EnsemblesTest, AnEnsembleLoadsItsSteps) {
  AddTwoAndThree();
  repository_.AddModel("other", Times(5));
  AddEnsemble("six", Chain("two", "three"));
  OpenWith({"six"});
  EXPECT_TRUE(Ask(SmallRequest("six")));
  EXPECT_EQ(ReasonOf("other"), "not loaded");
  OpenWith({});
  EXPECT_EQ(ReasonOf("two"), "not loaded");
  const Status loaded = Load("six");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(Output(Ask(SmallRequest("six"))), ElementsAre(6, 12, 18, -240));
  EXPECT_TRUE(IsServed("two"));
  EXPECT_FALSE(IsServed("other"));
  ASSERT_TRUE(Unload("six"));
  EXPECT_TRUE(IsServed("two")) << "the steps stay";
  EXPECT_FALSE(IsServed("six"));
}

TEST_F(EnsemblesTest, AnEnsembleIsServedWhileItsStepsAre) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three"));
  OpenWith({"six"});
  ASSERT_TRUE(Unload("three"));
  EXPECT_FALSE(IsServed("six"));
  EXPECT_THAT(ReasonOf("six"),
              AllOf(HasSubstr("step[0] (model 'three')"), HasSubstr("not loaded")));
  EXPECT_EQ(CodeOf(Ask(SmallRequest("six"))), ErrorCode::kUnavailable);
  repository_.AddModel("three", Times(30));
  ASSERT_TRUE(Load("three"));
  EXPECT_EQ(ReasonOf("six"), "");
  EXPECT_THAT(Output(Ask(SmallRequest("six"))), ElementsAre(60, 120, 180, -2400));
}

TEST_F(EnsemblesTest, AStepThatDoesNotFitAnyMoreMakesTheEnsembleUnavailable) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three"));
  OpenWith({"six"});
  repository_.AddModel("three", Times(3, 5));
  ASSERT_TRUE(Load("three"));
  EXPECT_FALSE(IsServed("six"));
  EXPECT_THAT(ReasonOf("six"), HasSubstr("its input 'x' is FP32 [-1,5]"));
  const Status loaded = Load("six");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(loaded.error().message, HasSubstr("its input 'x' is FP32 [-1,5]"));
}

TEST_F(EnsemblesTest, AStepIsFreedBehindTheRequestsOfTheEnsemble) {
  AddHeld();
  repository_.AddModel("quick", Times(2, kSlowColumns));
  AddEnsemble("chain", HeldChain());
  Open();
  gates_->blocks.Close();
  Sent sent = Send(SlowRequest("chain"));
  AwaitRunning(sent);
  auto unloaded = Start(&RepositoryControl::UnloadModel, "quick");
  while (IsServed("quick")) std::this_thread::yield();
  EXPECT_FALSE(sent.Answered());
  LetGo();
  const Answer answer = sent.answer.get();
  EXPECT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(unloaded.get());
}

TEST_F(EnsemblesTest, WhatCannotBeAStepIsNamed) {
  AddTwoAndThree();
  AddEnsemble("six", Chain("two", "three"));
  AddEnsemble("nested", Chain("two", "six"));
  AddEnsemble("unknown", Chain("two", "nothing"));
  AddEnsemble("a", Chain("two", "b"));
  AddEnsemble("b", Chain("two", "a"));
  AddEnsemble("old", Tensor("input", "x", "1, 4") + Tensor("output", "y", "1, 4") +
                         Scheduling("step { model_name: \"two\" model_version: 7 "
                                    "input_map { key: \"x\" value: \"x\" } "
                                    "output_map { key: \"y\" value: \"y\" } }"));
  Open();
  EXPECT_TRUE(Ask(SmallRequest("six")));
  EXPECT_THAT(ReasonOf("nested"), HasSubstr("(model 'six'): the model is an ensemble itself"));
  EXPECT_THAT(ReasonOf("unknown"),
              HasSubstr("(model 'nothing'): Request for unknown model: 'nothing' is not found"));
  EXPECT_THAT(ReasonOf("old"), HasSubstr("'two' version 7 is not found"));
  EXPECT_FALSE(IsServed("a"));
  EXPECT_FALSE(IsServed("b"));
  for (const char* const model : {"nested", "unknown", "old", "a"}) {
    EXPECT_FALSE(Load(model)) << model;
  }
  OpenWith({});
  const Status circle = Load("a");
  ASSERT_FALSE(circle);
  EXPECT_THAT(circle.error().message, HasSubstr("'b' is an ensemble itself"));
  EXPECT_TRUE(Load("six"));
}

TEST_F(EnsemblesTest, HostileDeclarationsAreRefused) {
  AddTwoAndThree();
  const auto with = [](const std::string& input, const std::string& rest = "") {
    return rest + input + Tensor("output", "y", "1, 4") +
           Scheduling(Step("two", {{"x", "x"}}, {{"y", "y"}}));
  };
  AddEnsemble("zero", with(Tensor("input", "x", "0, 4")));
  AddEnsemble("negative", with(Tensor("input", "x", "-2, 4")));
  AddEnsemble("untyped", with("input { name: \"x\" dims: [ 1, 4 ] }"));
  AddEnsemble("reshaped", with("input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] "
                               "reshape { shape: [ 1, 4 ] } }"));
  AddEnsemble("labels", with(Tensor("input", "x", "1, 4")) +
                            "output { name: \"z\" data_type: TYPE_FP32 dims: [ 1 ] "
                            "label_filename: \"../two/config.pbtxt\" }");
  AddEnsemble("batch", with(Tensor("input", "x", "4"), "max_batch_size: 5000\n"));
  Open();
  EXPECT_THAT(ReasonOf("zero"), HasSubstr("input 'x' is TYPE_FP32 [0,4]"));
  EXPECT_THAT(ReasonOf("negative"), HasSubstr("input 'x' is TYPE_FP32 [-2,4]"));
  EXPECT_THAT(ReasonOf("untyped"), HasSubstr("input 'x' is TYPE_INVALID"));
  EXPECT_THAT(ReasonOf("reshaped"), HasSubstr("input 'x' has a reshape"));
  EXPECT_THAT(ReasonOf("labels"), HasSubstr("output 'z'"));
  EXPECT_THAT(ReasonOf("batch"), HasSubstr("max_batch_size is 5000"));
}

}  // namespace
}  // namespace lagoon

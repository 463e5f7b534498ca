// Models that are loaded and unloaded while others, and they themselves, have requests in flight.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "serving/core/repository_control.h"
#include "serving/model/load_override.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// "y" = "x" [1,4] times `factor`.
onnx::ModelProto ScaledModel(float factor) {
  return OnnxBuilder()
      .Input("x", {1, 4})
      .Constant("factor", {1}, {factor})
      .Node("Mul", {"x", "factor"}, "y")
      .Output("y", {1, 4})
      .Build();
}

class ModelChangesTest : public CoreTest {
 protected:
  Status Load(const std::string& model) { return Wait(&RepositoryControl::LoadModel, model); }
  Status LoadWith(const std::string& model, LoadOverride with) {
    std::promise<Status> done;
    core_->repository()->LoadModel(model, std::move(with),
                                   [&done](Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  Status Unload(const std::string& model) { return Wait(&RepositoryControl::UnloadModel, model); }
  std::future<Status> StartUnload(const std::string& model) {
    return Start(&RepositoryControl::UnloadModel, model);
  }
  std::future<Status> StartLoad(const std::string& model) {
    return Start(&RepositoryControl::LoadModel, model);
  }
  /// `python`: the interpreter of models of Python.
  void OpenWith(std::vector<std::string> models, const std::string& python = "python3") {
    CoreOptions options;
    options.python = python;
    options.repository = repository_.path();
    options.models = std::move(models);
    options.device = Cpu(1);
    options.profile.runs = 1;
    options.engine = "none";
    auto core = OpenCore(options);
    ASSERT_TRUE(core.has_value()) << core.error().message;
    core_ = *std::move(core);
  }
  /// The first value of the answer to an input that begins with 1.
  float Value(const std::string& model) {
    const Answer answer = Ask(SmallRequest(model));
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer ? Floats(answer->outputs.front()).front() : 0;
  }

 private:
  using Change = void (RepositoryControl::*)(const std::string&, std::function<void(Status)>);
  std::future<Status> Start(Change change, const std::string& model) {
    auto promise = std::make_shared<std::promise<Status>>();
    std::future<Status> done = promise->get_future();
    (core_->repository()->*change)(
        model, [promise](Status status) { promise->set_value(std::move(status)); });
    return done;
  }
  Status Wait(Change change, const std::string& model) { return Start(change, model).get(); }
};

TEST_F(ModelChangesTest, ModelsAreLoadedAndUnloadedAtRunTime) {
  repository_.AddModel("small", SmallModel());
  repository_.AddModel("late", ScaledModel(3), kRealTime);
  OpenWith({"small"});
  EXPECT_EQ(ReasonOf("late"), "not loaded");
  const Answer early = Ask(SmallRequest("late"));
  ASSERT_EQ(CodeOf(early), ErrorCode::kUnavailable);
  EXPECT_THAT(early.error().message, AllOf(HasSubstr("'late'"), HasSubstr("is not loaded")));

  const Status loaded = Load("late");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(Value("late"), 3);
  EXPECT_TRUE(core_->ModelReady("late", ""));
  EXPECT_EQ(StatisticsOf("late").success.count, 1u);

  const Status unloaded = Unload("small");
  ASSERT_TRUE(unloaded) << unloaded.error().message;
  EXPECT_EQ(CodeOf(Ask(SmallRequest("small"))), ErrorCode::kUnavailable);
  EXPECT_EQ(Value("late"), 3) << "the other model goes on";
  const auto statistics = core_->Statistics("", "");
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->size(), 1u);
  ASSERT_TRUE(Load("small"));
  EXPECT_EQ(Value("small"), 5);  // 1 * 1 + 3 * 1 + 1
}

TEST_F(ModelChangesTest, AConfigOfTheRequestReplacesTheOneOfTheFile) {
  repository_.AddModel("small", SmallModel());
  OpenWith({"small"});
  ASSERT_TRUE(LoadWith("small", {R"({"name":"small","optimization":{"priority":"PRIORITY_MAX"},
                                     "instance_group":[{"count":2}]})",
                                 {}}));
  const auto config = core_->Config("small", "");
  EXPECT_EQ(config->instance_group(0).count(), 2);
  EXPECT_EQ(config->optimization().priority(), inference::ModelOptimizationPolicy::PRIORITY_MAX);
  EXPECT_EQ(Value("small"), 5);
  ASSERT_TRUE(Load("small"));
  EXPECT_EQ(core_->Config("small", "")->instance_group(0).count(), 1);
}

TEST_F(ModelChangesTest, FilesOfTheRequestAreAModelThatTheRepositoryNeedNotHave) {
  repository_.AddModel("small", SmallModel());
  OpenWith({"small"});
  const std::string three = ScaledModel(3).SerializeAsString();
  ASSERT_TRUE(LoadWith("sent", {"{}", {{"2/model.onnx", three}}}));
  EXPECT_EQ(Value("sent"), 3);
  EXPECT_EQ(core_->Metadata("sent", "")->versions, std::vector<std::string>{"2"});
  // In place of a model that the repository has, and back again.
  ASSERT_TRUE(LoadWith("small", {R"({"default_model_filename":"m.onnx",
      "output":[{"name":"y","label_filename":"names"}]})",
                                 {{"1/m.onnx", three}, {"names", "cat\ndog\n"}}}));
  EXPECT_EQ(Value("small"), 3);
  ASSERT_TRUE(Load("small"));
  EXPECT_EQ(Value("small"), 5);
  ASSERT_TRUE(Unload("sent"));
  EXPECT_EQ(Load("sent").error().code, ErrorCode::kNotFound);
}

TEST_F(ModelChangesTest, WhatARequestMustNotBringIsRefusedAndTheModelStays) {
  repository_.AddModel("small", SmallModel());
  OpenWith({"small"});
  const std::string model = ScaledModel(3).SerializeAsString();
  const std::map<std::string, std::string> good = {{"1/model.onnx", model}};
  const struct {
    LoadOverride with;
    const char* says;
    ErrorCode code = ErrorCode::kInvalidArgument;
  } cases[] = {
      {{"", good}, "'config'"},
      {{"no JSON", {}}, "the config: "},
      {{R"({"unknown":1})", {}}, "unknown"},
      {{R"({"name":"other"})", {}}, "name is 'other'"},
      {{R"({"name":"\ud800"})", {}}, "the config: "},
      {{R"({"backend":"lagoon_job"})", good}, "job program", ErrorCode::kUnimplemented},
      {{R"({"default_model_filename":"../../other/1/model.onnx"})", {}}, "default_model_filename"},
      {{R"({"default_model_filename":"/etc/passwd"})", {}}, "default_model_filename"},
      {{R"({"output":[{"name":"y","label_filename":"../other/labels"}]})", {}}, "label_filename"},
      {{R"({"ensemble_scheduling":{}})", {}}, "ensemble_scheduling has 0 steps"},
      {{"{}", {{"../x/1/model.onnx", model}}}, "'../x/1/model.onnx'"},
      {{"{}", {{"/1/model.onnx", model}}}, "'/1/model.onnx'"},
      {{"{}", {{"1/../../model.onnx", model}}}, "'1/../../model.onnx'"},
      {{"{}", {{"1/./model.onnx", model}}}, "'1/./model.onnx'"},
      {{"{}", {{"1/", model}}}, "'1/'"},
      {{"{}", {{"", model}}}, "''"},
      {{"{}", {{std::string("1/a\0b", 5), model}}}, "'1/a?b'"},
      {{"{}", {{std::string(200, 'a') + '/' + std::string(100, 'b'), model}}}, "is not the path"},
      {{"{}", {{std::string(256, 'a'), model}}}, "more than 255 bytes", ErrorCode::kInternal},
      {{"{}", {{"1", model}, {"1-a", model}, {"1/model.onnx", model}}}, "'1' cannot be a file"},
      {{"{}", {{"model.onnx", model}}}, "has no version"},
      {{"{}", {{"1/model.onnx", "no model"}}}, "version 1"},
      {{std::string(kMaxConfigBytes + 1, ' '), {}}, "larger than"},
  };
  for (const auto& [with, says, code] : cases) {
    const Status loaded = LoadWith("small", with);
    ASSERT_FALSE(loaded) << says;
    EXPECT_THAT(loaded.error().message, HasSubstr(says));
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_EQ(Value("small"), 5) << says;
  }
  LoadOverride many{"{}", {}};
  for (std::size_t i = 0; i <= kMaxOverrideFiles; ++i) many.files[std::to_string(i)] = "";
  EXPECT_THAT(LoadWith("small", many).error().message, HasSubstr("257 files"));
  EXPECT_FALSE(LoadWith("..", {"{}", good}));
  EXPECT_FALSE(LoadWith("a/b", {"{}", good}));
}

TEST_F(ModelChangesTest, AModelToLoadThatTheRepositoryLacksIsNotServedUntilItIsThere) {
  repository_.AddModel("small", SmallModel());
  OpenWith({"small", "nope"});
  EXPECT_EQ(Value("small"), 5);
  EXPECT_EQ(ReasonOf("nope"), "the repository has no model of this name");
  EXPECT_EQ(CodeOf(Ask(SmallRequest("nope"))), ErrorCode::kNotFound);
  EXPECT_EQ(Unload("nope").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Load("nope").error().code, ErrorCode::kNotFound);
  repository_.WriteFile("nope/1/model.onnx", "no model");
  EXPECT_EQ(Load("nope").error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ReasonOf("nope"), HasSubstr("model.onnx"));
  EXPECT_EQ(CodeOf(Ask(SmallRequest("nope"))), ErrorCode::kUnavailable);
  repository_.AddModel("nope", ScaledModel(3));
  ASSERT_TRUE(Load("nope"));
  EXPECT_EQ(Value("nope"), 3);
}

TEST_F(ModelChangesTest, ALoadedModelIsReplacedByWhatTheRepositoryHasNow) {
  repository_.AddModel("m", ScaledModel(2));
  OpenWith({"m"});
  EXPECT_EQ(Value("m"), 2);
  repository_.AddModel("m", ScaledModel(5));
  EXPECT_EQ(Value("m"), 2) << "nothing changes by itself";
  ASSERT_TRUE(Load("m"));
  EXPECT_EQ(Value("m"), 5);
}

TEST_F(ModelChangesTest, ALoadThatTakesLongHoldsUpNoOtherModel) {
  repository_.AddModel("small", ScaledModel(2));
  repository_.WriteFile("long/config.pbtxt", R"(backend: "python"
      input { name: "x" data_type: TYPE_FP32 dims: 4 }
      output { name: "y" data_type: TYPE_FP32 dims: 4 })");
  repository_.WriteFile("long/1/model.py", "");
  // In place of Python: a program that is not ready, and ends when there is the file.
  const std::string program = repository_.path() + "/long/python", ends = program + ".ends";
  repository_.WriteFile("long/python",
                        "#!/bin/sh\nuntil [ -e '" + ends + "' ]; do sleep 0.01; done\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  OpenWith({}, program);
  std::future<Status> loaded = StartLoad("long");
  std::future<Status> again = StartUnload("long");  // waits for its turn
  ASSERT_TRUE(Load("small"));
  EXPECT_EQ(Value("small"), 2);
  ASSERT_TRUE(Unload("small"));
  for (const auto* change : {&loaded, &again}) {
    EXPECT_EQ(change->wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  }
  repository_.WriteFile("long/python.ends", "");
  const Status done = loaded.get();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("'long'"));
  EXPECT_FALSE(again.get()) << "there is nothing to unload";
  EXPECT_EQ(ReasonOf("long"), done.error().message);
}

TEST_F(ModelChangesTest, APipeIsNoModel) {
  const std::string tensors = R"(input { name: "x" data_type: TYPE_FP32 dims: 4 }
      output { name: "y" data_type: TYPE_FP32 dims: 4 })";
  OpenWith({});
  for (const auto& [file, backend] :
       {std::pair("model.onnx", "onnxruntime"), {"model.py", "python"}, {"job.so", "lagoon_job"}}) {
    SCOPED_TRACE(file);
    const std::string name = backend;
    repository_.WriteFile(name + "/config.pbtxt", "backend: \"" + name + "\" " + tensors);
    repository_.WriteFile(name + "/1/other", "");
    ASSERT_EQ(::mkfifo((repository_.path() + "/" + name + "/1/" + file).c_str(), 0600), 0);
    const TimePoint start = Now();
    const Status loaded = Load(name);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr(file), HasSubstr("not a regular file")));
    EXPECT_LT(Now() - start, std::chrono::seconds(5)) << "somebody opened the pipe";
  }
}

TEST_F(ModelChangesTest, ALoadThatFailsLeavesWhatWasLoaded) {
  repository_.AddModel("m", ScaledModel(2));
  OpenWith({"m"});
  repository_.WriteFile("m/1/model.onnx", "this is no model");
  const Status loaded = Load("m");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(loaded.error().message, HasSubstr("'m'"));
  EXPECT_EQ(Value("m"), 2);
  repository_.WriteFile("m/config.pbtxt", "nonsense");
  EXPECT_FALSE(Load("m"));
  EXPECT_EQ(Value("m"), 2);
  // A share that does not fit beside the others.
  repository_.AddModel("n", ScaledModel(7), Parameter("lagoon.share", "80"));
  ASSERT_TRUE(Load("n"));
  repository_.AddModel("m", ScaledModel(9), Parameter("lagoon.share", "30"));
  const Status too_much = Load("m");
  ASSERT_FALSE(too_much);
  EXPECT_THAT(too_much.error().message, HasSubstr("'m'"));
  EXPECT_EQ(Value("m"), 2);
  EXPECT_EQ(Value("n"), 7);
}

TEST_F(ModelChangesTest, AModelWhoseLoadFailedIsListedWithTheReason) {
  repository_.AddModel("m", ScaledModel(2));
  repository_.AddModel("broken", ScaledModel(2));
  OpenWith({"m"});
  repository_.WriteFile("broken/1/model.onnx", "this is no model");
  EXPECT_EQ(ReasonOf("broken"), "not loaded");
  const Status failed = Load("broken");
  ASSERT_FALSE(failed);
  EXPECT_EQ(ReasonOf("broken"), failed.error().message);
  repository_.AddModel("broken", ScaledModel(3));
  ASSERT_TRUE(Load("broken"));
  EXPECT_EQ(Value("broken"), 3);
  ASSERT_TRUE(Unload("broken"));
  EXPECT_EQ(ReasonOf("broken"), "not loaded");
}

TEST_F(ModelChangesTest, WhatCannotBeChangedIsRefusedByName) {
  repository_.AddModel("m", ScaledModel(2));
  OpenWith({});
  for (const Status& status : {Load("absent"), Unload("absent"), Unload("m")}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kNotFound) << status.error().message;
  }
  EXPECT_THAT(Load("absent").error().message, HasSubstr("'absent'"));
  EXPECT_THAT(Unload("m").error().message, AllOf(HasSubstr("'m'"), HasSubstr("is not loaded")));
}

TEST_F(ModelChangesTest, ARequestInFlightIsAnsweredBeforeItsModelGoes) {
  AddHeld();
  repository_.AddModel("small", SmallModel());
  OpenWith({"slow", "small"});
  Sent running = SendRunning();
  Sent waiting = Send(SlowRequest());
  std::future<Status> unloaded = StartUnload("slow");
  while (core_->ModelReady("slow", "")) std::this_thread::yield();
  EXPECT_FALSE(running.Answered());
  LetGo();
  EXPECT_EQ(CodeOf(running.answer.get()), std::nullopt);
  EXPECT_EQ(CodeOf(waiting.answer.get()), std::nullopt);
  EXPECT_TRUE(unloaded.get());
  EXPECT_EQ(CodeOf(Ask(SlowRequest())), ErrorCode::kUnavailable);
}

TEST_F(ModelChangesTest, ARequestOfALeavingModelCanBeCancelled) {
  AddHeld();
  OpenWith({"slow"});
  Sent running = SendRunning();
  std::future<Status> unloaded = StartUnload("slow");
  while (core_->ModelReady("slow", "")) std::this_thread::yield();
  core_->Cancel(running.handle);
  EXPECT_EQ(CodeOf(running.answer.get()), ErrorCode::kCancelled);
  EXPECT_TRUE(unloaded.get());
}

TEST_F(ModelChangesTest, ARequestThatWaitsForABatchOfALeavingModelCanBeCancelled) {
  repository_.AddModel(
      "batched", SmallBatchModel(),
      "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 3600000000 }");
  OpenWith({"batched"});
  Sent waiting = Send(SmallRequest("batched"));
  std::future<Status> unloaded = StartUnload("batched");
  while (core_->ModelReady("batched", "")) std::this_thread::yield();
  core_->Cancel(waiting.handle);
  EXPECT_EQ(CodeOf(waiting.answer.get()), ErrorCode::kCancelled);
  EXPECT_TRUE(unloaded.get());
}

TEST_F(ModelChangesTest, BatchesOfALeavingModelEndAsUsual) {
  repository_.AddModel(
      "batched", SmallBatchModel(),
      "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 20000 }");
  OpenWith({"batched"});
  for (int round = 0; round < 3; ++round) {
    std::vector<Sent> sent;
    for (int i = 0; i < 3; ++i) sent.push_back(Send(SmallRequest("batched")));
    ASSERT_TRUE(Unload("batched"));
    for (Sent& one : sent) EXPECT_EQ(CodeOf(one.answer.get()), std::nullopt);
    ASSERT_TRUE(Load("batched"));
  }
}

// Many more changes than a device has guards and streams: their places are used again.
TEST_F(ModelChangesTest, NoRequestFailsWhileModelsAreReplacedUnderLoad) {
  repository_.AddModel("a", ScaledModel(2), kRealTime);
  repository_.AddModel("b", ScaledModel(3));
  OpenWith({"a", "b"});
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, failed{0};
  std::vector<std::thread> clients;
  for (const char* model : {"a", "b"}) {
    clients.emplace_back([&, model] {
      while (!stop) {
        const Answer answer = Ask(SmallRequest(model));
        answered += answer.has_value();
        failed += !answer.has_value();
      }
    });
  }
  for (int round = 0; round < 40; ++round) {
    const Status loaded = Load(round % 2 == 0 ? "a" : "b");
    EXPECT_TRUE(loaded) << loaded.error().message;
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_GT(answered.load(), 0);
}

TEST_F(ModelChangesTest, ChangesThatWaitAreAnsweredWhenTheCoreEnds) {
  repository_.AddModel("m", ScaledModel(2));
  OpenWith({});
  std::deque<std::promise<Status>> done(20);
  std::vector<std::future<Status>> statuses;
  for (std::promise<Status>& promise : done) {
    statuses.push_back(promise.get_future());
    core_->repository()->LoadModel("m",
                                   [&](Status status) { promise.set_value(std::move(status)); });
  }
  core_.reset();
  for (std::future<Status>& status : statuses) {
    const Status result = status.get();
    if (!result) {
      EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    }
  }
}

}  // namespace
}  // namespace lagoon

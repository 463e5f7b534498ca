#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/testing/allocations.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

class OutputsTest : public CoreTest {
 protected:
  static constexpr std::int64_t kWide = 1 << 16;
  static constexpr std::size_t kWideBytes = kWide * sizeof(float);

  /// Outputs of x [1,4]: "wide" [1,kWide] = x W, "narrow" [1,4] = relu(x).
  static onnx::ModelProto WideModel() {
    return OnnxBuilder()
        .Input("x", {1, 4})
        .Constant("w", {4, kWide}, std::vector<float>(4 * kWide, 1))
        .Node("MatMul", {"x", "w"}, "wide")
        .Node("Relu", {"x"}, "narrow")
        .Output("wide", {1, kWide})
        .Output("narrow", {1, 4})
        .Build();
  }
  static onnx::ModelProto WithOpenRows(onnx::ModelProto model) {
    auto& graph = *model.mutable_graph();
    for (auto* values : {graph.mutable_input(), graph.mutable_output()}) {
      for (onnx::ValueInfoProto& value : *values) {
        auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
        shape.mutable_dim(0)->set_dim_param("rows");
      }
    }
    return model;
  }
  Answer AskFor(const std::vector<std::string>& outputs) {
    InferRequest request = SmallRequest("wide");
    request.outputs = outputs;
    return Ask(std::move(request));
  }
};

TEST_F(OutputsTest, AnOutputThatWasNotAskedForIsNotAllocated) {
#ifndef LAGOON_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "ThreadSanitizer brings an operator new of its own, which counts nothing";
#else
  repository_.AddModel("wide", WideModel());
  Open();
  largest_allocation = 0;
  const Answer all = AskFor({});
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_GE(largest_allocation, kWideBytes);  // the counter does see such an allocation
  largest_allocation = 0;
  const Answer one = AskFor({"narrow"});
  ASSERT_TRUE(one.has_value()) << one.error().message;
  EXPECT_LT(largest_allocation, kWideBytes);
#endif
}

TEST_F(OutputsTest, AnswersTheSameWhateverElseIsAskedFor) {
  repository_.AddModel("wide", WideModel());
  Open();
  for (const std::vector<std::string>& outputs :
       {std::vector<std::string>{"narrow"}, {"wide"}, {"narrow", "wide"}, {"wide", "narrow"}, {}}) {
    const Answer answer = AskFor(outputs);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    ASSERT_EQ(answer->outputs.size(), outputs.empty() ? 2 : outputs.size());
    for (const OutputTensor& output : answer->outputs) {
      const std::vector<float> expected =
          output.name == "wide" ? std::vector<float>(kWide, -34) : std::vector<float>{1, 2, 3, 0};
      EXPECT_EQ(Floats(output), expected) << output.name;
    }
  }
}

TEST_F(OutputsTest, A16BitFloatThatWouldHaveToBeTextIsRefusedBeforeAnythingIsComputed) {
  onnx::ModelProto model =
      OnnxBuilder().Input("x", {1, 4}).Node("Cast", {"x"}, "y").Output("y", {1, 4}).Build();
  onnx::AttributeProto& to = *model.mutable_graph()->mutable_node(0)->add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::FLOAT16);
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::FLOAT16);
  repository_.AddModel("half", model);
  Open();
  InferRequest request = SmallRequest("half");
  request.form = OutputForm::kText;
  EXPECT_EQ(CodeOf(Ask(request)), ErrorCode::kUnimplemented);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().launches, 0u);
  EXPECT_EQ(CodeOf(Ask(SmallRequest("half"))), std::nullopt);  // as bytes
}

// ---- Outputs in the client's memory

class CountedNearEnd final : public NearEnd {
 public:
  void AlmostFinished() override { ++times; }
  std::atomic<int> times{0};
};

std::vector<float> FloatsOf(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST_F(OutputsTest, AnOutputIsWrittenWhereTheClientWantsItIfItFits) {
  repository_.AddModel("wide", WideModel());
  Open();
  std::vector<std::byte> narrow(4 * sizeof(float)), wide(kWideBytes), small(kWideBytes - 1);
  InferRequest request = SmallRequest("wide");
  request.outputs = {"narrow", "wide"};
  request.places = {narrow, wide};
  const auto near_end = std::make_shared<CountedNearEnd>();
  request.near_end = near_end;
  const Answer answer = Ask(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(near_end->times, 1);
  for (const OutputTensor& output : answer->outputs) {
    EXPECT_TRUE(output.in_place) << output.name;
    EXPECT_TRUE(output.data.empty());
  }
  EXPECT_EQ(answer->outputs[1].dims, (Dims{1, kWide}));
  EXPECT_EQ(FloatsOf(narrow), (std::vector<float>{1, 2, 3, 0}));
  EXPECT_EQ(FloatsOf(wide), std::vector<float>(kWide, -34));

  request.places = {small};  // of the first output; the second has none
  request.outputs = {"wide", "narrow"};
  const Answer other = Ask(request);
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_FALSE(other->outputs[0].in_place);
  EXPECT_FALSE(other->outputs[1].in_place);
  EXPECT_EQ(Floats(other->outputs[0]), std::vector<float>(kWide, -34));
  EXPECT_EQ(FloatsOf(small)[0], 0);
}

TEST_F(OutputsTest, ClassesAreMadeFromAnOutputOfTheServersOwn) {
  repository_.AddModel("wide", WideModel());
  Open();
  std::vector<std::byte> narrow(4 * sizeof(float));
  InferRequest request = SmallRequest("wide");
  request.outputs = {"narrow"};
  request.classes = {1};
  request.places = {narrow};
  const Answer answer = Ask(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_FALSE(answer->outputs[0].in_place);
  EXPECT_EQ(FloatsOf(narrow)[1], 0);
}

// ---- Room for the outputs

/// Has room for so many bytes.
class SmallRoom final : public AnswerRoom {
 public:
  explicit SmallRoom(std::size_t most) : most_(most) {}
  Status Take(std::size_t bytes) override {
    taken = bytes;
    if (bytes <= most_) return {};
    return Fail(ErrorCode::kUnavailable, "no room");
  }
  std::size_t taken = 0;

 private:
  const std::size_t most_;
};

TEST_F(OutputsTest, RoomForTheOutputsIsTakenBeforeTheyAreAllocated) {
  repository_.AddModel("wide", WideModel());
  repository_.AddModel("joined", WithOpenRows(WideModel()),
                       "max_batch_size: 4\ndynamic_batching { }\n");
  Open();
  for (const char* model : {"wide", "joined"}) {
    for (const std::size_t most : {std::size_t{0}, kWideBytes}) {
      const auto room = std::make_shared<SmallRoom>(most);
      InferRequest request = SmallRequest(model);
      request.outputs = {"wide"};
      request.room = room;
      const Answer answer = Ask(std::move(request));
      EXPECT_EQ(room->taken, kWideBytes) << model;
      EXPECT_EQ(answer.has_value(), most > 0) << model;
      if (!answer) {
        EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
      }
    }
  }
}

#ifdef LAGOON_COUNTS_ALLOCATIONS

// ---- Memory that runs out

class OutOfMemoryTest : public CoreTest {
 protected:
  /// Sends one request for each allocation that a request makes on its way, and lets that
  /// allocation fail. `step`: every so many allocations, of many.
  void LetEachAllocationFail(const std::function<InferRequest()>& make,
                             const std::function<bool(const Answer&)>& right, int step = 64) {
    bool failed = true;
    for (std::int64_t nth = 1; failed; nth += 1 + nth / step) {
      const auto heard = std::make_shared<Heard>();
      InferRequest request = make();
      InferCallback callback = [heard](Answer answer) {
        heard->answer = std::move(answer);
        heard->count.fetch_add(1);
      };
      const TimePoint until = Now() + std::chrono::seconds(60);
      {
        const FailingAllocation failing(nth);
        core_->Infer(std::move(request), std::move(callback));
        while (heard->count.load() == 0 && Now() < until) std::this_thread::yield();
        failed = FailingAllocation::failed();
      }
      ASSERT_EQ(heard->count.load(), 1) << nth;
      if (!right(heard->answer)) {
        ASSERT_EQ(CodeOf(heard->answer), ErrorCode::kResourceExhausted) << nth;
      }
      const Answer later = Ask(make());
      ASSERT_TRUE(right(later)) << nth << ": " << (later ? "wrong" : later.error().message);
      ASSERT_EQ(heard->count.load(), 1) << nth;
      last_ = nth;
    }
    EXPECT_GT(last_, 3);
    const Result<std::vector<ModelStatistics>> statistics = core_->Statistics("", "");
    ASSERT_TRUE(statistics);
    for (const ModelStatistics& model : *statistics) EXPECT_EQ(model.pending, 0u);
    core_->Drain(kNoDeadline);  // returns when no request is left
  }

  static bool RightSmall(const Answer& answer) {
    return answer && Floats(answer->outputs[0]) == std::vector<float>{5, -39};
  }

 private:
  struct Heard {
    std::atomic<int> count{0};
    Answer answer;
  };
  std::int64_t last_ = 0;
};

TEST_F(OutOfMemoryTest, ARequestIsAnsweredOnce) {
  repository_.AddModel("small", SmallModel());
  Open();
  LetEachAllocationFail([] { return SmallRequest(); }, RightSmall);
}

TEST_F(OutOfMemoryTest, ARequestOfABatchIsAnsweredOnce) {
  repository_.AddModel("small", SmallBatchModel(), "max_batch_size: 4\ndynamic_batching { }\n");
  Open();
  LetEachAllocationFail([] { return SmallRequest(); }, RightSmall);
}

TEST_F(OutOfMemoryTest, ARequestThatWaitsForItsPlanIsAnsweredOnce) {
  repository_.AddModel("small", SmallBatchModel());
  Open();
  std::int64_t rows = 1;
  const auto next = [&rows] {
    ++rows;
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) values.insert(values.end(), {1, 2, 3, -40});
    return RequestFor("small", {rows, 4}, std::move(values));
  };
  const auto right = [&rows](const Answer& answer) {
    if (!answer || answer->outputs[0].dims != Dims{rows, 2}) return false;
    const std::vector<float> y = Floats(answer->outputs[0]);
    return y[0] == 5 && y.back() == -39;
  };
  LetEachAllocationFail(next, right, 8);
}

TEST_F(OutOfMemoryTest, ARequestOfAModelInPartsIsAnsweredOnce) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Node("NonZero", {"x"}, "where")
                               .Node("Transpose", {"where"}, "at")
                               .Node("GatherND", {"x", "at"}, "y")
                               .Build();
  model.mutable_graph()->add_output()->set_name("y");
  repository_.AddModel("picks", model);
  Open();
  const auto right = [](const Answer& answer) {
    return answer && Floats(answer->outputs[0]) == std::vector<float>{3, 5};
  };
  const auto make = [] { return RequestFor("picks", {8}, {3, 0, 0, 0, 0, 0, 0, 5}); };
  ASSERT_TRUE(right(Ask(make())));
  LetEachAllocationFail(make, right);
}

#endif

}  // namespace
}  // namespace lagoon

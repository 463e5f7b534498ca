// Requests whose contents decide their plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "local/plans/model_plans.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::HasSubstr;

/// "y" = the numbers from "from" to "to", minus 0: the contents decide how many.
onnx::ModelProto Counts() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("from", {})
                               .Input("to", {})
                               .Input("step", {})
                               .Node("Range", {"from", "to", "step"}, "numbers")
                               .Node("Neg", {"numbers"}, "y")
                               .Build();
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::INT64);
    type.mutable_shape();  // of a scalar
  }
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

/// Memory that requests use one after the other, as the edge's buffers are.
class Numbers {
 public:
  /// A request for the numbers from 1 to `to`. When the request lets its memory go, the memory
  /// holds `then` in place of `to`, as if another request had it.
  InferRequest To(std::int64_t to, std::int64_t then) {
    auto& values = memory_.emplace_back(std::vector<std::int64_t>{1, to + 1, 1});
    InferRequest request;
    request.model = "counts";
    request.arrival = Now();
    const char* const names[] = {"from", "to", "step"};
    for (std::size_t i = 0; i < values.size(); ++i) {
      request.inputs.push_back(
          {names[i], DataType::kInt64, {}, std::as_bytes(std::span(&values[i], 1))});
    }
    request.payload = std::shared_ptr<void>(nullptr, [&values, then](void*) {
      __atomic_store_n(&values[1], then + 1, __ATOMIC_SEQ_CST);
    });
    return request;
  }

 private:
  std::deque<std::vector<std::int64_t>> memory_;  // until the end of the test
};

class ContentsTest : public CoreTest {
 protected:
  void ExpectCount(std::int64_t count) {
    const Answer answer = Ask(numbers_.To(count, count));
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, Dims{count});
    const auto values = Values<std::int64_t>(answer->outputs[0]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], -static_cast<std::int64_t>(i) - 1);
    }
  }

  // A compiler of a model of the repository, as the server has it.
  auto Compiler(const std::string& model, Device& device) {
    CompileOptions options;
    options.model = model;
    options.many_shapes = true;
    return ModelCompiler::Read(repository_.path() + "/" + model + "/1/model.onnx", device, options);
  }

  Numbers numbers_;  // outlives the core
};

TEST_F(ContentsTest, APlanIsMadeOfWhatTheRequestHeldWhenItCame) {
  repository_.AddModel("counts", Counts());
  const ComputeDevice device = *OpenDevice({.workers = 1});
  auto compiler = Compiler("counts", *device.device);
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  ModelPlans plans(*std::move(compiler), {});
  std::int64_t values[] = {1, 6, 1};
  std::vector<std::span<const std::byte>> inputs;
  for (const std::int64_t& value : values) inputs.push_back(std::as_bytes(std::span(&value, 1)));
  const std::vector<Dims> dims(3);
  // That the contents decide, the first attempts find out.
  while (plans.deciding().size() < 3) {
    const auto first = plans.Compile(plans.Want(nullptr, dims, inputs), 1);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    ASSERT_EQ(*first, nullptr);
  }
  const WantedPlan five = plans.Want(nullptr, dims, inputs);
  values[1] = 4;
  const PlanKey three = plans.KeyOf(nullptr, dims, inputs);
  const auto plan = plans.Compile(five, 1);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_NE(*plan, nullptr);
  EXPECT_EQ((*plan)->key, five.key);
  EXPECT_NE((*plan)->key, three);
  EXPECT_EQ((*plan)->loaded->plan.outputs[0].spec.dims, Dims{5});
}

TEST_F(ContentsTest, ConstantsThatARequestMadeAreFreedWithTheirPlan) {
  repository_.AddModel("counts", Counts());
  const ComputeDevice device = *OpenDevice({.workers = 1});
  auto compiler = Compiler("counts", *device.device);
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  ModelPlans plans(*std::move(compiler), {.bytes = std::size_t{1} << 20});
  std::vector<std::weak_ptr<const WeightChunk>> made;  // by plan
  // The large ones are over the limit by themselves: each goes with the next one.
  for (const std::int64_t count : {500'000, 5, 500'001, 500'001, 500'002, 6}) {
    const std::int64_t values[] = {1, count + 1, 1};
    std::vector<std::span<const std::byte>> inputs;
    for (const std::int64_t& value : values) inputs.push_back(std::as_bytes(std::span(&value, 1)));
    std::unique_ptr<PlanDraft> draft;
    for (int attempt = 0; draft == nullptr && attempt < 4; ++attempt) {
      auto compiled = plans.Compile(plans.Want(nullptr, std::vector<Dims>(3), inputs), 1);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
      draft = *std::move(compiled);
    }
    ASSERT_NE(draft, nullptr);
    auto plan = std::make_shared<ServedPlan>(std::move(draft));
    ASSERT_EQ(plan->loaded->weights.size(), 1u);
    made.emplace_back(plan->loaded->weights.front());
    EXPECT_EQ(made.back().lock()->from_request, count > 100'000);
    if (count > 100'000) {
      EXPECT_GE(BytesOf(*plan), static_cast<std::size_t>(count) * sizeof(std::int64_t));
    }
    const PlanKey key = plan->key;
    plans.Keep(std::move(plan), /*pinned=*/false);
    EXPECT_NE(plans.Find(key), nullptr);
    for (const std::size_t large : {0U, 2U, 3U, 4U}) {
      if (large + 1 >= made.size()) continue;
      EXPECT_TRUE(made[large].expired()) << large;
    }
  }
  for (const std::size_t small : {1U, 5U}) EXPECT_FALSE(made[small].expired()) << small;
}

// As `lagoon profile` stores it.
TEST_F(ContentsTest, APlanThatIsMadeLaterHasTheProfileOfItsShape) {
  repository_.AddModel("batch", SmallBatchModel());
  const ComputeDevice device = *OpenDevice({.workers = 1});
  auto compiler = Compiler("batch", *device.device);
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  ModelPlans plans(*std::move(compiler), {});
  const ProfileStore store{.folder = repository_.path() + "/profiles", .build = "test"};
  plans.UseProfiles(store, device.device->info());
  const auto measured = plans.CompileAtLoad({{100, 4}});
  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  Plan plan = (*measured)->loaded->plan;
  const std::string key = ProfileKey(plan, device.device->info(), store.build);
  plan.standalone = std::chrono::microseconds(1234);
  ASSERT_TRUE(SaveProfile(store, key, plan, /*tuned=*/false));
  const auto standalone_of = [&](std::int64_t rows) {
    const auto made = plans.Compile(plans.Want(nullptr, {{rows, 4}}, {}), 1);
    return made ? (*made)->loaded->plan.standalone : Nanoseconds(-1);
  };
  EXPECT_EQ(standalone_of(100), plan.standalone);
  EXPECT_NE(standalone_of(101), plan.standalone);
}

TEST_F(ContentsTest, RequestsThatEndWhileTheirPlanIsMadeLeaveNoWrongPlan) {
  repository_.AddModel("counts", Counts(), Parameter("lagoon.max_plans", "4"));
  Open();
  ExpectCount(2);
  constexpr std::int64_t kCounts = 7;
  for (int round = 0; round < 100; ++round) {
    std::vector<Sent> sent;
    for (std::int64_t i = 0; i < kCounts; ++i) {
      InferRequest request = numbers_.To(1 + i, 1 + (i + 1 + round) % kCounts);
      if (i % 2 == 0) request.timeout = std::chrono::microseconds(200 + 300 * (round % 7));
      sent.push_back(Send(std::move(request)));
    }
    for (std::size_t i = 1; i < sent.size(); i += 2) core_->Cancel(sent[i].handle);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Answer answer = sent[i].answer.get();
      if (answer) {
        EXPECT_EQ(answer->outputs[0].dims, Dims{1 + static_cast<std::int64_t>(i)});
      }
    }
    for (std::int64_t count = 1; count <= kCounts; ++count) ExpectCount(count);
  }
}

TEST_F(ContentsTest, AnOrderThatIsGivenUpDoesNotTakeLaterRequestsWithIt) {
  repository_.AddModel("counts", Counts(), Parameter("lagoon.max_plans", "2"));
  Open();
  for (std::int64_t count = 100; count < 130; ++count) {
    Sent gone = Send(numbers_.To(count, count));
    core_->Cancel(gone.handle);
    ExpectCount(count);
    gone.answer.wait();
  }
}

TEST_F(ContentsTest, ASmallRequestCannotMakeALargeConstant) {
  repository_.AddModel("counts", Counts());
  Open();
  for (int again = 0; again < 2; ++again) {
    const Answer refused = Ask(numbers_.To(1'900'000'000, 1));
    ASSERT_EQ(CodeOf(refused), ErrorCode::kResourceExhausted);
    EXPECT_THAT(refused.error().message,
                HasSubstr("the request's shapes and values make a constant of 15200000000 bytes"));
    EXPECT_THAT(refused.error().message, HasSubstr("'counts': model.onnx: "));  // no folders
  }
  ExpectCount(5);
}

}  // namespace
}  // namespace lagoon

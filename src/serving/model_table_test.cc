#include "serving/model_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "serving/config/model_config.pb.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class RepositoryTest : public CoreTest {};

TEST_F(RepositoryTest, ABrokenModelDisturbsNoOther) {
  repository_.AddModel("good", SmallModel());
  repository_.AddModel("bad_config", SmallModel(), "max_batchsize: 1");
  repository_.AddModel("wrong_dims", SmallModel(), "input [ { name: 'x' dims: [ 1, 5 ] } ]");
  const std::string onnx = SmallModel().SerializeAsString();
  repository_.WriteFile("truncated/1/model.onnx", onnx.substr(0, onnx.size() / 2));
  repository_.WriteFile("no_model/1/readme", "");
  repository_.WriteFile("no_version/v1/model.onnx", onnx);
  repository_.AddModel("no_such_version", SmallModel(),
                       "version_policy { specific { versions: [ 4 ] } }");
  Open();
  std::vector<std::string> ready;
  for (const ModelStatus& model : core_->Models()) {
    if (model.state == ModelState::kReady) {
      ready.push_back(model.name);
      EXPECT_GT(model.standalone, 0ns);
      EXPECT_GT(model.load_ms, 0);
    } else {
      EXPECT_NE(model.reason, "") << model.name;
    }
  }
  EXPECT_THAT(ready, ElementsAre("good"));
  EXPECT_THAT(core_->Models(), SizeIs(7));

  EXPECT_TRUE(core_->ModelReady("good", "").has_value());
  EXPECT_EQ(CodeOf(Ask(SmallRequest("good"))), std::nullopt);
  // Remote clients see the model's name, but neither paths nor contents of folders.
  const auto reason = [&](const std::string& model) {
    const Status status = core_->ModelReady(model, "");
    const Answer answer = Ask(SmallRequest(model));
    EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable) << model;
    EXPECT_FALSE(status.has_value()) << model;
    if (status || answer) return std::string();
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable) << model;
    EXPECT_EQ(status.error().message, answer.error().message);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr("'" + model + "'"), HasSubstr("log")));
    EXPECT_THAT(status.error().message, Not(AnyOf(HasSubstr("/"), HasSubstr("v1"))));
    return ReasonOf(model);
  };
  EXPECT_THAT(reason("bad_config"), HasSubstr("max_batchsize"));
  EXPECT_THAT(reason("wrong_dims"), AllOf(HasSubstr("[1,5]"), HasSubstr("[1,4]")));
  EXPECT_THAT(reason("truncated"), HasSubstr("model.onnx"));
  EXPECT_THAT(reason("no_model"), HasSubstr("model.onnx"));
  EXPECT_THAT(reason("no_version"), HasSubstr("'v1'"));
  EXPECT_THAT(reason("no_such_version"), HasSubstr("version 4"));
}

TEST_F(RepositoryTest, AModelOfTooManyKernelsNamesBothLimits) {
  OnnxBuilder builder;  // small tensors, as the sum of their bytes is limited too
  builder.Input("x", {1, 4});
  for (int i = 0; i < 8194; ++i) {
    builder.Node("Neg", {i == 0 ? "x" : "y" + std::to_string(i - 1)}, "y" + std::to_string(i));
  }
  repository_.AddModel("long", builder.Output("y8193", {1, 4}).Build());
  Open();
  EXPECT_THAT(ReasonOf("long"), AllOf(HasSubstr("compiles to 8194 kernels"), HasSubstr("8192"),
                                      HasSubstr("65536 nodes")));
}

TEST(ModelTable, TheNamesOfModelsThatAreNotLoadedAreBounded) {
  ModelTable table;
  for (std::size_t i = 0; i < ModelTable::kMostNames; ++i) {
    table.NoteFailure("failed" + std::to_string(i), "no version");
  }
  EXPECT_THAT(table.Statuses(), SizeIs(ModelTable::kMostNames / 2));
  ModelTable::Entry entry;
  for (std::size_t i = 0; i < ModelTable::kMostNames; ++i) {
    (void)table.MakeRoom("loaded" + std::to_string(i), entry);
  }
  const std::vector<ModelStatus> statuses = table.Statuses();
  EXPECT_THAT(statuses, SizeIs(ModelTable::kMostNames));
  EXPECT_TRUE(std::ranges::any_of(statuses, [](const ModelStatus& status) {
    return status.name == "loaded" + std::to_string(ModelTable::kMostNames - 1);
  }));
}

TEST_F(RepositoryTest, AnUnreadableRepositoryIsAnError) {
  CoreOptions options;
  options.repository = repository_.path() + "/missing";
  options.device.workers = 1;
  const auto missing = OpenCore(options);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  repository_.WriteFile("file", "");
  options.repository = repository_.path() + "/file";
  const auto file = OpenCore(options);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(RepositoryTest, AnUnknownSchedulerIsAnError) {
  CoreOptions options;
  options.repository = repository_.path();
  options.scheduler = "magic";
  const auto core = OpenCore(options);
  ASSERT_FALSE(core.has_value());
  EXPECT_THAT(core.error().message, AllOf(HasSubstr("magic"), HasSubstr("reset")));
}

TEST_F(RepositoryTest, AnEmptyRepositoryIsServed) {
  Open();
  EXPECT_TRUE(core_->Ready());
  EXPECT_THAT(core_->Models(), IsEmpty());
  EXPECT_THAT(core_->Statistics("", "").value(), IsEmpty());
}

TEST_F(RepositoryTest, ServesTheVersionsThatThePolicyChooses) {
  for (const int version : {1, 2, 10}) {
    repository_.AddModel("all", SmallModel(), "version_policy { all {} }", version);
    repository_.AddModel("latest", SmallModel(), "", version);
  }
  Open();
  EXPECT_THAT(core_->Metadata("all", "")->versions, ElementsAre("1", "2", "10"));
  EXPECT_EQ(Ask(SmallRequest("all"))->version, "10");
  InferRequest second = SmallRequest("all");
  second.version = "2";
  EXPECT_EQ(Ask(second)->version, "2");
  EXPECT_THAT(core_->Metadata("latest", "")->versions, ElementsAre("10"));
  // Triton's words, which clients compare.
  EXPECT_EQ(core_->Metadata("latest", "2").error().message,
            "Request for unknown model: 'latest' version 2 is not found");
  EXPECT_EQ(core_->Metadata("none", "").error().message,
            "Request for unknown model: 'none' is not found");
  EXPECT_EQ(core_->Metadata("latest", "2").error().code, ErrorCode::kNotFound);
  for (const char* version : {"two", "-1", "01", "1.0", " 1", "99999999999999999999"}) {
    EXPECT_EQ(core_->Metadata("latest", version).error().code, ErrorCode::kInvalidArgument)
        << version;
  }

  const auto statistics = core_->Statistics("all", "");
  ASSERT_TRUE(statistics.has_value());
  ASSERT_THAT(*statistics, SizeIs(3));
  EXPECT_EQ((*statistics)[0].queue.count, 0u);
  EXPECT_EQ((*statistics)[1].queue.count, 1u);
  EXPECT_EQ((*statistics)[2].version, "10");
  EXPECT_THAT(core_->Statistics("all", "2").value(), SizeIs(1));
  EXPECT_THAT(core_->Statistics("", "").value(), SizeIs(4));
  EXPECT_EQ(core_->Statistics("none", "").error().code, ErrorCode::kNotFound);
}

TEST_F(RepositoryTest, AnOlderVersionServesWhenTheLatestFailed) {
  repository_.AddModel("m", SmallModel(), "version_policy { all {} }", 1);
  repository_.WriteFile("m/2/model.onnx", "broken");
  Open();
  EXPECT_TRUE(core_->ModelReady("m", "").has_value());
  EXPECT_EQ(core_->ModelReady("m", "2").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Ask(SmallRequest("m"))->version, "1");
}

TEST_F(RepositoryTest, AModelOfAFixedBatchRefusesALargerOneByName) {
  repository_.AddModel("one", SmallModel(), "max_batch_size: 1");
  repository_.AddModel("two", SmallModel(), "max_batch_size: 2");
  Open();
  EXPECT_TRUE(core_->ModelReady("one", "").has_value());
  EXPECT_FALSE(core_->ModelReady("two", "").has_value());
  EXPECT_THAT(ReasonOf("two"), HasSubstr("max_batch_size is 2: "));
  EXPECT_THAT(ReasonOf("two"), HasSubstr("input 'x' has shape [1,4], whose first dimension is "
                                         "fixed: the model cannot take a batch of 2"));
}

TEST_F(RepositoryTest, MetadataAndConfigAreWhatClientsExpect) {
  repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 4");
  repository_.AddModel("plain", SmallModel(), kRealTime);
  Open();
  const auto plain = core_->Metadata("plain", "1");
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->name, "plain");
  EXPECT_EQ(plain->platform, "lagoon_plan");
  ASSERT_THAT(plain->inputs, SizeIs(1));
  EXPECT_EQ(plain->inputs[0].dims, (Dims{1, 4}));
  EXPECT_THAT(plain->outputs, SizeIs(2));

  const auto batch = core_->Metadata("batch", "");
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->inputs[0].dims, (Dims{-1, 4}));
  EXPECT_EQ(batch->outputs[0].dims, (Dims{-1, 2}));
  EXPECT_EQ(CodeOf(Ask(SmallRequest("batch"))), std::nullopt);

  const auto config = core_->Config("batch", "");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->name(), "batch");
  EXPECT_EQ(config->max_batch_size(), 4);
  EXPECT_THAT(config->input(0).dims(), ElementsAre(4));
  EXPECT_EQ(core_->Config("plain", "")->optimization().priority(),
            inference::ModelOptimizationPolicy::PRIORITY_MAX);
  EXPECT_EQ(core_->Config("none", "").error().code, ErrorCode::kNotFound);
}

/// "y" = the elements or rows of x at the indices p: as many dims as the last dim of p leaves.
onnx::ModelProto PicksAt() {
  onnx::ModelProto model =
      OnnxBuilder().Input("x", {1, 1}).Input("p", {1, 1}).Node("GatherND", {"x", "p"}, "y").Build();
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    auto& type = *input.mutable_type()->mutable_tensor_type();
    for (auto& dim : *type.mutable_shape()->mutable_dim()) dim.clear_value();
  }
  model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

TEST_F(RepositoryTest, TheRankOfAnOutputMayDependOnOpenDims) {
  repository_.AddModel("picks", PicksAt());
  repository_.AddModel("good", SmallModel());
  Open();
  EXPECT_EQ(ReasonOf("picks"), "");
  struct Payload {
    std::vector<float> x{1, 2, 3, 4, 5, 6};
    std::vector<std::int64_t> p{1, 0};
  };
  for (const auto& [of_p, of_y] : {std::pair<Dims, Dims>{{2, 1}, {2, 3}}, {{1, 2}, {1}}}) {
    const auto payload = std::make_shared<Payload>();
    InferRequest request;
    request.model = "picks";
    request.arrival = Now();
    request.inputs = {{"x", DataType::kFloat32, {2, 3}, std::as_bytes(std::span(payload->x))},
                      {"p", DataType::kInt64, of_p, std::as_bytes(std::span(payload->p))}};
    request.payload = payload;
    const Answer answer = Ask(std::move(request));
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, of_y);
    EXPECT_EQ(Floats(answer->outputs[0]).front(), 4);
  }
  EXPECT_EQ(CodeOf(Ask(SmallRequest("good"))), std::nullopt);
}

}  // namespace
}  // namespace lagoon

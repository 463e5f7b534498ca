// Plans with kernels that an engine computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/testing/test_engine.h"
#include "graph/testing/model_builder.h"
#include "kernels/cpu_kernels.h"
#include "plan/strings.h"
#include "program/lower/builder.h"
#include "program/run.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostOf;
using testing::ModelBuilder;
using testing::TestEngine;

using Floats = std::vector<float>;

/// x [4] -> Relu -> `op` of the test engine -> Neg -> y.
class OpaquePlan : public ::testing::Test {
 protected:
  Result<std::unique_ptr<ModelCompiler>> Read(const std::string& op,
                                              std::shared_ptr<EngineHost> host) {
    ModelBuilder model;
    model.proto.add_opset_import()->set_domain("test");
    model.Input("x", {4}).Output("y").Add("Relu", {"x"}, {"a"});
    model.Add(op, {"a"}, {"b"}).Name("odd").proto().set_domain("test");
    model.Add("Neg", {"b"}, {"y"});
    CompileOptions options;
    options.model = "odd_model";
    options.import.engine = std::move(host);
    return ModelCompiler::Read(model.Save(folder_), *device_, options);
  }

  std::shared_ptr<LoadedPlan> Compile(const std::string& op) {
    auto compiler = Read(op, host_);
    if (!compiler) return nullptr;
    auto loaded = (*compiler)->Compile((*compiler)->model().DefaultInputs());
    EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
    return loaded ? loaded->loaded : nullptr;
  }

  Status Run(Instance& instance, const Floats& x, Floats& y) {
    const void* const inputs[] = {x.data()};
    void* const outputs[] = {y.data()};
    return RunOnce(instance, *device_, inputs, outputs);
  }

  testing::TempFolder folder_;
  std::unique_ptr<Device> device_ = testing::MakeDevice(2);
  std::shared_ptr<EngineHost> host_ = HostOf(std::make_shared<TestEngine>());
};

TEST_F(OpaquePlan, RunsTheEngineBetweenKernels) {
  const auto loaded = Compile("Twice");
  ASSERT_NE(loaded, nullptr);
  ASSERT_EQ(loaded->plan.opaque.size(), 1U);
  const PlanOp& op = loaded->plan.ops[loaded->plan.opaque[0]];
  EXPECT_EQ(op.blocks, 1U);
  EXPECT_THAT(op.opaque->ops(), ElementsAre("test.Twice"));
  EXPECT_EQ(op.opaque->longest(), Nanoseconds(0));
  auto instance = Instance::Create(loaded, *device_);
  ASSERT_TRUE(instance.has_value());
  for (int run = 0; run < 3; ++run) {
    Floats y(4);
    const Status ran = Run(**instance, {1, -2, 3, static_cast<float>(run)}, y);
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    EXPECT_THAT(y, ElementsAre(-2, 0, -6, -2 * run));
  }
  EXPECT_GT(op.opaque->longest(), Nanoseconds(0));
  EXPECT_EQ(host_->longest(), op.opaque->longest());
}

TEST_F(OpaquePlan, SaysWhyTheEngineFailed) {
  // Shapes come from a run, so that an op that always fails is refused when the model is compiled.
  auto compiler = Read("Broken", host_);
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  const auto loaded = (*compiler)->Compile((*compiler)->model().DefaultInputs());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message, HasSubstr("Broken"));
}

/// x [4] of strings -> Shout of the test engine -> Flatten -> y [4,1].
Result<std::shared_ptr<LoadedPlan>> CompileShout(Device& device, const testing::TempFolder& folder,
                                                 std::shared_ptr<EngineHost> host) {
  ModelBuilder model;
  model.proto.add_opset_import()->set_domain("test");
  model.Input("x", {4}, onnx::TensorProto::STRING).Output("y");
  model.Add("Shout", {"x"}, {"a"}).proto().set_domain("test");
  model.Add("Flatten", {"a"}, {"y"});
  CompileOptions options;
  options.model = "strings";
  options.import.engine = std::move(host);
  return CompileModel(model.Save(folder), device, options);
}

TEST_F(OpaquePlan, StringsPassThroughThePlanAsTables) {
  const auto loaded = CompileShout(*device_, folder_, host_);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  auto instance = Instance::Create(*loaded, *device_);
  ASSERT_TRUE(instance.has_value());
  const std::vector<StringElement> x = {{"one", 3}, {"", 0}, {"a\0b", 3}, {}};
  std::vector<StringElement> y(4);
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  std::vector<std::shared_ptr<const MadeTensor>> made;
  RunOptions options;
  options.made = &made;
  const Status ran = RunPlan(**instance, *device_, inputs, outputs, options);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  ASSERT_EQ(made.size(), 2U);  // of the one output, and the owner of the strings
  EXPECT_EQ(made[0], nullptr);
  std::vector<std::string> texts;
  for (const StringElement& element : y) texts.emplace_back(element.text());
  EXPECT_THAT(texts, ElementsAre("one!", "!", std::string("a\0b!", 4), "0!"));
  // The next run leaves what was taken alone.
  ASSERT_TRUE(RunPlan(**instance, *device_, inputs, outputs, {}));
  EXPECT_EQ(std::string(made[1]->text.data(), 4), "one!");
}

TEST(StringPlan, OtherDevicesThanTheCpuRefuseStrings) {
  ModelBuilder model;
  model.Input("x", {4}, onnx::TensorProto::STRING).Output("y").Add("Identity", {"x"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  LowerOptions options;
  EXPECT_TRUE(Lower(*graph, "strings", options));
  options.kernels = &CpuKernels();  // as if of a GPU
  const auto refused = Lower(*graph, "strings", options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("input 'x' holds strings (BYTES)"));
}

TEST(StringPlan, ConstantStringsAreForAnEngineOnly) {
  ModelBuilder model;
  model.Output("y").Add("Constant", {}, {"y"}).Text("value_string", "text");
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto refused = Lower(*graph, "strings", {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(refused.error().message, HasSubstr("constant 'y' holds strings"));
}

Floats FloatsOf(const MadeTensor& tensor) {
  Floats values(tensor.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// x [4] -> `op` of the test engine -> y, and x -> Relu -> z.
class OpaqueShapes : public OpaquePlan {
 protected:
  Result<std::shared_ptr<LoadedPlan>> CompileOp(const std::string& op) {
    ModelBuilder model;
    model.proto.add_opset_import()->set_domain("test");
    model.Input("x", {4}).Output("y").Output("z");
    model.Add(op, {"x"}, {"y"}).Name("odd").proto().set_domain("test");
    model.Add("Relu", {"x"}, {"z"});
    CompileOptions options;
    options.model = "odd_model";
    options.import.engine = host_;
    return CompileModel(model.Save(folder_), *device_, options);
  }

  Result<Floats> RunMade(Instance& instance, const Floats& x) {
    Floats none(1), z(4);
    const void* const inputs[] = {x.data()};
    void* const outputs[] = {none.data(), z.data()};
    std::vector<std::shared_ptr<const MadeTensor>> made;
    RunOptions options;
    options.made = &made;
    LAGOON_RETURN_IF_ERROR(RunPlan(instance, *device_, inputs, outputs, options));
    EXPECT_EQ(made.size(), 2U);
    EXPECT_EQ(made[1], nullptr);
    if (made[0] == nullptr) return Fail(ErrorCode::kInternal, "nothing was made");
    EXPECT_EQ(ElementCount(made[0]->dims) * 4, static_cast<std::int64_t>(made[0]->bytes.size()));
    return FloatsOf(*made[0]);
  }
};

TEST_F(OpaqueShapes, EachRunMakesAnOutputWhoseShapeDependsOnData) {
  // Zeros and ones lead to different shapes.
  const auto loaded = CompileOp("Positive");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_TRUE((*loaded)->plan.makes_outputs);
  EXPECT_FALSE((*loaded)->plan.ops[(*loaded)->plan.opaque[0]].opaque->assumed());
  auto instance = Instance::Create(*loaded, *device_);
  ASSERT_TRUE(instance.has_value());
  EXPECT_THAT(*RunMade(**instance, {1, -2, 3, 0}), ElementsAre(1, 3));
  EXPECT_THAT(*RunMade(**instance, {0, 0, 0, 0}), ElementsAre());
  EXPECT_THAT(*RunMade(**instance, {1, 2, 3, 4}), ElementsAre(1, 2, 3, 4));
}

TEST_F(OpaqueShapes, AnAssumptionThatIsWrongIsMadeOnce) {
  // Neither zeros nor ones are above 10.
  const auto loaded = CompileOp("Large");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const OpaqueOp& op = *(*loaded)->plan.ops[(*loaded)->plan.opaque[0]].opaque;
  EXPECT_TRUE(op.assumed());
  EXPECT_EQ((*loaded)->plan.outputs[0].spec.dims, (Dims{0}));
  auto instance = Instance::Create(*loaded, *device_);
  ASSERT_TRUE(instance.has_value());
  Floats none(1), z(4);
  void* const outputs[] = {none.data(), z.data()};
  const Floats small = {1, 2, 3, 4}, large = {11, 2, 13, 4};
  const void* inputs[] = {small.data()};
  EXPECT_TRUE(RunOnce(**instance, *device_, inputs, outputs));
  EXPECT_FALSE(op.outdated());
  inputs[0] = large.data();
  const Status ran = RunOnce(**instance, *device_, inputs, outputs);
  ASSERT_FALSE(ran.has_value());
  EXPECT_THAT(ran.error().message, HasSubstr("test engine, which runs test.Large: the shape is "
                                             "[2], bound is [0]"));
  EXPECT_TRUE(op.outdated());
  const auto again = CompileOp("Large");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  instance = Instance::Create(*again, *device_);
  ASSERT_TRUE(instance.has_value());
  EXPECT_THAT(*RunMade(**instance, large), ElementsAre(11, 13));
}

TEST_F(OpaquePlan, ANodeIsLoadedOnce) {
  const auto engine = std::make_shared<TestEngine>();
  host_ = HostOf(engine);
  ASSERT_NE(Compile("Twice"), nullptr);
  EXPECT_EQ(engine->loaded.size(), 1U);
}

TEST_F(OpaquePlan, LargeWeightsAreLoadedOnce) {
  const auto engine = std::make_shared<TestEngine>();
  ModelBuilder model;
  model.proto.add_opset_import()->set_domain("test");
  model.Input("x", {40000}).Output("y").Weights("w", {40000});
  model.Add("Both", {"x", "w"}, {"y"}).proto().set_domain("test");
  CompileOptions options;
  options.model = "odd_model";
  options.import.engine = HostOf(engine);
  const auto loaded = CompileModel(model.Save(folder_), *device_, options);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  ASSERT_EQ(engine->loaded.size(), 2U);
  EXPECT_EQ(engine->loaded[0].graph().initializer_size(), 0);  // tells the shapes
  EXPECT_EQ(engine->loaded[1].graph().initializer_size(), 1);
}

TEST_F(OpaquePlan, WithoutAnEngineSaysWhatToInstall) {
  auto compiler = Read("Twice", nullptr);
  ASSERT_TRUE(compiler.has_value()) << compiler.error().message;
  const auto loaded = (*compiler)->Compile((*compiler)->model().DefaultInputs());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message, HasSubstr("'odd'"));
  EXPECT_THAT(loaded.error().message, HasSubstr("pip install onnxruntime"));
}

}  // namespace
}  // namespace lagoon

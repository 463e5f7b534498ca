// Models that run in parts, because shapes depend on data.

#include "graph/import/graph_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::TempFolder;

std::unique_ptr<OnnxModel> Read(const ModelBuilder& model) {
  const TempFolder folder;
  auto read = OnnxModel::Read(model.Save(folder));
  EXPECT_TRUE(read.has_value()) << read.error().message;
  return *std::move(read);
}

ModelPart First(const OnnxModel& model) {
  Result<ModelPart> part = model.Instantiate(model.DefaultInputs());
  EXPECT_TRUE(part.has_value()) << part.error().message;
  return part ? *std::move(part) : ModelPart{};
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  return names;
}

/// y: the rows of Relu(x) where x is not 0, doubled; z: Tanh(x). x: [2, 3].
ModelBuilder PickedElements() {
  ModelBuilder model;
  model.Input("x", {2, 3}).Output("y").Output("z");
  model.Add("NonZero", {"x"}, {"where"}).Name("where");
  model.Add("Transpose", {"where"}, {"at"}).Name("at").Ints("perm", {1, 0});
  model.Add("Relu", {"x"}, {"positive"});
  model.Add("GatherND", {"positive", "at"}, {"picked"});
  model.Add("Add", {"picked", "picked"}, {"y"});
  model.Add("Tanh", {"x"}, {"z"});
  return model;
}

TEST(Parts, WhatReadsAComputedShapeComesLater) {
  const auto model = Read(PickedElements());
  const ModelPart part = First(*model);
  EXPECT_EQ(testing::Ops(part.graph), "NonZero Relu Tanh");
  // The result first, then what the next part reads, then the actual dims.
  EXPECT_THAT(OutputNames(part.graph), ElementsAre("z", "where", "positive", "where:sizes"));
  EXPECT_THAT(part.links.results, ElementsAre(1));
  EXPECT_EQ(part.links.sizes[0], std::nullopt);
  EXPECT_EQ(part.links.sizes[1], 3u);
  ASSERT_TRUE(part.links.next);
  const OnnxModel& next = *part.links.next->model;
  ASSERT_EQ(next.inputs().size(), 2u);
  EXPECT_EQ(next.inputs()[0].name, "where");
  EXPECT_EQ(next.inputs()[0].dims, (Dims{-1, -1}));
  EXPECT_EQ(next.inputs()[1].dims, (Dims{2, 3}));
  EXPECT_FALSE(part.links.next->sources[0].from_input);
  EXPECT_EQ(part.links.next->sources[0].index, 1u);
  EXPECT_EQ(part.links.next->sources[1].index, 2u);
  EXPECT_THAT(part.links.next->why.message, HasSubstr("'at' (Transpose, opset"));
}

TEST(Parts, TheNextPartIsCompiledForTheActualShapes) {
  const auto model = Read(PickedElements());
  const ModelPart part = First(*model);
  for (const std::int64_t count : {4, 0}) {
    const auto last = part.links.next->model->Instantiate({{{2, count}, {2, 3}}, {}});
    ASSERT_TRUE(last.has_value()) << last.error().message;
    EXPECT_FALSE(last->links.next);
    EXPECT_THAT(last->links.results, ElementsAre(0));
    ASSERT_EQ(last->graph.outputs.size(), 1u);
    EXPECT_EQ(last->graph.value(last->graph.outputs[0]).dims, Dims{count});
  }
  const auto wrong = part.links.next->model->Instantiate({{{2, 4}, {2, 2}}, {}});
  EXPECT_FALSE(wrong.has_value());
}

TEST(Parts, AnInputIsHandedOn) {
  ModelBuilder model;
  model.Input("x", {2, 3}).Output("y");
  model.Add("NonZero", {"x"}, {"where"});
  model.Add("Transpose", {"where"}, {"at"}).Ints("perm", {1, 0});
  model.Add("GatherND", {"x", "at"}, {"y"});
  const ModelPart part = First(*Read(model));
  EXPECT_TRUE(part.links.results.empty());
  ASSERT_EQ(part.links.next->sources.size(), 2u);
  EXPECT_TRUE(part.links.next->sources[1].from_input);
  EXPECT_EQ(part.links.next->sources[1].index, 0u);
}

TEST(Parts, AnOutputMayHaveComputedDims) {
  ModelBuilder model;
  model.Input("x", {2, 3}).Output("y");
  model.Add("NonZero", {"x"}, {"y"}).Name("y");
  const ModelPart part = First(*Read(model));
  EXPECT_FALSE(part.links.next);
  EXPECT_THAT(part.links.results, ElementsAre(0));
  EXPECT_THAT(OutputNames(part.graph), ElementsAre("y", "y:sizes"));
  EXPECT_EQ(part.links.sizes[0], 1u);
}

/// y: x, as often as the sum of x says, one after the other.
ModelBuilder RepeatedByData() {
  ModelBuilder model;
  model.Input("x", {100}).Output("y");
  model.Add("ReduceSum", {"x"}, {"sum"}).Int("keepdims", 1);
  model.Add("Cast", {"sum"}, {"times"}).Int("to", onnx::TensorProto::INT64);
  model.Add("Tile", {"x", "times"}, {"y"}).Name("tile");
  return model;
}

TEST(Parts, AComputedNumberDecidesTheNextPart) {
  const auto model = Read(RepeatedByData());
  const ModelPart part = First(*model);
  EXPECT_EQ(testing::Ops(part.graph), "ReduceSum Cast");
  const OnnxModel& next = *part.links.next->model;
  GraphInputs inputs{{{100}, {1}}, {}};
  std::vector<std::size_t> deciding;
  EXPECT_FALSE(next.Instantiate(inputs, &deciding).has_value());
  EXPECT_THAT(deciding, ElementsAre(1));
  auto bytes = std::make_shared<ConstantData::Bytes>(sizeof(std::int64_t));
  const std::int64_t times = 3;
  std::memcpy(bytes->data(), &times, sizeof(times));
  inputs.values[1] = Constant{DataType::kInt64, {1}, std::move(bytes)};
  const auto last = next.Instantiate(inputs);
  ASSERT_TRUE(last.has_value()) << last.error().message;
  EXPECT_EQ(last->graph.value(last->graph.outputs[0]).dims, Dims{300});
}

TEST(Parts, ContentsThatNobodyCanGiveAreAnError) {
  // The input has more elements than may decide a plan.
  ModelBuilder model;
  model.Input("x", {2, 3}).Input("sizes", {100}, onnx::TensorProto::INT64).Output("y");
  model.Add("Relu", {"x"}, {"r"});
  model.Add("Reshape", {"r", "sizes"}, {"y"}).Name("shape");
  const auto read = Read(model);
  std::vector<std::size_t> deciding;
  const auto part = read->Instantiate(read->DefaultInputs(), &deciding);
  ASSERT_FALSE(part.has_value());
  EXPECT_TRUE(deciding.empty());
  EXPECT_THAT(part.error().message, HasSubstr("'shape' (Reshape, opset"));
}

TEST(Parts, AModelInPartsIsNotOneGraph) {
  EXPECT_THAT(testing::MessageOf(RepeatedByData().Load(), ErrorCode::kUnimplemented),
              HasSubstr("'tile' (Tile, opset"));
}

// ---- What a request may make an import compute (RequestWork)

/// y: zeros of the shape of x, as often as its first dim is large.
ModelBuilder SquareOfZeros() {
  ModelBuilder model;
  model.Input("x", {-1}).Output("y");
  model.Add("Shape", {"x"}, {"n"});
  model.Add("Concat", {"n", "n"}, {"square"}).Int("axis", 0);
  model.Add("ConstantOfShape", {"square"}, {"zeros"});
  model.Add("Add", {"zeros", "x"}, {"y"});
  return model;
}

TEST(Work, ConstantsThatFollowFromARequestsShapesAreLimited) {
  const auto model = Read(SquareOfZeros());
  GraphInputs inputs{.dims = {{1000}}, .values = {}};
  inputs.work.max_bytes = std::size_t{1} << 20;
  const Result<ModelPart> large = model->Instantiate(inputs);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.error().message, HasSubstr("make a constant of 4000000 bytes"));
  inputs.dims = {{100}};
  EXPECT_TRUE(model->Instantiate(inputs).has_value());
}

TEST(Work, AGraphThatNobodyWantsAnyMoreIsGivenUp) {
  const auto model = Read(SquareOfZeros());
  std::stop_source stop;
  GraphInputs inputs{.dims = {{10}}, .values = {}};
  inputs.work.stop = stop.get_token();
  EXPECT_TRUE(model->Instantiate(inputs).has_value());
  stop.request_stop();
  const Result<ModelPart> part = model->Instantiate(inputs);
  ASSERT_FALSE(part.has_value());
  EXPECT_EQ(part.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace lagoon

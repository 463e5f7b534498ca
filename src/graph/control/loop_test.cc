// Loop: its steps one after the other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "graph/onnx_model.h"
#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"
#include "graph/testing/reference.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using testing::TempFolder;
using Numbers = std::vector<double>;

constexpr int kInt64 = onnx::TensorProto::INT64;
constexpr int kBool = onnx::TensorProto::BOOL;

/// A body with the inputs "i", "c" and `carried`; its first output is "go".
ModelBuilder Body(const std::vector<std::string>& carried = {}) {
  ModelBuilder body;
  body.Input("i", {}, kInt64).Input("c", {}, kBool);
  for (const std::string& name : carried) body.Input(name, {});
  body.Output("go");
  return body;
}

/// A body that goes on as the condition before it says.
ModelBuilder ForBody(const std::vector<std::string>& carried = {}) {
  ModelBuilder body = Body(carried);
  body.Add("Identity", {"c"}, {"go"});
  return body;
}

TEST(Loop, CarriesValuesFromStepToStep) {  // f = f * (i + 1): a factorial
  ModelBuilder body = ForBody({"f"});
  body.Output("next").Number("one", 1);
  body.Add("Add", {"i", "one"}, {"factor"});
  body.Add("Mul", {"f", "factor"}, {"next"});
  for (const std::int64_t steps : {0, 1, 5}) {
    ModelBuilder model;
    model.Number("n", steps).Flag("c", true).Number("f", 1).Output("y");
    model.Add("Loop", {"n", "c", "f"}, {"y"}).Graph("body", body.graph());
    EXPECT_EQ(Folded(model), Numbers{steps == 5 ? 120.0 : 1.0}) << steps;
  }
}

TEST(Loop, EndsWhenTheConditionEnds) {  // while (n < 100) n = 3 * n
  ModelBuilder body = Body({"n"});
  body.Output("next").Number("three", 3).Number("hundred", 100);
  body.Add("Mul", {"n", "three"}, {"next"});
  body.Add("Less", {"next", "hundred"}, {"go"});
  ModelBuilder model;
  model.Number("n", 2).Flag("c", true).Output("y");
  model.Add("Loop", {"", "c", "n"}, {"y"}).Graph("body", body.graph());
  EXPECT_EQ(Folded(model), Numbers{162});
}

TEST(Loop, DoesNoStepIfTheConditionIsFalse) {
  ModelBuilder body = ForBody({"n"});
  body.Output("next");
  body.Add("NoSuchOp", {"n"}, {"next"});
  ModelBuilder model;
  model.Number("m", 5).Number("n", 2).Flag("c", false).Output("y");
  model.Add("Loop", {"m", "c", "n"}, {"y"}).Graph("body", body.graph());
  EXPECT_EQ(Folded(model), Numbers{2});
}

TEST(Loop, StacksScanOutputs) {
  ModelBuilder body = ForBody();
  body.Output("row");
  body.Add("Gather", {"table", "i"}, {"row"});
  ModelBuilder model;
  model.Floats("table", {3, 2}, {1, 2, 3, 4, 5, 6}).Number("n", 3).Output("y");
  model.Add("Loop", {"n"}, {"y"}).Graph("body", body.graph());
  Dims dims;
  EXPECT_EQ(Folded(model, 0, &dims), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(dims, (Dims{3, 2}));
}

TEST(Loop, ScanOutputsOfNoStepAreEmpty) {
  ModelBuilder body = ForBody();
  body.Output("row", {4});
  body.Add("Gather", {"table", "i"}, {"row"});
  ModelBuilder model;
  model.Weights("table", {3, 4}).Number("n", 0).Output("y");
  model.Add("Loop", {"n"}, {"y"}).Graph("body", body.graph());
  Dims dims;
  EXPECT_TRUE(Folded(model, 0, &dims).empty());
  EXPECT_EQ(dims, (Dims{0, 4}));
}

TEST(Loop, ShapesMayChangeFromStepToStep) {  // t = concat(t, t)
  ModelBuilder body = ForBody({"t"});
  body.Output("next");
  body.Add("Concat", {"t", "t"}, {"next"}).Int("axis", 0);
  ModelBuilder model;
  model.Input("x", {3}).Number("n", 3).Output("y");
  model.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", body.graph());
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, Dims{24});
  EXPECT_EQ(Ops(*graph), "Concat Concat Concat");
}

TEST(Loop, ComputesWhatItsStepsCompute) {
  ModelBuilder body = ForBody({"t"});
  body.Output("next").Output("copy");
  body.Add("Gather", {"w", "i"}, {"row"});
  body.Add("Mul", {"t", "row"}, {"scaled"});
  body.Add("Add", {"scaled", "x"}, {"next"});
  body.Add("Tanh", {"next"}, {"copy"});
  ModelBuilder model;
  model.Input("x", {2, 3}).Weights("w", {2, 3}).Number("n", 2).Output("y").Output("z");
  model.Add("Loop", {"n", "", "x"}, {"y", "stack"}).Graph("body", body.graph());
  model.Ints("shape", {4, 3});
  model.Add("Reshape", {"stack", "shape"}, {"z"});
  ModelBuilder straight;
  straight.Input("x", {2, 3}).Weights("w", {2, 3}).Output("y").Output("z");
  straight.Number("i0", 0).Number("i1", 1);
  straight.Add("Gather", {"w", "i0"}, {"w0"});
  straight.Add("Gather", {"w", "i1"}, {"w1"});
  straight.Add("Mul", {"x", "w0"}, {"a"});
  straight.Add("Add", {"a", "x"}, {"b"});
  straight.Add("Mul", {"b", "w1"}, {"d"});
  straight.Add("Add", {"d", "x"}, {"y"});
  straight.Add("Tanh", {"b"}, {"t0"});
  straight.Add("Tanh", {"y"}, {"t1"});
  straight.Add("Concat", {"t0", "t1"}, {"z"}).Int("axis", 0);
  const Result<Graph> loop = model.Load();
  ASSERT_TRUE(loop.has_value()) << loop.error().message;
  testing::ExpectSameOutputs(*straight.Load(), *loop);
}

TEST(Loop, MayHoldLoopsAndBranches) {  // sum over i < 3, j < i of (i even ? 1 : 10)
  ModelBuilder one, ten;
  one.Output("k").Number("k", 1);
  ten.Output("k").Number("k", 10);
  ModelBuilder inner = ForBody({"s"});
  inner.Output("next");
  inner.Add("If", {"even"}, {"term"})
      .Graph("then_branch", one.graph())
      .Graph("else_branch", ten.graph());
  inner.Add("Add", {"s", "term"}, {"next"});
  ModelBuilder outer = ForBody({"t"});
  outer.Output("sum").Number("two", 2).Number("zero", 0);
  outer.Add("Mod", {"i", "two"}, {"rest"});
  outer.Add("Equal", {"rest", "zero"}, {"even"});
  outer.Add("Loop", {"i", "c", "t"}, {"sum"}).Graph("body", inner.graph());
  ModelBuilder model;
  model.Number("n", 4).Number("t", 0).Output("y");
  model.Add("Loop", {"n", "", "t"}, {"y"}).Graph("body", outer.graph());
  EXPECT_EQ(Folded(model), Numbers{10 + 2 * 1 + 3 * 10});
}

TEST(Loop, CarriesSequences) {
  ModelBuilder body = ForBody({"list"});
  body.Output("longer");
  body.Add("Gather", {"table", "i"}, {"row"});
  body.Add("SequenceInsert", {"list", "row"}, {"longer"});
  ModelBuilder model;
  model.Floats("table", {2, 2}, {1, 2, 3, 4}).Number("n", 2).Output("y");
  model.Add("SequenceEmpty", {}, {"none"});
  model.Add("Loop", {"n", "", "none"}, {"rows"}).Graph("body", body.graph());
  model.Add("ConcatFromSequence", {"rows"}, {"y"}).Int("axis", 0);
  EXPECT_EQ(Folded(model), (Numbers{1, 2, 3, 4}));
}

// Limits and errors.

ModelBuilder Endless(const std::string& trips) {
  ModelBuilder body = Body({"t"});
  body.Output("next").Flag("go", true);
  body.Add("Relu", {"t"}, {"next"});
  ModelBuilder model;
  model.Input("x", {2}).Number("most", std::numeric_limits<std::int64_t>::max()).Output("y");
  model.Add("Loop", {trips, "", "x"}, {"y"}).Graph("body", body.graph()).Name("spin");
  return model;
}

TEST(Loop, WithoutAnEndIsRefused) {
  EXPECT_THAT(MessageOf(Endless("most").Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("'spin'"), HasSubstr("more than 65536 nodes")));
  // Without a trip count the parts go on until so many steps are done.
  const TempFolder folder;
  auto model = OnnxModel::Read(Endless("").Save(folder));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const Result<ModelPart> part = (*model)->Import((*model)->DefaultInputs());
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_LE(part->graph.nodes.size(), kMaxPartNodes);
  ASSERT_TRUE(part->links.next);
  EXPECT_THAT(part->links.next->why.message,
              HasSubstr("has steps behind the 4096 that one part of the model takes"));
}

/// y: x plus i of each of `trips` steps; z: the sums so far.
ModelBuilder Sums(std::int64_t trips) {
  ModelBuilder body = Body({"t"});
  body.Output("next").Output("sum").Flag("go", true);
  body.Add("Cast", {"i"}, {"number"}).Int("to", onnx::TensorProto::FLOAT);
  body.Add("Add", {"t", "number"}, {"next"});
  body.Add("Identity", {"next"}, {"sum"});
  ModelBuilder model;
  model.Input("x", {}).Number("n", trips).Output("y").Output("z");
  model.Add("Loop", {"n", "", "x"}, {"y", "z"}).Graph("body", body.graph()).Name("l");
  return model;
}

TEST(Loop, OfMoreStepsThanAPartTakesGoesOnInTheNextPart) {
  const TempFolder folder;
  auto model = OnnxModel::Read(Sums(1500).Save(folder));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  std::shared_ptr<const OnnxModel> part = *std::move(model);
  std::size_t steps = 0, parts = 0;
  for (bool more = true; more; ++parts) {
    const Result<ModelPart> made = part->Instantiate(part->DefaultInputs());
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_LE(made->graph.nodes.size(), kMaxPartNodes + 4);
    steps += static_cast<std::size_t>(std::ranges::count(made->graph.nodes, "Add", &Node::op));
    more = made->links.next.has_value();
    if (more) part = made->links.next->model;
    if (!more) {
      EXPECT_EQ(made->graph.value(made->graph.outputs[1]).dims, (Dims{1500}));
    }
  }
  EXPECT_EQ(steps, 1500u);
  EXPECT_EQ(parts, 2u);  // 4500 nodes
}

TEST(Loop, OfAnEmptyBodyWithoutAnEndIsRefused) {
  ModelBuilder body = Body({"t"});
  body.Flag("go", true).Output("t");
  ModelBuilder model;
  model.Input("x", {2}).Output("y");
  model.Add("Loop", {"", "", "x"}, {"y"}).Graph("body", body.graph());
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              HasSubstr("more than 65536 nodes"));
}

TEST(Loop, InsideLoopsIsBoundedToo) {
  ModelBuilder body = ForBody({"t"});
  body.Output("next");
  body.Add("Relu", {"t"}, {"next"});
  for (int depth = 0; depth < 3; ++depth) {
    ModelBuilder outer = ForBody({"t"});
    outer.Output("next").Number("n", 1000);
    outer.Add("Loop", {"n", "", "t"}, {"next"}).Graph("body", body.graph());
    body = outer;
  }
  ModelBuilder model;
  model.Input("t", {2}).Number("n", 1000).Output("y");
  model.Add("Loop", {"n", "", "t"}, {"y"}).Graph("body", body.graph());
  // The innermost loop fills the first part, and goes on in the next one.
  const TempFolder folder;
  auto read = OnnxModel::Read(model.Save(folder));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const Result<ModelPart> part = (*read)->Import((*read)->DefaultInputs());
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_LE(part->graph.nodes.size(), 2 * kMaxPartNodes);
  EXPECT_TRUE(part->links.next);
}

/// y: x doubled until it is at least 9, at most five times.
ModelBuilder DoublesUntilNine() {
  ModelBuilder body = Body({"t"});
  body.Output("next").Floats("limit", {}, {9});
  body.Add("Add", {"t", "t"}, {"next"});
  body.Add("Less", {"next", "limit"}, {"go"});
  ModelBuilder model;
  model.Input("x", {}).Number("n", 5).Output("y");
  model.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", body.graph()).Name("l");
  return model;
}

TEST(Loop, WhoseEndDependsOnDataIsNotOneGraph) {
  EXPECT_THAT(MessageOf(DoublesUntilNine().Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("'l' (Loop"), HasSubstr("is computed at run time")));
  ModelBuilder trips;
  trips.Input("x", {}).Input("n", {}, kInt64).Output("y");
  trips.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", ForBody({"t"}).Output("t").graph());
  EXPECT_THAT(MessageOf(trips.Import(), ErrorCode::kUnimplemented),
              HasSubstr("trip count 'n' is computed at run time"));
}

TEST(Loop, WhoseEndDependsOnDataIsAPartForEachStep) {
  const testing::TempFolder folder;
  const auto model = OnnxModel::Read(DoublesUntilNine().Save(folder));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  Result<ModelPart> part = (*model)->Instantiate((*model)->DefaultInputs());
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(part.has_value()) << part.error().message;
    EXPECT_EQ(Ops(part->graph), "Add Less") << step;
    ASSERT_TRUE(part->links.next) << step;
    // The carried value, and whether there is another step: a bool that decides the next part.
    const auto next = part->links.next->model;
    GraphInputs inputs = next->DefaultInputs();
    std::vector<std::size_t> deciding;
    EXPECT_FALSE(next->Instantiate(inputs, &deciding).has_value());
    ASSERT_EQ(deciding.size(), 1u);
    EXPECT_EQ(next->inputs()[deciding[0]].type, DataType::kBool);
    auto goes_on = std::make_shared<ConstantData::Bytes>(1, std::byte(step < 2 ? 1 : 0));
    inputs.values[deciding[0]] = Constant{DataType::kBool, {}, std::move(goes_on)};
    part = next->Instantiate(inputs);
  }
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_FALSE(part->links.next);  // the loop has ended
  EXPECT_EQ(Ops(part->graph), "Identity");
}

TEST(Loop, BodiesThatDoNotFitAreRefused) {
  ModelBuilder model;
  model.Input("x", {2}).Number("n", 2).Output("y");
  model.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", ForBody().graph());
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument), HasSubstr("do not fit"));
  ModelBuilder few = ForBody();
  few.Output("c");
  ModelBuilder other;
  other.Input("x", {2}).Number("n", 2).Output("y");
  other.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", few.graph());
  EXPECT_THAT(MessageOf(other.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("do not fit 1 carried values"));
  ModelBuilder trips;
  trips.Input("x", {2}).Floats("n", {}, {2}).Output("y");
  trips.Add("Loop", {"n", "", "x"}, {"y"}).Graph("body", ForBody({"t"}).Output("t").graph());
  EXPECT_THAT(MessageOf(trips.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("trip count 'n' is FP32 [], must be one INT64"));
}

}  // namespace
}  // namespace lagoon

// The body of a loop that stays a loop.

#include "graph/control/loop_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/graph_edit.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

ValueId Add(Graph& graph, const std::string& name, DataType type, Dims dims, bool known) {
  Value& value = graph.values.emplace_back();
  value.name = name;
  value.type = type;
  value.dims = std::move(dims);
  value.shape_known = known;
  return static_cast<ValueId>(graph.values.size() - 1);
}

void AddNode(Graph& graph, const std::string& op, std::vector<ValueId> inputs, ValueId output) {
  Node& node = graph.nodes.emplace_back();
  node.name = node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
}

/// x + w until x reaches `limit`; "limit" and "w" are captured, the sums are stacked too.
struct UntilLimit {
  Graph graph;
  ValueId x, w, limit;

  explicit UntilLimit(bool limit_is_constant) {
    auto body = std::make_shared<Graph>();
    body->opset = graph.opset = 13;
    const auto in = [&](const char* name, DataType type) {
      body->inputs.push_back(Add(*body, name, type, {}, false));
      return body->inputs.back();
    };
    in("i", DataType::kInt64);
    in("c", DataType::kBool);
    const ValueId carried = in("t", DataType::kFloat32);
    const ValueId inner_limit = in("limit", DataType::kFloat32);
    const ValueId inner_w = in("w", DataType::kFloat32);
    const ValueId sum = Add(*body, "sum", DataType::kFloat32, {}, false);
    const ValueId go = Add(*body, "go", DataType::kBool, {}, false);
    AddNode(*body, "Add", {carried, inner_w}, sum);
    AddNode(*body, "Less", {sum, inner_limit}, go);
    body->outputs = {go, sum, sum};

    x = Add(graph, "x", DataType::kFloat32, {2}, true);
    w = Add(graph, "w", DataType::kFloat32, {2}, true);
    limit = Add(graph, "limit", DataType::kFloat32, {}, true);
    if (limit_is_constant) {
      graph.value(limit).constant =
          Constant{DataType::kFloat32, {}, std::make_shared<ConstantData::Bytes>(4)};
    }
    const ValueId y = Add(graph, "y", DataType::kFloat32, {}, false);
    graph.inputs = {x, w};
    graph.outputs = {y};
    AddNode(graph, "Loop", {kNoValue, kNoValue, x, limit, w}, y);
    graph.nodes[0].bodies.emplace("body", body);
    graph.nodes[0].captured = 2;
  }
};

TEST(LoopBody, IsAGraphOfItsOwn) {
  const UntilLimit model(true);
  Result<LoopBody> body = BodyOf(model.graph, model.graph.nodes[0]);
  ASSERT_TRUE(body.has_value()) << body.error().message;
  EXPECT_EQ(body->carried, 1u);
  EXPECT_EQ(body->scans, 1u);
  EXPECT_EQ(body->captured, std::vector<ValueId>{model.w});  // "limit" is a constant of the body
  ASSERT_EQ(body->graph.inputs.size(), 4u);
  const auto name = [&](std::size_t i) { return body->graph.value(body->graph.inputs[i]).name; };
  EXPECT_EQ(name(0) + name(1) + name(2) + name(3), "ictw");
  ByteBudget budget(1 << 20);
  const Status inferred = InferShapes(body->graph, budget);
  ASSERT_TRUE(inferred.has_value()) << inferred.error().message;
  EXPECT_EQ(body->graph.nodes.size(), 2u);
  EXPECT_EQ(body->graph.value(body->graph.outputs[0]).type, DataType::kBool);
  EXPECT_EQ(body->graph.value(body->graph.outputs[1]).dims, Dims{2});
  // The graph around it still has the loop as it was.
  EXPECT_EQ(model.graph.nodes[0].bodies.at("body")->inputs.size(), 5u);
}

TEST(LoopBody, CapturesWhatIsNotConstant) {
  const UntilLimit model(false);
  const Result<LoopBody> body = BodyOf(model.graph, model.graph.nodes[0]);
  ASSERT_TRUE(body.has_value()) << body.error().message;
  EXPECT_EQ(body->captured, (std::vector<ValueId>{model.limit, model.w}));
  EXPECT_EQ(body->graph.inputs.size(), 5u);
}

TEST(LoopBody, IsNotThereForOtherNodes) {
  UntilLimit model(true);
  model.graph.nodes[0].steps_done = 1;
  EXPECT_FALSE(BodyOf(model.graph, model.graph.nodes[0]).has_value());
  model.graph.nodes[0].steps_done = 0;
  model.graph.nodes[0].inputs.erase(model.graph.nodes[0].inputs.begin() + 2);
  const Result<LoopBody> few = BodyOf(model.graph, model.graph.nodes[0]);
  ASSERT_FALSE(few.has_value());
  EXPECT_THAT(few.error().message, HasSubstr("do not fit 0 carried values"));
}

TEST(LoopBody, SaysThatDataDecide) {
  const UntilLimit model(true);
  EXPECT_TRUE(ConditionDependsOnData(model.graph, model.graph.nodes[0]));
  UntilLimit constant(true);
  for (const ValueId id : {constant.x, constant.w}) {
    constant.graph.value(id).constant =
        Constant{DataType::kFloat32, {2}, std::make_shared<ConstantData::Bytes>(8)};
  }
  EXPECT_FALSE(ConditionDependsOnData(constant.graph, constant.graph.nodes[0]));
}

}  // namespace
}  // namespace lagoon

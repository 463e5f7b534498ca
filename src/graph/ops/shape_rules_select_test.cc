// Capacity and sizes of ops whose output shape depends on data.

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph_edit.h"
#include "graph/ops/infer.h"
#include "graph/testing/model_builder.h"
#include "graph/testing/one_node.h"

namespace lagoon {
namespace {

using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using Ints = std::vector<std::int64_t>;

/// A graph of one node on inputs "x" (fp32) and others, inferred without the check that its outputs
/// have certain dims: the node's outputs are no outputs of the graph.
class NodeGraph {
 public:
  explicit NodeGraph(const std::string& op, std::size_t outputs = 1) {
    graph_.opset = 13;
    Node node;
    node.name = "n";
    node.op = op;
    for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(Add("y", {}, {}));
    graph_.nodes.push_back(std::move(node));
  }

  NodeGraph& Input(DataType type, const Dims& dims) {
    graph_.nodes[0].inputs.push_back(Add("x", type, dims));
    return *this;
  }
  NodeGraph& Known(const Ints& values) {
    Input(DataType::kInt64, {static_cast<std::int64_t>(values.size())});
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * 8);
    std::memcpy(bytes->data(), values.data(), bytes->size());
    Value& value = graph_.value(graph_.nodes[0].inputs.back());
    value.constant = Constant{value.type, value.dims, std::move(bytes)};
    return *this;
  }
  NodeGraph& Left() {
    graph_.nodes[0].inputs.push_back(kNoValue);
    return *this;
  }
  NodeGraph& Set(const std::string& name, Attribute value) {
    graph_.nodes[0].attributes[name] = std::move(value);
    return *this;
  }

  Status Infer() {
    ByteBudget budget(std::size_t{1} << 30);
    return InferShapes(graph_, budget);
  }
  const Node& node() const { return graph_.nodes[0]; }
  Graph& graph() { return graph_; }
  const Value& output(std::size_t i) const { return graph_.value(node().outputs.at(i)); }

 private:
  ValueId Add(const std::string& name, DataType type, const Dims& dims) {
    Value value;
    value.name = name + std::to_string(graph_.values.size());
    value.type = type;
    value.dims = dims;
    value.shape_known = true;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph graph_;
};

void ExpectCapacity(NodeGraph& g, std::size_t output, const Dims& dims, std::size_t sizes) {
  EXPECT_EQ(g.output(output).dims, dims);
  EXPECT_EQ(g.output(output).sizes, g.node().outputs.at(sizes));
  EXPECT_EQ(g.output(sizes).dims, Dims{static_cast<std::int64_t>(dims.size())});
  EXPECT_EQ(g.output(sizes).type, DataType::kInt64);
}

TEST(Capacity, NonZeroHasRoomForEveryElement) {
  NodeGraph g("NonZero");
  g.Input(DataType::kFloat32, {2, 3});
  ASSERT_TRUE(g.Infer());
  ASSERT_TRUE(g.Infer());  // once more: nothing is added twice
  EXPECT_EQ(g.node().outputs.size(), 2U);
  ExpectCapacity(g, 0, {2, 6}, 1);
  EXPECT_EQ(g.output(1).name, "n:sizes");
}

TEST(Capacity, AnEmptyCapacityIsCertain) {
  NodeGraph g("NonZero");
  g.Input(DataType::kFloat32, {0, 3});
  ASSERT_TRUE(g.Infer());
  EXPECT_EQ(g.output(0).dims, (Dims{2, 0}));
  EXPECT_EQ(g.output(0).sizes, kNoValue);
  EXPECT_EQ(g.node().outputs.size(), 1U);
}

TEST(Capacity, NonZeroOfAConstantIsEvaluated) {
  NodeGraph g("NonZero");
  g.Known({0, 5, 0, 7});
  ASSERT_TRUE(g.Infer());
  EXPECT_EQ(g.output(0).dims, (Dims{1, 2}));
  EXPECT_EQ(g.output(0).sizes, kNoValue);
  ASSERT_TRUE(g.output(0).constant);
  EXPECT_EQ(g.output(0).constant->ToInt64(), (Ints{1, 3}));
}

TEST(Capacity, NonMaxSuppressionKnowsItsLimit) {
  NodeGraph g("NonMaxSuppression");
  g.Input(DataType::kFloat32, {2, 50, 4}).Input(DataType::kFloat32, {2, 3, 50}).Known({7});
  ASSERT_TRUE(g.Infer());
  ExpectCapacity(g, 0, {2 * 3 * 7, 3}, 1);
  NodeGraph computed("NonMaxSuppression");
  computed.Input(DataType::kFloat32, {2, 50, 4}).Input(DataType::kFloat32, {2, 3, 50});
  computed.Input(DataType::kInt64, {});
  ASSERT_TRUE(computed.Infer());
  ExpectCapacity(computed, 0, {2 * 3 * 50, 3}, 1);
  NodeGraph none("NonMaxSuppression");
  none.Input(DataType::kFloat32, {2, 50, 4}).Input(DataType::kFloat32, {2, 3, 50});
  ASSERT_TRUE(none.Infer());
  EXPECT_EQ(none.output(0).dims, (Dims{0, 3}));
  EXPECT_EQ(none.output(0).sizes, kNoValue);
}

TEST(Capacity, NonMaxSuppressionRefusesWhatDoesNotFit) {
  const auto refused = [](const Dims& boxes, const Dims& scores, DataType type) {
    NodeGraph g("NonMaxSuppression");
    g.Input(type, boxes).Input(DataType::kFloat32, scores).Known({7});
    return !g.Infer();
  };
  EXPECT_TRUE(refused({2, 50, 5}, {2, 3, 50}, DataType::kFloat32));
  EXPECT_TRUE(refused({2, 50, 4}, {1, 3, 50}, DataType::kFloat32));
  EXPECT_TRUE(refused({2, 50, 4}, {2, 3, 49}, DataType::kFloat32));
  EXPECT_TRUE(refused({50, 4}, {2, 3, 50}, DataType::kFloat32));
  EXPECT_TRUE(refused({2, 50, 4}, {2, 3, 50}, DataType::kFloat16));
  NodeGraph g("NonMaxSuppression");
  g.Input(DataType::kFloat32, {1, 5, 4}).Input(DataType::kFloat32, {1, 3, 5}).Known({7, 8});
  EXPECT_FALSE(g.Infer());
}

TEST(Capacity, UniqueHasSizesForItsListsToo) {
  NodeGraph g("Unique", 4);
  g.Input(DataType::kFloat32, {2, 3}).Set("axis", std::int64_t{-1});
  ASSERT_TRUE(g.Infer());
  EXPECT_EQ(g.node().outputs.size(), 6U);
  ExpectCapacity(g, 0, {2, 3}, 4);
  ExpectCapacity(g, 1, {3}, 5);
  ExpectCapacity(g, 3, {3}, 5);
  EXPECT_EQ(g.output(2).sizes, kNoValue);  // one index per element
  EXPECT_EQ(g.output(5).name, "n:sizes.1");
}

TEST(Capacity, CompressAndTopKTakeWhatIsComputed) {
  NodeGraph compress("Compress");
  compress.Input(DataType::kFloat32, {4, 6}).Input(DataType::kBool, {3});
  compress.Set("axis", std::int64_t{1});
  ASSERT_TRUE(compress.Infer());
  ExpectCapacity(compress, 0, {4, 3}, 1);
  NodeGraph top("TopK", 2);
  top.Input(DataType::kFloat32, {4, 6}).Input(DataType::kInt64, {1});
  ASSERT_TRUE(top.Infer());
  ExpectCapacity(top, 0, {4, 6}, 2);
  ExpectCapacity(top, 1, {4, 6}, 2);
  NodeGraph known("TopK", 2);
  known.Input(DataType::kFloat32, {4, 6}).Known({2});
  ASSERT_TRUE(known.Infer());
  EXPECT_EQ(known.output(0).dims, (Dims{4, 2}));
  EXPECT_EQ(known.output(0).sizes, kNoValue);
}

TEST(Capacity, TheSizesStayWithTheirValue) {
  NodeGraph g("NonZero");
  g.Input(DataType::kFloat32, {2, 3});
  g.graph().inputs = g.node().inputs;
  ASSERT_TRUE(g.Infer());
  g.graph().outputs = {g.node().outputs[0]};
  Compact(g.graph());
  ASSERT_EQ(g.node().outputs.size(), 2U);
  EXPECT_EQ(g.output(0).sizes, g.node().outputs[1]);
  EXPECT_EQ(g.output(1).name, "n:sizes");
}

TEST(Capacity, NoNodeAndNoOutputMayReadIt) {
  ModelBuilder direct;
  direct.Input("x", {2, 3}).Output("y");
  direct.Add("NonZero", {"x"}, {"y"}).Name("n");
  const std::string output = MessageOf(direct.Import(), ErrorCode::kUnimplemented);
  EXPECT_NE(output.find("an output of the graph reads 'y', whose shape depends on data: at most "
                        "[2,6]"),
            std::string::npos)
      << output;
  ModelBuilder indirect;
  indirect.Input("x", {2, 3}).Output("y");
  indirect.Add("NonZero", {"x"}, {"t"}).Name("n");
  indirect.Add("Transpose", {"t"}, {"y"}).Name("m");
  const std::string node = MessageOf(indirect.Import(), ErrorCode::kUnimplemented);
  EXPECT_NE(node.find("'m'"), std::string::npos) << node;
}

}  // namespace
}  // namespace lagoon

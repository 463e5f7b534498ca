// Scan and SequenceMap: one step for each row of their inputs, or for each element.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using Numbers = std::vector<double>;

/// s + x, twice: as the next state and as what is stacked.
onnx::GraphProto SumBody() {
  ModelBuilder body;
  body.Input("s", {}).Input("x", {}).Output("sum").Output("copy");
  body.Add("Add", {"s", "x"}, {"sum"});
  body.Add("Identity", {"sum"}, {"copy"});
  return body.graph();
}

/// Running sums over `table` [3, 2], which is 1 2, 3 4, 5 6.
ModelBuilder Sums(const std::vector<float>& state, const std::function<void(NodeRef)>& set,
                  std::int64_t opset = 13) {
  ModelBuilder model(opset);
  model.Floats("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  model.Floats("zero", {static_cast<std::int64_t>(state.size())}, state);
  model.Output("last").Output("all");
  NodeRef scan = model.Add("Scan", {"zero", "table"}, {"last", "all"}).Name("scan");
  scan.Graph("body", SumBody()).Int("num_scan_inputs", 1);
  set(scan);
  return model;
}

TEST(Scan, GoesOverTheRows) {
  for (const std::int64_t opset : {9, 11, 13}) {  // with different spellings of Unsqueeze
    const ModelBuilder model = Sums(
        {0, 0}, [](NodeRef) {}, opset);
    Dims dims;
    EXPECT_EQ(Folded(model, 0), (Numbers{9, 12}));
    EXPECT_EQ(Folded(model, 1, &dims), (Numbers{1, 2, 4, 6, 9, 12}));
    EXPECT_EQ(dims, (Dims{3, 2}));
  }
}

TEST(Scan, GoesBackwards) {
  const ModelBuilder model =
      Sums({0, 0}, [](NodeRef scan) { scan.Ints("scan_input_directions", {1}); });
  EXPECT_EQ(Folded(model, 1), (Numbers{5, 6, 8, 10, 9, 12}));
}

TEST(Scan, StacksBackwards) {
  const ModelBuilder model =
      Sums({0, 0}, [](NodeRef scan) { scan.Ints("scan_output_directions", {1}); });
  EXPECT_EQ(Folded(model, 1), (Numbers{9, 12, 4, 6, 1, 2}));
}

TEST(Scan, TakesOtherAxes) {
  const ModelBuilder model = Sums({0, 0, 0}, [](NodeRef scan) {
    scan.Ints("scan_input_axes", {-1}).Ints("scan_output_axes", {-1});
  });
  Dims dims;
  EXPECT_EQ(Folded(model, 0), (Numbers{3, 7, 11}));
  EXPECT_EQ(Folded(model, 1, &dims), (Numbers{1, 3, 3, 7, 5, 11}));
  EXPECT_EQ(dims, (Dims{3, 2}));
}

TEST(Scan, OfNoRowKeepsTheState) {
  ModelBuilder model;
  model.Floats("table", {0, 2}, {}).Floats("zero", {2}, {7, 8}).Output("last");
  model.Add("Scan", {"zero", "table"}, {"last"}).Graph("body", SumBody()).Int("num_scan_inputs", 1);
  EXPECT_EQ(Folded(model), (Numbers{7, 8}));
}

TEST(Scan, BadNodesAreRefused) {
  const auto message = [](const std::function<void(NodeRef)>& set, ErrorCode code) {
    return MessageOf(Sums({0, 0}, set).Import(), code);
  };
  EXPECT_THAT(
      message([](NodeRef scan) { scan.Ints("scan_input_axes", {2}); }, ErrorCode::kInvalidArgument),
      HasSubstr("axis 2"));
  EXPECT_THAT(message(
                  [](NodeRef scan) {
                    scan.Ints("scan_output_axes", {0, 0});
                  },
                  ErrorCode::kInvalidArgument),
              HasSubstr("scan_output_axes has 2 elements, must have 1"));
  ModelBuilder many;
  many.Floats("x", {2}, {1, 2}).Output("y");
  many.Add("Scan", {"x"}, {"y"}).Graph("body", SumBody()).Int("num_scan_inputs", 3);
  EXPECT_THAT(MessageOf(many.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("num_scan_inputs is 3, the node has 1 inputs"));
  ModelBuilder lengths;
  ModelBuilder body;
  body.Input("a", {}).Input("b", {}).Output("c");
  body.Add("Add", {"a", "b"}, {"c"});
  lengths.Input("x", {2}).Input("z", {3}).Output("y");
  lengths.Add("Scan", {"x", "z"}, {"y"}).Graph("body", body.graph()).Int("num_scan_inputs", 2);
  EXPECT_THAT(MessageOf(lengths.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("input 'z' has 3 steps, another one 2"));
  ModelBuilder long_one;
  long_one.Input("x", {50000}).Floats("s", {}, {0}).Output("y");
  long_one.Add("Scan", {"s", "x"}, {"y"}).Graph("body", SumBody()).Int("num_scan_inputs", 1);
  EXPECT_THAT(MessageOf(long_one.Import(), ErrorCode::kUnimplemented),
              HasSubstr("50000 steps of 2 nodes are more than 65536 nodes"));
}

TEST(SequenceMap, TakesEveryElement) {
  ModelBuilder body;
  body.Input("e", {}).Input("k", {}).Output("product");
  body.Add("Mul", {"e", "k"}, {"product"});
  ModelBuilder model(17);
  model.Floats("a", {1}, {2}).Floats("b", {2}, {3, 4}).Floats("k", {}, {10}).Output("y");
  model.Add("SequenceConstruct", {"a", "b"}, {"list"});
  model.Add("SequenceMap", {"list", "k"}, {"scaled"}).Graph("body", body.graph());
  model.Add("ConcatFromSequence", {"scaled"}, {"y"}).Int("axis", 0);
  EXPECT_EQ(Folded(model), (Numbers{20, 30, 40}));
}

}  // namespace
}  // namespace lagoon

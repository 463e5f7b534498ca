#include "graph/cut/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ModelBuilder;
using testing::TempFolder;

/// x -> Relu -> a -> MatMul(w) -> b -> Add(a) -> c -> Reshape(Constant shape) -> y; z = Tanh(b).
ModelBuilder Branched() {
  ModelBuilder model;
  model.Input("x", {2, 3}).Weights("w", {3, 3}).Output("y", {3, 2}).Output("z", {2, 3});
  model.Add("Relu", {"x"}, {"a"});
  model.Add("MatMul", {"a", "w"}, {"b"});
  model.Add("Constant", {}, {"shape"})
      .Tensor("value", testing::RawTensor<std::int64_t>("", onnx::TensorProto::INT64, {2}, {3, 2}));
  model.Add("Add", {"b", "a"}, {"c"});
  model.Add("Reshape", {"c", "shape"}, {"y"});
  model.Add("Tanh", {"b"}, {"z"});
  return model;
}

onnx::ModelProto Parsed(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromIstream(&file)) << path;
  return model;
}

std::string OpsOf(const onnx::GraphProto& graph) {
  std::string ops;
  for (const onnx::NodeProto& node : graph.node()) {
    ops += (ops.empty() ? "" : " ") + node.op_type();
  }
  return ops;
}

Result<std::vector<PartFile>> Cut(const ModelBuilder& model, const TempFolder& folder,
                                  std::vector<CutPoint> cuts) {
  const auto known = model.Import();
  EXPECT_TRUE(known) << known.error().message;
  return CutOnnx(model.Save(folder), cuts, *known, true, folder / "parts");
}

std::string MessageOf(const ModelBuilder& model, std::vector<CutPoint> cuts) {
  const TempFolder folder;
  const auto files = CutOnnx(model.Save(folder), cuts, {}, true, folder / "parts");
  EXPECT_FALSE(files);
  return files ? "" : files.error().message;
}

TEST(CutOnnx, EachPartHasItsNodesWeightsAndCrossingValues) {
  const TempFolder folder;
  const auto files = Cut(Branched(), folder, {{{"b"}, "op 1 'b'"}});
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2u);
  const onnx::ModelProto first = Parsed(files->at(0).path), second = Parsed(files->at(1).path);
  EXPECT_EQ(OpsOf(first.graph()), "Relu MatMul");
  EXPECT_THAT(files->at(0).inputs, ElementsAre("x"));
  EXPECT_THAT(files->at(0).outputs, ElementsAre("a", "b"));
  ASSERT_EQ(first.graph().initializer_size(), 1);
  EXPECT_EQ(first.graph().initializer(0).name(), "w");
  EXPECT_EQ(OpsOf(second.graph()), "Constant Add Reshape Tanh");
  EXPECT_THAT(files->at(1).inputs, ElementsAre("a", "b"));
  EXPECT_THAT(files->at(1).outputs, ElementsAre("y", "z"));
  EXPECT_EQ(second.graph().initializer_size(), 0);
  const auto& type = second.graph().input(0).type().tensor_type();
  EXPECT_EQ(type.elem_type(), onnx::TensorProto::FLOAT);
  ASSERT_EQ(type.shape().dim_size(), 2);
  EXPECT_EQ(type.shape().dim(1).dim_value(), 3);
  EXPECT_EQ(second.opset_import(0).version(), 13);
}

TEST(CutOnnx, TheTypesOfAnOpenModelHaveNoSizes) {
  const TempFolder folder;
  const ModelBuilder model = Branched();
  const auto known = model.Import();
  ASSERT_TRUE(known);
  const std::vector<CutPoint> cuts = {{{"b"}, ""}};
  const auto files = CutOnnx(model.Save(folder), cuts, *known, false, folder / "parts");
  ASSERT_TRUE(files);
  const onnx::ModelProto second = Parsed(files->at(1).path);
  const auto& shape = second.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_FALSE(shape.dim(0).has_dim_value());
}

// A part that ends before a node of the graph's first branch: closure, not the order of the file,
// decides what belongs to a part.
TEST(CutOnnx, APartHasWhatItsLastValuesNeed) {
  const TempFolder folder;
  const auto files = Cut(Branched(), folder, {{{"a"}, ""}, {{"unknown", "z"}, ""}});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(OpsOf(Parsed(files->at(0).path).graph()), "Relu");
  EXPECT_EQ(OpsOf(Parsed(files->at(1).path).graph()), "MatMul Tanh");
  EXPECT_THAT(files->at(1).outputs, ElementsAre("b", "z"));
  EXPECT_EQ(OpsOf(Parsed(files->at(2).path).graph()), "Constant Add Reshape");
  EXPECT_THAT(files->at(2).inputs, ElementsAre("a", "b"));
}

TEST(CutOnnx, CopiesWhatReadsOnlyConstants) {
  ModelBuilder model;
  model.Input("x", {3}).Weights("w", {3}).Output("y", {3});
  model.Add("Neg", {"w"}, {"n"});
  model.Add("Add", {"x", "n"}, {"a"});
  model.Add("Mul", {"a", "n"}, {"y"});
  const TempFolder folder;
  const auto files = Cut(model, folder, {{{"n", "a"}, ""}});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(OpsOf(Parsed(files->at(0).path).graph()), "Neg Add");
  EXPECT_EQ(OpsOf(Parsed(files->at(1).path).graph()), "Neg Mul");
  EXPECT_THAT(files->at(1).inputs, ElementsAre("a"));
}

TEST(CutOnnx, WeightsInExternalDataAreCopied) {
  const TempFolder folder;
  ModelBuilder model = Branched();
  onnx::TensorProto& weight = *model.graph().mutable_initializer(0);
  folder.Write("weights.bin", "1234" + weight.raw_data());
  const std::string bytes = weight.raw_data();
  weight.clear_raw_data();
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", "weights.bin"}, {"offset", "4"}}) {
    onnx::StringStringEntryProto& entry = *weight.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  const std::vector<CutPoint> cuts = {{{"b"}, ""}};
  const auto known = ImportOnnx(model.Save(folder));
  ASSERT_TRUE(known);
  const auto files = CutOnnx(folder / "model.onnx", cuts, *known, true, folder / "parts");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(Parsed(files->at(0).path).graph().initializer(0).raw_data(), bytes);
}

TEST(CutOnnx, APartWithoutANodeIsRefusedByItsKernel) {
  const std::string message =
      MessageOf(Branched(), {{{"a"}, "kernel 0 'a'"}, {{"fused_away"}, "kernel 1 'q'"}});
  EXPECT_THAT(message, HasSubstr("part 2 of 3, which ends after kernel 1 'q', has no node"));
  EXPECT_THAT(message, HasSubstr("model.onnx"));
  EXPECT_THAT(MessageOf(Branched(), {{{"y", "z"}, ""}}), HasSubstr("part 2 of 2, the last one"));
}

TEST(CutOnnx, ControlFlowIsRefusedByItsNode) {
  ModelBuilder model;
  model.Input("x", {3}).Flag("yes", true).Output("y", {3});
  ModelBuilder branch;
  branch.Output("r", {3});
  branch.Add("Neg", {"a"}, {"r"});
  model.Add("Abs", {"x"}, {"a"});
  model.Add("If", {"yes"}, {"y"})
      .Name("choice")
      .Graph("then_branch", branch.graph())
      .Graph("else_branch", branch.graph());
  EXPECT_THAT(MessageOf(model, {{{"a"}, ""}}),
              HasSubstr("node 'choice' (If, opset 13) has a body"));
}

TEST(CutOnnx, AValueOfUnknownTypeIsNamed) {
  EXPECT_THAT(MessageOf(Branched(), {{{"b"}, ""}}), HasSubstr("value 'a' lies between two parts"));
}

TEST(CutOnnx, AFolderThatCannotBeWrittenIsNamed) {
  const TempFolder folder;
  const ModelBuilder model = Branched();
  const std::vector<CutPoint> cuts = {{{"b"}, ""}};
  const auto known = model.Import();
  const auto files = CutOnnx(model.Save(folder), cuts, *known, true, "/proc/lagoon");
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("cannot write '/proc/lagoon'"));
}

}  // namespace
}  // namespace lagoon

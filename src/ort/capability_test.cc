#include "ort/capability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <string>

namespace lagoon::plugin {
namespace {

// A model of one node with the inputs x, FLOAT [2,6], and s, INT64 [2], and the output y.
std::string ModelOf(const std::string& op, bool second_input) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto declare = [](onnx::ValueInfoProto& value, const char* name, int type) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    return value.mutable_type()->mutable_tensor_type()->mutable_shape();
  };
  onnx::TensorShapeProto* x = declare(*graph.add_input(), "x", onnx::TensorProto::FLOAT);
  x->add_dim()->set_dim_value(2);
  x->add_dim()->set_dim_value(6);
  onnx::NodeProto& node = *graph.add_node();
  node.set_name("only");
  node.set_op_type(op);
  node.add_input("x");
  node.add_output("y");
  if (second_input) {
    declare(*graph.add_input(), "s", onnx::TensorProto::INT64)->add_dim()->set_dim_value(2);
    node.add_input("s");
  }
  declare(*graph.add_output(), "y", onnx::TensorProto::FLOAT);
  return model.SerializeAsString();
}

TEST(OrtCapability, ANodeThatLagoonHasIsClaimed) { EXPECT_TRUE(CanRun(ModelOf("Relu", false))); }

TEST(OrtCapability, ContentsThatDecideShapesMayComeWithTheRun) {
  const Status can = CanRun(ModelOf("Reshape", true));
  EXPECT_TRUE(can) << can.error().message;
}

TEST(OrtCapability, ANodeThatLagoonLacksIsNotClaimed) {
  EXPECT_FALSE(CanRun(ModelOf("MaxRoiPool", false)));
  EXPECT_FALSE(CanRun(ModelOf("NoSuchOp", false)));
}

TEST(OrtCapability, BytesThatAreNoModelAreNotClaimed) {
  EXPECT_FALSE(CanRun("no model"));
  EXPECT_FALSE(CanRun(""));
}

}  // namespace
}  // namespace lagoon::plugin

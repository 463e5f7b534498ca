// Models that are well-formed protobuf but have wrong types, shapes or sizes. They are refused with
// a message, or run, but never read or write out of bounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "graph/testing/model_builder.h"
#include "program/lower/builder.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::NodeRef;
using Type = onnx::TensorProto;

struct Operand {
  int type;
  Dims dims;
  bool constant = false;
};

/// A model of one node "n" with the inputs "a", "b", ... and named outputs.
struct HostileNode {
  std::string op;
  std::vector<Operand> inputs;
  std::vector<std::string> outputs = {"y"};
  std::function<void(NodeRef)> configure = [](NodeRef) {};
  std::int64_t opset = 17;
  std::vector<std::string> wanted = {};  // graph outputs; empty: all

  Result<Graph> Load() const {
    ModelBuilder model(opset);
    std::vector<std::string> names;
    for (const Operand& input : inputs) {
      names.push_back(input.type == 0 ? "" : std::string(1, static_cast<char>('a' + names.size())));
      if (input.type == 0) continue;
      if (!input.constant) {
        model.Input(names.back(), input.dims, input.type);
        continue;
      }
      const std::size_t width = input.type == Type::FLOAT || input.type == Type::INT32 ? 4
                                : input.type == Type::INT64                            ? 8
                                : input.type == Type::FLOAT16                          ? 2
                                                                                       : 1;
      const std::vector<char> bytes(static_cast<std::size_t>(ElementCount(input.dims)) * width, 0);
      *model.graph().add_initializer() =
          testing::RawTensor(names.back(), input.type, input.dims, bytes);
    }
    for (const std::string& output : wanted.empty() ? outputs : wanted) {
      if (!output.empty()) model.Output(output);
    }
    configure(model.Add(op, names, outputs).Name("n"));
    LAGOON_ASSIGN_OR_RETURN(Graph graph, model.Import());
    LAGOON_RETURN_IF_ERROR(FoldConstants(graph));
    LAGOON_RETURN_IF_ERROR(FuseOps(graph));
    return graph;
  }

  /// The error message of import or lowering; "" if both succeed.
  std::string Refusal() const {
    Result<Graph> graph = Load();
    if (!graph) return graph.error().message;
    const Result<LoweredProgram> program = Lower(*std::move(graph), "m");
    return program ? "" : program.error().message;
  }

  /// Compiles and runs the model on zeros.
  void Run() const {
    Result<Graph> graph = Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const auto device = testing::MakeDevice(2);
    const auto loaded = testing::Compile(*graph, *device);
    ASSERT_NE(loaded, nullptr) << op;
    auto instance = Instance::Create(loaded, *device);
    std::vector<std::vector<std::byte>> memory;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const PlanTensor& input : loaded->plan.inputs) memory.emplace_back(input.spec.bytes());
    for (const PlanTensor& output : loaded->plan.outputs) memory.emplace_back(output.spec.bytes());
    for (std::size_t i = 0; i < memory.size(); ++i) {
      i < loaded->plan.inputs.size() ? in.push_back(memory[i].data())
                                     : out.push_back(memory[i].data());
    }
    const Status run = RunOnce(**instance, *device, in, out);
    EXPECT_TRUE(run) << op << ": " << run.error().message;
  }
};

void ExpectRefused(const std::vector<HostileNode>& nodes, const std::string& word) {
  for (const HostileNode& node : nodes) {
    SCOPED_TRACE(node.op);
    EXPECT_THAT(node.Refusal(), ::testing::AllOf(HasSubstr("'n'"), HasSubstr(word)));
  }
}

constexpr int kF32 = Type::FLOAT, kF16 = Type::FLOAT16, kI8 = Type::INT8, kU8 = Type::UINT8,
              kI32 = Type::INT32, kI64 = Type::INT64;

TEST(HostileTypes, OperandsOfAnotherTypeAreRefused) {
  const auto pool = [](NodeRef node) { node.Ints("kernel_shape", {1, 1}); };
  const Dims image{1, 2, 3, 3}, taps{2, 2, 1, 1};
  ExpectRefused(
      {
          {"Conv", {{kF32, image}, {kI8, taps}}, {"y"}, pool},
          {"Conv", {{kF32, image}, {kF32, taps, true}, {kI8, {2}, true}}},
          {"Conv", {{kF32, image}, {kF32, taps}, {kI8, {2}}}},
          {"ConvTranspose", {{kF32, image}, {kI8, taps, true}}},
          {"Gemm", {{kI32, {2, 3}}, {kI64, {3, 2}}}},
          {"Gemm", {{kF32, {2, 3}}, {kF32, {3, 2}}, {kI8, {2}, true}}},
          {"MatMul", {{kI32, {2, 3}}, {kI64, {3, 2}}}},
          {"MatMul", {{kF32, {2, 3}}, {kI8, {3, 2}, true}}},
          {"Einsum",
           {{kI32, {2, 3}}, {kI64, {3, 2}}},
           {"y"},
           [](NodeRef node) { node.Text("equation", "ij,jk->ik"); }},
          {"InstanceNormalization", {{kF32, image}, {kI8, {2}}, {kF32, {2}}}},
          {"BatchNormalization",
           {{kF32, image}, {kI32, {2}}, {kF32, {2}}, {kF32, {2}}, {kF32, {2}}}},
          {"LayerNormalization", {{kF32, {2, 4}}, {kI8, {4}}}},
          {"LayerNormalization", {{kF32, {2, 4}}, {kF32, {4}}, {kI8, {4}}}},
          {"GroupNormalization",
           {{kF32, image}, {kI8, {1}}, {kF32, {1}}},
           {"y"},
           [](NodeRef node) { node.Int("num_groups", 1); },
           18},
          {"LSTM", {{kF32, {2, 1, 3}}, {kF32, {1, 8, 3}}, {kI8, {1, 8, 2}}}},
          {"QuantizeLinear", {{kF32, {4}}, {kI8, {}}}},
          {"QuantizeLinear", {{kF32, {4}}, {kF16, {}}}},
          {"DequantizeLinear", {{kI8, {4}}, {kI8, {}}}},
          {"ConvInteger", {{kU8, image}, {kI8, taps}, {kI8, {}}}},
          {"MatMulInteger", {{kU8, {2, 3}}, {kI8, {3, 2}}, {kU8, {}}, {kU8, {}}}},
      },
      " is ");
}

// ONNX gives each op a list of types, of which files know nothing.
TEST(HostileTypes, NoOpFailsButWithAMessageOnAnyType) {
  const auto square = [](NodeRef node) { node.Text("equation", "ij,jk->ik"); };
  const auto first = [](NodeRef node) { node.Int("axis", 0); };
  const auto left = [](NodeRef node) { node.Text("direction", "LEFT"); };
  const std::vector<std::string> unary = {
      "Abs",        "ArgMax",     "BitwiseNot", "Clip",      "Det",       "Erf",
      "Exp",        "Gelu",       "Hardmax",    "Identity",  "IsNaN",     "LeakyRelu",
      "Neg",        "NonZero",    "Not",        "ReduceL2",  "Relu",      "ReduceMax",
      "ReduceMean", "ReduceProd", "ReduceSum",  "Round",     "Sigmoid",   "Sign",
      "Softmax",    "Softplus",   "Sqrt",       "Transpose", "Trilu",     "LpNormalization",
      "Squeeze",    "Flatten",    "Shape",      "Size",      "LogSoftmax"};
  const std::vector<std::string> binary = {"Add",  "And",   "BitwiseAnd", "CastLike",
                                           "Div",  "Equal", "Gemm",       "GreaterOrEqual",
                                           "Less", "Max",   "MatMul",     "LayerNormalization",
                                           "Mean", "Min",   "Mod",        "MatMulInteger",
                                           "Mul",  "Or",    "PRelu",      "Pow",
                                           "Sub",  "Sum",   "Xor"};
  std::size_t accepted = 0;
  const auto attempt = [&](const std::string& op, std::size_t inputs, int type,
                           const std::function<void(NodeRef)>& configure) {
    const HostileNode node{op, std::vector<Operand>(inputs, {type, {4, 4}}), {"y"}, configure, 20};
    accepted += node.Refusal().empty() ? 1 : 0;
  };
  for (int type = 1; type <= 16; ++type) {
    for (const std::string& op : unary) attempt(op, 1, type, [](NodeRef) {});
    for (const std::string& op : binary) attempt(op, 2, type, [](NodeRef) {});
    attempt("Einsum", 2, type, square);
    attempt("Concat", 2, type, first);
    attempt("BitShift", 2, type, left);
  }
  EXPECT_GT(accepted, 300u);
}

HostileNode QLinearConv(Operand x_scale, Operand w_scale, Operand zero, Operand bias) {
  return {"QLinearConv",
          {{kU8, {1, 1, 1, 1}},
           x_scale,
           {kU8, {}},
           {kI8, {1, 1, 1, 1}},
           w_scale,
           zero,
           {kF32, {}},
           {kU8, {}},
           bias}};
}

TEST(HostileTypes, ScalesAndZeroPointsOfAnotherTypeOrShapeAreRefused) {
  const Operand number{kF32, {}}, zero{kI8, {}}, bias{kI32, {1}};
  ExpectRefused(
      {QLinearConv({kF16, {}}, number, zero, bias), QLinearConv(number, {kI8, {}}, zero, bias),
       QLinearConv(number, number, {kU8, {}}, bias), QLinearConv(number, number, zero, {kI8, {1}})},
      " is ");
  ExpectRefused(
      {QLinearConv({kF32, {5}}, number, zero, bias),
       QLinearConv(number, {kF32, {5}}, zero, bias),
       QLinearConv(number, number, {kI8, {5}}, bias),
       {"ConvInteger", {{kU8, {1, 1, 1, 1}}, {kI8, {1, 1, 1, 1}}, {kU8, {}}, {kI8, {1, 8, 1, 1}}}},
       {"ConvInteger", {{kU8, {1, 1, 1, 1}}, {kI8, {1, 1, 1, 1}}, {kU8, {3}}}},
       {"MatMulInteger", {{kU8, {1, 4}}, {kI8, {4, 3}}, {kU8, {5}}}},
       {"MatMulInteger", {{kU8, {2, 4}}, {kI8, {4, 3}}, {kU8, {}}, {kI8, {2}}}},
       {"MatMulInteger", {{kU8, {4}}, {kI8, {4, 3}}, {kU8, {4}}}},
       {"QLinearMatMul",
        {{kU8, {2, 4}},
         {kF32, {4}},
         {kU8, {}},
         {kI8, {4, 3}},
         {kF32, {}},
         {kI8, {}},
         {kF32, {}},
         {kU8, {}}}}},
      "has shape");
}

TEST(HostileTypes, VectorsMultiplyAsRowsAndColumns) {
  HostileNode{"MatMulInteger", {{kU8, {4}}, {kI8, {4, 3}}, {kU8, {1}}}}.Run();
  HostileNode{"MatMulInteger", {{kU8, {3, 4}}, {kI8, {4}}, {kU8, {3}}, {kI8, {1}}}}.Run();
  HostileNode{"MatMulInteger", {{kU8, {4}}, {kI8, {4}}, {kU8, {1}}, {kI8, {1}}}}.Run();
}

TEST(HostileTypes, ClipBoundsAreCheckedEvenBehindAComputedOne) {
  ExpectRefused({{"Clip", {{kF32, {4}}, {kF32, {}}, {kI8, {}}}}}, "FP32");
}

TEST(HostileTypes, FractionsOfIntegersAreRefused) {
  for (const char* factor : {"alpha", "beta"}) {
    const auto half = [factor](NodeRef node) { node.Float(factor, 0.5F); };
    ExpectRefused({{"Gemm", {{kI32, {2, 3}}, {kI32, {3, 2}}, {kI32, {2}}}, {"y"}, half}}, "0.5");
  }
}

TEST(HostileTypes, ClipWithoutBoundsIsIdentity) {
  for (const int type : {kI32, kF32, static_cast<int>(Type::DOUBLE)}) {
    HostileNode clip{"Clip", {{type, {4}}}};
    clip.Run();
    const Result<Graph> graph = clip.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    EXPECT_EQ(graph->nodes[0].op, "Identity");
  }
}

TEST(UnneededOutputs, TheFirstMayBeUnreadOrNameless) {
  const auto pool = [](NodeRef node) { node.Ints("kernel_shape", {2, 2}); };
  const std::vector<HostileNode> nodes{
      {"TopK", {{kF32, {8}}, {kI64, {1}, true}}, {"y", "i"}},
      {"MaxPool", {{kF32, {1, 1, 4, 4}}}, {"y", "i"}, pool},
      {"Dropout", {{kF32, {4}}}, {"y", "i"}},
      {"DynamicQuantizeLinear", {{kF32, {4}}}, {"y", "i", "z"}},
      {"LayerNormalization", {{kF32, {2, 4}}, {kF32, {4}}}, {"y", "i"}},
      {"Split", {{kF32, {4}}}, {"y", "i"}},
      {"LSTM",
       {{kF32, {2, 1, 3}}, {kF32, {1, 8, 3}}, {kF32, {1, 8, 2}}},
       {"y", "i"},
       [](NodeRef node) { node.Int("hidden_size", 2); }},
  };
  for (HostileNode node : nodes) {
    SCOPED_TRACE(node.op);
    if (node.op == "TopK") {  // k, a constant of zeros, would be refused
      node.inputs.pop_back();
      node.opset = 9;
      node.configure = [](NodeRef ref) { ref.Int("k", 2); };
    }
    node.wanted = {"i"};
    node.Run();
    node.outputs[0] = "";
    node.Run();
  }
}

TEST(HostileSizes, PaddingOfNothingIsRefused) {
  for (const char* mode : {"wrap", "edge", "reflect"}) {
    const auto configure = [mode](NodeRef node) { node.Text("mode", mode).Ints("pads", {1, 1}); };
    ExpectRefused({{"Pad", {{kF32, {0}, true}}, {"y"}, configure, 9}}, mode);
    // Only along an axis that is padded is there something to repeat.
    const auto inner = [mode](NodeRef node) { node.Text("mode", mode).Ints("pads", {0, 1, 0, 2}); };
    if (std::string_view(mode) == "wrap") continue;  // since opset 19, `pads` an input
    const HostileNode empty{"Pad", {{kF32, {0, 3}, true}}, {"y"}, inner, 9};
    EXPECT_EQ(empty.Refusal(), "") << mode;
    empty.Run();
  }
  ExpectRefused({{"Upsample", {{kF32, {0, 4}, true}, {kF32, {2}, true}}, {"y"}, [](NodeRef) {}, 9}},
                "[0,4]");
}

TEST(HostileSizes, TablesAreBounded) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 30;
  const auto bomb = [](NodeRef node) {
    node.Ints("dilations", {kHuge, kHuge}).Ints("pads", {kHuge, kHuge, 0, 0});
  };
  ExpectRefused(
      {{"ConvTranspose", {{kF32, {1, 1, 1, 1}}, {kF32, {1, 1, 2, 2}, true}}, {"y"}, bomb}}, "2^28");
  const auto pad = [](NodeRef node) { node.Ints("pads", {0, kHuge}); };
  ExpectRefused({{"Pad", {{kU8, {1}}}, {"y"}, pad, 9}}, "table");
}

TEST(HostileSizes, AttributesOutOfRangeAreRefused) {
  for (const std::int64_t p : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 33}) {
    ExpectRefused({{"LpPool",
                    {{kF32, {1, 1, 4, 4}}},
                    {"y"},
                    [p](NodeRef node) {
                      node.Ints("kernel_shape", {2, 2}).Int("p", p);
                    }}},
                  "p is");
  }
  ExpectRefused(
      {{"ReverseSequence",
        {{kF32, {2, 2}}, {kI64, {2}}},
        {"y"},
        [](NodeRef node) { node.Int("batch_axis", INT64_MAX).Int("time_axis", INT64_MAX); }}},
      "batch_axis");
}

TEST(HostileSizes, ARegionOfInterestIsCheckedWhereItIsRead) {
  const auto roi = [](const std::vector<float>& numbers, const std::string& mode) {
    ModelBuilder model(13);
    model.Input("x", {1, 4}).Floats("roi", {static_cast<std::int64_t>(numbers.size())}, numbers);
    model.Floats("scales", {2}, {1, 2}).Output("y");
    model.Add("Resize", {"x", "roi", "scales"}, {"y"})
        .Name("n")
        .Text("mode", "linear")
        .Text("coordinate_transformation_mode", mode);
    Result<Graph> graph = model.Import();
    if (!graph) return graph.error().message;
    const Result<LoweredProgram> program = Lower(*std::move(graph), "m");
    return program ? std::string() : program.error().message;
  };
  const std::string crop = "tf_crop_and_resize";
  EXPECT_THAT(roi({0, 0, 1}, crop), HasSubstr("roi"));
  EXPECT_THAT(roi({0, 0, 1, std::numeric_limits<float>::infinity()}, crop), HasSubstr("roi"));
  EXPECT_EQ(roi({0, -1e38F, 1, 1e38F}, crop), "");  // far outside, and finite
  EXPECT_EQ(roi({0, 0, 1}, "asymmetric"), "");
}

}  // namespace
}  // namespace lagoon

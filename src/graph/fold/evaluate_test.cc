// Evaluators that shapes need, also on tensors without elements.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::Ops;
using testing::RawTensor;
using Numbers = std::vector<double>;
using Ints = std::vector<std::int64_t>;
using Configure = std::function<void(NodeRef)>;

const Configure kPlain = [](NodeRef) {};

/// An operand: a list of integers, or a tensor.
struct Operand {
  Dims dims;
  Ints values;

  Operand(Ints list) : dims{std::ssize(list)}, values(std::move(list)) {}  // NOLINT: a list
  Operand(Dims shape, Ints list) : dims(std::move(shape)), values(std::move(list)) {}
};

/// A model of the node `op` on constants of `type`.
ModelBuilder Model(const std::string& op, const std::vector<Operand>& operands, int type,
                   const Configure& configure, std::int64_t opset = 18) {
  ModelBuilder model(opset);
  std::vector<std::string> names;
  for (const Operand& operand : operands) {
    names.push_back("x" + std::to_string(names.size()));
    onnx::TensorProto& tensor = *model.graph().add_initializer();
    tensor.set_name(names.back());
    tensor.set_data_type(type);
    for (const std::int64_t dim : operand.dims) tensor.add_dims(dim);
    for (const std::int64_t value : operand.values) {
      if (type == onnx::TensorProto::INT64) tensor.add_int64_data(value);
      if (type == onnx::TensorProto::FLOAT) tensor.add_float_data(static_cast<float>(value));
      if (type == onnx::TensorProto::INT32 || type == onnx::TensorProto::BOOL) {
        tensor.add_int32_data(static_cast<std::int32_t>(value));
      }
    }
  }
  model.Output("y");
  configure(model.Add(op, names, {"y"}).Name("n"));
  return model;
}

Numbers Of(const std::string& op, const std::vector<Operand>& operands,
           const Configure& configure = kPlain, Dims* dims = nullptr,
           int type = onnx::TensorProto::INT64) {
  return Folded(Model(op, operands, type, configure), 0, dims);
}

Numbers OfFlags(const std::string& op, const std::vector<Operand>& operands) {
  return Of(op, operands, kPlain, nullptr, onnx::TensorProto::BOOL);
}

TEST(Evaluate, ComparesEveryType) {
  for (const int type :
       {onnx::TensorProto::INT64, onnx::TensorProto::INT32, onnx::TensorProto::FLOAT}) {
    const auto of = [&](const std::string& op) {
      return Of(op, {Ints{1, 2, 3}, Ints{2}}, kPlain, nullptr, type);
    };
    EXPECT_EQ(of("Less"), (Numbers{1, 0, 0}));
    EXPECT_EQ(of("LessOrEqual"), (Numbers{1, 1, 0}));
    EXPECT_EQ(of("Greater"), (Numbers{0, 0, 1}));
    EXPECT_EQ(of("GreaterOrEqual"), (Numbers{0, 1, 1}));
    EXPECT_EQ(of("Equal"), (Numbers{0, 1, 0}));
  }
}

TEST(Evaluate, ComparesFractionsAsNumbers) {
  ModelBuilder model;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  model.Floats("a", {3}, {0.0f, nan, 1.5f}).Floats("b", {3}, {-0.0f, nan, 1.5f}).Output("y");
  model.Add("Equal", {"a", "b"}, {"y"});
  EXPECT_EQ(Folded(model), (Numbers{1, 0, 1}));
}

TEST(Evaluate, NanGoesThroughAndRanksFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ModelBuilder model;
  model.Floats("a", {4}, {1, nan, 3, 0}).Floats("b", {4}, {2, 2, nan, 2});
  for (const char* const name : {"max", "min", "most", "least", "values", "indices"}) {
    model.Output(name);
  }
  model.Add("Max", {"a", "b"}, {"max"});
  model.Add("Min", {"a", "b"}, {"min"});
  model.Add("ArgMax", {"a"}, {"most"});
  model.Add("ArgMin", {"a"}, {"least"});
  model.Ints("two", {2}).Add("TopK", {"a", "two"}, {"values", "indices"});
  for (const std::size_t output : {0, 1}) {
    const Numbers y = Folded(model, output);
    EXPECT_EQ(y[0], output == 0 ? 2 : 1);
    EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
  }
  EXPECT_EQ(Folded(model, 2), Numbers{1});
  EXPECT_EQ(Folded(model, 3), Numbers{1});
  EXPECT_EQ(Folded(model, 5), (Numbers{1, 2}));
}

TEST(Evaluate, CombinesFlags) {
  const std::vector<Operand> flags{Ints{0, 0, 1, 1}, Ints{0, 1, 0, 1}};
  EXPECT_EQ(OfFlags("And", flags), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(OfFlags("Or", flags), (Numbers{0, 1, 1, 1}));
  EXPECT_EQ(OfFlags("Xor", flags), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(OfFlags("Equal", flags), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(OfFlags("Not", {Ints{0, 1}}), (Numbers{1, 0}));
}

TEST(Evaluate, RemaindersHaveASign) {
  const std::vector<Operand> operands{Ints{7, -7, 7, -7, 6}, Ints{3, 3, -3, -3, 3}};
  EXPECT_EQ(Of("Mod", operands), (Numbers{1, 2, -2, -1, 0}));
  const Configure truncated = [](NodeRef node) { node.Int("fmod", 1); };
  EXPECT_EQ(Of("Mod", operands, truncated), (Numbers{1, -1, 1, -1, 0}));
  EXPECT_EQ(Of("Mod", operands, truncated, nullptr, onnx::TensorProto::FLOAT),
            (Numbers{1, -1, 1, -1, 0}));
  EXPECT_EQ(Of("Mod", {Ints{std::numeric_limits<std::int64_t>::min()}, Ints{-1}}), Numbers{0});
  EXPECT_THAT(MessageOf(Model("Mod", {Ints{1}, Ints{0}}, onnx::TensorProto::INT64, kPlain).Import(),
                        ErrorCode::kInvalidArgument),
              HasSubstr("by zero"));
}

TEST(Evaluate, PowersOfIntegers) {
  EXPECT_EQ(Of("Pow", {Ints{2, 3, -2}, Ints{10, 2, 3}}), (Numbers{1024, 9, -8}));
}

TEST(Evaluate, ClipsIntegers) {
  EXPECT_EQ(Of("Clip", {Ints{-5, 3, 20}, {{}, {0}}, {{}, {10}}}), (Numbers{0, 3, 10}));
  EXPECT_EQ(Of("Clip", {Ints{-5, 3}, {{}, {0}}}), (Numbers{0, 3}));
}

TEST(Evaluate, RoundsAndSigns) {
  ModelBuilder model;
  model.Floats("x", {5}, {0.5f, 1.5f, -2.5f, 2.4f, -0.2f}).Output("r").Output("s");
  model.Add("Round", {"x"}, {"r"});
  model.Add("Sign", {"x"}, {"s"});
  EXPECT_EQ(Folded(model, 0), (Numbers{0, 2, -2, 2, 0}));
  EXPECT_EQ(Folded(model, 1), (Numbers{1, 1, -1, 1, -1}));
}

TEST(Evaluate, SumsAlongAnAxis) {
  const auto sums = [](std::int64_t axis, const Configure& configure) {
    ModelBuilder model =
        Model("CumSum", {{{2, 3}, {1, 2, 3, 4, 5, 6}}}, onnx::TensorProto::INT64, configure);
    model.Number("axis", axis);
    model.graph().mutable_node(0)->add_input("axis");
    return Folded(model);
  };
  EXPECT_EQ(sums(1, kPlain), (Numbers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(sums(-2, kPlain), (Numbers{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(sums(1, [](NodeRef node) { node.Int("exclusive", 1); }), (Numbers{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(sums(1, [](NodeRef node) { node.Int("reverse", 1); }), (Numbers{6, 5, 3, 15, 11, 6}));
}

TEST(Evaluate, FindsTheBest) {
  const Operand x{{2, 3}, {1, 5, 5, 4, 2, 2}};
  const Configure rows = [](NodeRef node) { node.Int("axis", 1); };
  const Configure last = [](NodeRef node) { node.Int("axis", 1).Int("select_last_index", 1); };
  EXPECT_EQ(Of("ArgMax", {x}, rows), (Numbers{1, 0}));
  EXPECT_EQ(Of("ArgMax", {x}, last), (Numbers{2, 0}));
  EXPECT_EQ(Of("ArgMin", {x}, rows), (Numbers{0, 1}));
  EXPECT_EQ(Of("ArgMin", {x}), (Numbers{0, 1, 1}));
}

TEST(Evaluate, SortsWithTopK) {
  ModelBuilder model;
  model.Floats("x", {2, 4}, {3, 1, 3, 2, -1, 7, 0, 5}).Ints("k", {3}).Output("v").Output("i");
  model.Add("TopK", {"x", "k"}, {"v", "i"});
  EXPECT_EQ(Folded(model, 0), (Numbers{3, 3, 2, 7, 5, 0}));
  EXPECT_EQ(Folded(model, 1), (Numbers{0, 2, 3, 1, 3, 2}));
}

TEST(Evaluate, TilesAndCutsTriangles) {
  Dims dims;
  EXPECT_EQ(Of("Tile", {{{1, 2}, {1, 2}}, Ints{2, 2}}, kPlain, &dims),
            (Numbers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(dims, (Dims{2, 4}));
  const Operand square{{2, 2}, {1, 2, 3, 4}};
  EXPECT_EQ(Of("Trilu", {square}), (Numbers{1, 2, 0, 4}));
  EXPECT_EQ(Of("Trilu", {square}, [](NodeRef node) { node.Int("upper", 0); }),
            (Numbers{1, 0, 3, 4}));
  EXPECT_EQ(Of("Trilu", {square, {{}, {1}}}), (Numbers{0, 2, 0, 0}));
  EXPECT_EQ(Of("EyeLike", {{{2, 3}, {0, 0, 0, 0, 0, 0}}}, [](NodeRef node) { node.Int("k", 1); }),
            (Numbers{0, 1, 0, 0, 0, 1}));
}

TEST(Evaluate, GathersElementsAndTuples) {
  const Operand x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Of("GatherElements", {x, {{1, 3}, {1, 0, -1}}}), (Numbers{4, 2, 6}));
  EXPECT_EQ(Of("GatherND", {x, {{2, 2}, {0, 2, -1, 0}}}), (Numbers{3, 4}));
  EXPECT_EQ(Of("GatherND", {x, {{1, 1}, {1}}}), (Numbers{4, 5, 6}));
  EXPECT_EQ(Of("GatherND", {x, {{2, 1}, {2, 0}}}, [](NodeRef node) { node.Int("batch_dims", 1); }),
            (Numbers{3, 4}));
  EXPECT_THAT(
      MessageOf(Model("GatherND", {x, {{1, 1}, {2}}}, onnx::TensorProto::INT64, kPlain).Import(),
                ErrorCode::kInvalidArgument),
      HasSubstr("index 2"));
}

TEST(Evaluate, ScattersElementsAndTuples) {
  const Operand x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Of("ScatterElements", {x, {{1, 3}, {1, 0, -1}}, {{1, 3}, {7, 8, 9}}}),
            (Numbers{1, 8, 3, 7, 5, 9}));
  const Configure add = [](NodeRef node) { node.Text("reduction", "add"); };
  EXPECT_EQ(Of("ScatterElements", {x, {{2, 1}, {0, 0}}, {{2, 1}, {10, 20}}}, add),
            (Numbers{31, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Of("ScatterND", {x, {{1, 1}, {-1}}, {{1, 3}, {7, 8, 9}}}), (Numbers{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(Of("ScatterND", {x, {{2, 2}, {0, 1, 1, 2}}, Ints{7, 8}}), (Numbers{1, 7, 3, 4, 5, 8}));
}

TEST(Evaluate, MakesOneHotLines) {
  Dims dims;
  EXPECT_EQ(Of("OneHot", {Ints{0, -1}, {{}, {3}}, Ints{5, 6}}, kPlain, &dims),
            (Numbers{6, 5, 5, 5, 5, 6}));
  EXPECT_EQ(dims, (Dims{2, 3}));
  EXPECT_EQ(
      Of("OneHot", {Ints{0, 2}, {{}, {3}}, Ints{0, 1}}, [](NodeRef node) { node.Int("axis", 0); }),
      (Numbers{1, 0, 0, 0, 0, 1}));
}

TEST(Evaluate, Compresses) {
  ModelBuilder model;
  model.Ints("x", {1, 2, 3}).Output("y");
  *model.graph().add_initializer() =
      RawTensor("keep", onnx::TensorProto::BOOL, {3}, std::vector<char>{1, 0, 1});
  model.Add("Compress", {"x", "keep"}, {"y"});
  EXPECT_EQ(Folded(model), (Numbers{1, 3}));
}

TEST(Evaluate, QuantizesAndNanIsTheLowestLevel) {
  ModelBuilder model;
  model.Floats("x", {5}, {std::numeric_limits<float>::quiet_NaN(), 0, 2.5F, -300, 300});
  model.Floats("s", {}, {1}).Output("y");
  *model.graph().add_initializer() = RawTensor<std::int8_t>("z", onnx::TensorProto::INT8, {}, {3});
  model.Add("QuantizeLinear", {"x", "s", "z"}, {"y"});
  EXPECT_EQ(Folded(model), (Numbers{-128, 3, 5, -128, 127}));
}

TEST(Evaluate, TakesTensorsWithoutElements) {
  const Operand none{{0}, {}};
  EXPECT_TRUE(Of("Less", {none, none}).empty());
  EXPECT_TRUE(Of("Mod", {none, Ints{3}}).empty());
  EXPECT_TRUE(Of("GatherElements", {none, none}).empty());
  EXPECT_EQ(Of("Concat", {none, Ints{4}}, [](NodeRef node) { node.Int("axis", 0); }), Numbers{4});
  Dims dims;
  EXPECT_TRUE(Of("Tile", {{{2, 0}, {}}, Ints{2, 3}}, kPlain, &dims).empty());
  EXPECT_EQ(dims, (Dims{4, 0}));
  EXPECT_TRUE(Of("Slice", {Ints{1, 2}, Ints{2}, Ints{9}}).empty());
  EXPECT_EQ(Of("Reshape", {Ints{5}, none}, kPlain, &dims), Numbers{5});
  EXPECT_EQ(dims, Dims{});
  EXPECT_EQ(Of("ScatterND", {Ints{1, 2}, {{0, 1}, {}}, none}), (Numbers{1, 2}));
  EXPECT_EQ(Of("Concat", {none, none}, [](NodeRef node) { node.Int("axis", 0); }), Numbers{});
}

TEST(Evaluate, ManyElementsAreLeftToTheKernels) {
  ModelBuilder model;
  model.Weights("x", {300, 300}).Floats("k", {}, {0}).Output("y");
  model.Add("Less", {"x", "k"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Less");
}

}  // namespace
}  // namespace lagoon

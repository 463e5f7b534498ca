// Quantised models, computed on bytes, compared with the same models computed in fp32.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/conv/int8/byte_unit.h"
#include "program/lower/builder.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::FromBytes;
using testing::ModelBuilder;
using testing::RawTensor;
using testing::RunTyped;
using testing::ToBytes;
using Floats = std::vector<float>;

/// A model of quantised nodes between fp32 values: every node reads and writes dequantised bytes.
class QuantisedModel {
 public:
  QuantisedModel() : model_(17) { model_.Floats("bias_scale", {}, {1}); }

  ModelBuilder& model() { return model_; }

  /// `to` = `from`, rounded to UINT8.
  void Round(const std::string& from, const std::string& to, float scale, std::uint8_t zero) {
    model_.Floats(to + "_s", {}, {scale});
    *model_.graph().add_initializer() =
        RawTensor<std::uint8_t>(to + "_z", onnx::TensorProto::UINT8, {}, {zero});
    model_.Add("QuantizeLinear", {from, to + "_s", to + "_z"}, {to + "_q"});
    model_.Add("DequantizeLinear", {to + "_q", to + "_s", to + "_z"}, {to});
  }

  /// Signed weights with one scale for each index of `axis`, dequantised. `scale`: the first one.
  void Weights(const std::string& name, const std::vector<std::int64_t>& dims, std::int64_t axis,
               float scale = 0.002F) {
    const std::int64_t columns = dims[static_cast<std::size_t>(axis)];
    std::vector<std::int8_t> levels(static_cast<std::size_t>(ElementCount(dims)));
    for (std::size_t i = 0; i < levels.size(); ++i) {
      levels[i] = static_cast<std::int8_t>(i * 61 % 255 - 127);
    }
    Floats scales;
    for (std::int64_t c = 0; c < columns; ++c)
      scales.push_back(scale + 0.0001F * static_cast<float>(c));
    std::vector<std::int64_t> w_dims = dims;
    *model_.graph().add_initializer() =
        RawTensor<std::int8_t>(name + "_q", onnx::TensorProto::INT8, w_dims, levels);
    model_.Floats(name + "_s", {columns}, scales);
    model_.Add("DequantizeLinear", {name + "_q", name + "_s"}, {name}).Int("axis", axis);
  }

  void Conv(const std::string& x, const std::string& y, const std::vector<std::int64_t>& weights,
            std::int64_t group = 1, std::int64_t stride = 1) {
    Weights("w_" + y, weights, 0);
    const std::size_t axes = weights.size() - 2;
    model_.Add("Conv", {x, "w_" + y}, {y})
        .Ints("pads", std::vector<std::int64_t>(2 * axes, weights[2] / 2))
        .Ints("strides", std::vector<std::int64_t>(axes, stride))
        .Int("group", group);
  }

 private:
  ModelBuilder model_;
};

std::multiset<std::string> KernelsOf(const Graph& graph) {
  std::multiset<std::string> names;
  const Result<LoweredProgram> program = Lower(graph, "bytes");
  EXPECT_TRUE(program.has_value());
  if (!program) return names;
  for (const LoweredOp& op : program->ops) names.insert(op.kernel.name);
  return names;
}

/// Expects the model's result on bytes to be at most one step from that in fp32, and seldom that.
/// Returns the kernels.
std::multiset<std::string> ExpectAsInFloats(const ModelBuilder& model, const Floats& x,
                                            float step) {
  const Result<Graph> bytes = model.Load();
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  if (!bytes) return {};
  Graph floats = *bytes;
  for (Value& value : floats.values) value.quantized.reset();
  const Floats y = FromBytes<float>(RunTyped(*bytes, {ToBytes(x)})[0]);
  const Floats expected = FromBytes<float>(RunTyped(floats, {ToBytes(x)})[0]);
  std::size_t unequal = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], expected[i], 1.01F * step) << i;
    unequal += y[i] == expected[i] ? 0 : 1;
  }
  EXPECT_LE(unequal * 50, y.size());
  EXPECT_NE(Floats(y.size(), y.at(0)), y) << "the model's numbers are all the same";
  return KernelsOf(*bytes);
}

Floats Image(std::size_t count) {
  Floats x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
  return x;
}

bool Vectors() { return ByteUnits().size() > 1; }

TEST(Bytes, ConvolutionsPoolsAndSumsStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 3, 18, 18}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {20, 3, 3, 3}, 1, 2);
  m.Add("Relu", {"c1"}, {"r1"});
  q.Round("r1", "x2", 0.02F, 0);
  m.Add("MaxPool", {"x2"}, {"p"})
      .Ints("kernel_shape", {3, 3})
      .Ints("strides", {1, 1})
      .Ints("pads", {1, 1, 1, 1});
  q.Round("p", "x3", 0.02F, 0);
  q.Conv("x3", "c2", {20, 20, 3, 3});
  q.Round("c2", "x4", 0.05F, 128);
  m.Add("Add", {"x4", "x3"}, {"sum"});
  m.Add("Relu", {"sum"}, {"r2"});
  q.Round("r2", "x5", 0.04F, 3);
  q.Conv("x5", "c3", {20, 1, 3, 3}, 20);
  q.Round("c3", "x6", 0.03F, 100);
  q.Conv("x6", "c4", {40, 20, 1, 1});
  q.Round("c4", "y", 0.05F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(3 * 18 * 18), 0.05F);
  EXPECT_EQ(kernels.count("byte_conv"), 3U);
  EXPECT_EQ(kernels.count("byte_depthwise"), 1U);
  EXPECT_EQ(kernels.count("byte_max_pool"), 1U);
  EXPECT_EQ(kernels.count("byte_add"), 0U) << "a convolution adds";
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

// A node in fp32 behind a convolution: its kernel writes the floats that its bytes stand for.
TEST(Bytes, BytesThatNobodyReadsAreWrittenAsFloats) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 8, 12, 12}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {16, 8, 3, 3});
  m.Add("Relu", {"c1"}, {"r1"});
  q.Round("r1", "x2", 0.03F, 20);
  m.Add("Sin", {"x2"}, {"y"});
  const auto kernels = ExpectAsInFloats(m, Image(8 * 12 * 12), 0.03F);
  EXPECT_EQ(kernels.count("byte_conv"), 1U);
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

TEST(Bytes, AJoinOfSeveralGridsStaysBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 8, 12, 12}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {16, 8, 1, 1});
  q.Round("c1", "x2", 0.03F, 100);
  q.Conv("x1", "c2", {16, 8, 3, 3});
  q.Round("c2", "x3", 0.05F, 90);
  m.Add("Concat", {"x2", "x3", "x2"}, {"joined"}).Int("axis", 1);
  q.Round("joined", "x4", 0.04F, 120);
  q.Conv("x4", "c3", {8, 48, 1, 1});
  q.Round("c3", "y", 0.05F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(8 * 12 * 12), 0.05F);
  EXPECT_EQ(kernels.count("byte_table"), 3U) << "one for each part";
  EXPECT_EQ(kernels.count("concat"), 1U);
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

TEST(Bytes, ASumIsAddedInTheKernelOfItsSecondTerm) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  for (const bool second_read : {false, true}) {
    QuantisedModel q;
    ModelBuilder& m = q.model();
    m.Input("x", {2, 8, 12, 12}).Output("y");
    q.Round("x", "x1", 0.01F, 110);
    q.Conv("x1", "c1", {20, 8, 1, 1});
    q.Round("c1", "x2", 0.03F, 100);
    q.Conv("x1", "c2", {20, 8, 3, 3});
    q.Round("c2", "x3", 0.05F, 90);
    m.Add("Add", {"x3", "x2"}, {"sum"});
    q.Round("sum", "x4", 0.06F, 130);
    if (second_read) m.Output("x3");
    q.Conv("x4", "c3", {8, 20, 1, 1});
    q.Round("c3", "y", 0.05F, 120);
    const auto kernels = ExpectAsInFloats(m, Image(2 * 8 * 12 * 12), 0.05F);
    EXPECT_EQ(kernels.count("byte_add"), second_read ? 1U : 0U);
  }
}

TEST(Bytes, ProductsOfMatricesAndMovesStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {4, 6, 8}).Output("y");
  q.Round("x", "x1", 0.01F, 128);
  m.Add("Transpose", {"x1"}, {"t"}).Ints("perm", {0, 2, 1});
  q.Round("t", "x2", 0.01F, 128);
  q.Weights("w", {6, 33}, 1);
  m.Add("MatMul", {"x2", "w"}, {"p"});
  q.Round("p", "y", 0.01F, 100);
  const auto kernels = ExpectAsInFloats(m, Image(4 * 6 * 8), 0.01F);
  EXPECT_EQ(kernels.count("byte_conv"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

TEST(Bytes, ConvolutionsInGroupsStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 24, 9, 9}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {80, 12, 3, 3}, 2);
  m.Add("Relu", {"c1"}, {"r1"});
  q.Round("r1", "x2", 0.06F, 0);
  q.Conv("x2", "c2", {40, 20, 1, 1}, 4);
  q.Round("c2", "y", 0.08F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(24 * 81), 0.08F);
  EXPECT_EQ(kernels.count("byte_conv"), 2U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

// With 4 columns a group most weights of a panel would be 0, which only tiles make up for; with 6
// channels no quad is whole.
TEST(Bytes, ConvolutionsInGroupsThatFillNoPanelAreComputedInFloats) {
  const bool tiles = Vectors() && ByteUnits().front()->even;
  for (const auto& [channels, columns] : {std::pair{4, 4}, std::pair{6, 32}}) {
    QuantisedModel q;
    ModelBuilder& m = q.model();
    m.Input("x", {1, 2 * channels, 5, 5}).Output("y");
    q.Round("x", "x1", 0.01F, 110);
    q.Conv("x1", "c1", {2 * columns, channels, 3, 3}, 2);
    q.Round("c1", "y", 0.05F, 120);
    const auto kernels =
        ExpectAsInFloats(m, Image(static_cast<std::size_t>(2 * channels) * 25), 0.05F);
    EXPECT_EQ(kernels.count("byte_conv"), tiles && columns == 4 ? 1U : 0U);
  }
}

// Tiles want the weights of neighbouring and of distant pixels in other orders, of the same size.
TEST(Bytes, EqualWeightsArePackedForEachDilation) {
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 48, 1, 30}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  for (const std::int64_t dilation : {1, 2}) {
    const std::string name = std::to_string(dilation);
    q.Weights("w" + name, {8, 48, 1, 3}, 0);
    m.Add("Conv", {"x1", "w" + name}, {"c" + name}).Ints("dilations", {1, dilation});
    q.Round("c" + name, "r" + name, 0.05F, 120);
  }
  m.Add("Concat", {"r1", "r2"}, {"c"}).Int("axis", 3);
  q.Round("c", "y", 0.05F, 120);
  ExpectAsInFloats(m, Image(48 * 30), 0.05F);
}

// A panel has room for four groups, but their joint depth exceeds kMaxByteDepth.
TEST(Bytes, DeepGroupsArePartsOfTheirOwn) {
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 1600, 3, 3}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {32, 400, 5, 5}, 4);
  q.Round("c1", "y", 0.5F, 120);
  ExpectAsInFloats(m, Image(1600 * 9), 0.5F);
}

TEST(Bytes, ConvolutionsOverLinesStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {2, 3, 50}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {40, 3, 5}, 1, 2);
  m.Add("Relu", {"c1"}, {"r1"});
  q.Round("r1", "x2", 0.02F, 0);
  q.Conv("x2", "c2", {16, 20, 4}, 2);
  q.Round("c2", "x3", 0.05F, 120);
  q.Conv("x3", "c3", {16, 1, 3}, 16);
  q.Round("c3", "x4", 0.03F, 120);
  q.Conv("x4", "c4", {8, 16, 1});
  q.Round("c4", "y", 0.05F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(2 * 3 * 50), 0.05F);
  EXPECT_EQ(kernels.count("byte_conv"), 3U);
  EXPECT_EQ(kernels.count("byte_depthwise"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
}

TEST(Bytes, ShuffledChannelsStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 3, 6, 6}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {24, 3, 3, 3});
  q.Round("c1", "x2", 0.02F, 128);
  *m.graph().add_initializer() =
      RawTensor<std::int64_t>("apart", onnx::TensorProto::INT64, {5}, {1, 2, 12, 6, 6});
  *m.graph().add_initializer() =
      RawTensor<std::int64_t>("joined", onnx::TensorProto::INT64, {4}, {1, 24, 6, 6});
  m.Add("Reshape", {"x2", "apart"}, {"a"});
  m.Add("Transpose", {"a"}, {"t"}).Ints("perm", {0, 2, 1, 3, 4});
  m.Add("Reshape", {"t", "joined"}, {"j"});
  q.Round("j", "x3", 0.02F, 128);
  q.Conv("x3", "c2", {8, 24, 1, 1});
  q.Round("c2", "y", 0.05F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(3 * 36), 0.05F);
  EXPECT_EQ(kernels.count("byte_conv"), 2U);
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
  EXPECT_EQ(kernels.count("strided_copy"), 0U);
}

TEST(Bytes, PooledIntegersStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 3, 12, 12}).Output("y");
  q.Round("x", "x1", 0.01F, 110);
  q.Conv("x1", "c1", {20, 3, 3, 3});
  q.Round("c1", "x2", 0.02F, 100);
  m.Add("MaxPool", {"x2_q"}, {"p"}).Ints("kernel_shape", {3, 3}).Ints("pads", {1, 1, 1, 1});
  m.Add("DequantizeLinear", {"p", "x2_s", "x2_z"}, {"x3"});
  m.Add("DequantizeLinear", {"p", "x2_s", "x2_z"}, {"x4"});
  q.Conv("x3", "c2", {20, 20, 3, 3});
  q.Conv("x4", "c3", {20, 20, 1, 1});
  q.Round("c2", "x5", 0.05F, 128);
  q.Round("c3", "x6", 0.05F, 128);
  m.Add("Add", {"x5", "x6"}, {"sum"});
  q.Round("sum", "y", 0.05F, 120);
  const auto kernels = ExpectAsInFloats(m, Image(3 * 144), 0.05F);
  EXPECT_EQ(kernels.count("byte_conv"), 3U);
  EXPECT_EQ(kernels.count("byte_max_pool"), 1U);
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 1U);
}

/// Inputs that are bytes: exports of other frameworks begin so.
template <typename T>
void ExpectInputOfBytes(onnx::TensorProto::DataType type, T zero) {
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 3, 12, 12}, type).Output("y").Floats("s", {}, {0.01F});
  *m.graph().add_initializer() = RawTensor<T>("z", type, {}, {zero});
  m.Add("DequantizeLinear", {"x", "s", "z"}, {"x1"});
  q.Conv("x1", "c1", {20, 3, 3, 3});
  q.Round("c1", "x2", 0.02F, 100);
  q.Conv("x2", "c2", {20, 20, 1, 1});
  q.Round("c2", "y", 0.05F, 120);
  const Result<Graph> bytes = m.Load();
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  Graph floats = *bytes;
  for (Value& value : floats.values) value.quantized.reset();
  std::vector<T> x(3 * 12 * 12);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 37 % 256);
  const Floats y = FromBytes<float>(RunTyped(*bytes, {ToBytes(x)})[0]);
  const Floats expected = FromBytes<float>(RunTyped(floats, {ToBytes(x)})[0]);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 0.0505F) << i;
  EXPECT_NE(Floats(y.size(), y.at(0)), y) << "the model's numbers are all the same";
  const auto kernels = KernelsOf(*bytes);
  EXPECT_EQ(kernels.count("byte_conv"), 2U);
  EXPECT_EQ(kernels.count("quantize"), 0U);
  EXPECT_EQ(kernels.count("dequantize"), 0U);
  EXPECT_EQ(kernels.count("byte_table"), std::is_signed_v<T> ? 1U : 0U)
      << "signed bytes become unsigned ones";
}

TEST(Bytes, InputsThatAreBytesStayBytes) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  ExpectInputOfBytes<std::uint8_t>(onnx::TensorProto::UINT8, 110);
  ExpectInputOfBytes<std::int8_t>(onnx::TensorProto::INT8, -7);
}

/// A convolution between rounded values.
struct HostileScales {
  float x = 0.01F, w = 0.002F, y = 0.05F;

  Result<Graph> Load() const {
    QuantisedModel q;
    ModelBuilder& m = q.model();
    m.Input("x", {1, 4, 5, 5}).Output("y");
    q.Round("x", "x1", x, 128);
    q.Weights("w", {6, 4, 3, 3}, 0, w);
    m.Add("Conv", {"x1", "w"}, {"c"});
    q.Round("c", "y", y, 128);
    return m.Load();
  }
};

/// Expects the same numbers as without bytes, or numbers up to `step` away. Returns the kernels.
std::multiset<std::string> ExpectAsWithoutBytes(const HostileScales& scales, float step) {
  SCOPED_TRACE(::testing::PrintToString(Floats{scales.x, scales.w, scales.y}));
  const Result<Graph> bytes = scales.Load();
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  if (!bytes) return {};
  Graph floats = *bytes;
  for (Value& value : floats.values) value.quantized.reset();
  const testing::Bytes x = ToBytes(Image(100));
  const Floats y = FromBytes<float>(RunTyped(*bytes, {x})[0]);
  const Floats expected = FromBytes<float>(RunTyped(floats, {x})[0]);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (y.at(i) == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i]))) continue;
    EXPECT_NEAR(y[i], expected[i], step) << i;
  }
  return KernelsOf(*bytes);
}

TEST(Bytes, HostileScalesAreComputedAsInFloats) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float scale : {0.0F, -0.01F, -kInfinity, kInfinity, kNan, 1e-42F, 1e35F}) {
    EXPECT_EQ(ExpectAsWithoutBytes({.x = scale}, 0).count("byte_conv"), 0U) << scale;
    EXPECT_EQ(ExpectAsWithoutBytes({.w = scale}, 0).count("byte_conv"), 0U) << scale;
    // Bytes may be multiplied, if floats are rounded to this scale.
    ExpectAsWithoutBytes({.y = scale}, 0.0101F);
  }
  const auto usual = ExpectAsWithoutBytes({}, 0.0505F);
  EXPECT_EQ(usual.count("byte_conv"), Vectors() ? 1U : 0U);
}

TEST(Bytes, ScalesThatDoNotFitTheirWeightsAreRefused) {
  struct Misfit {
    std::int64_t scales, zeros, axis;
    const char* words;
  };
  for (const Misfit& misfit : {Misfit{5, 5, 0, "does not fit axis 0"},
                               {6, 6, 1, "does not fit axis 1"},
                               {6, 4, 0, "differ in shape"},
                               {6, 6, 7, "axis"}}) {
    SCOPED_TRACE(misfit.words);
    ModelBuilder m(17);
    m.Input("x", {1, 4, 5, 5}).Output("y");
    m.Floats("s", {misfit.scales}, Floats(static_cast<std::size_t>(misfit.scales), 0.01F));
    *m.graph().add_initializer() =
        RawTensor<std::int8_t>("z", onnx::TensorProto::INT8, {misfit.zeros},
                               std::vector<std::int8_t>(static_cast<std::size_t>(misfit.zeros)));
    *m.graph().add_initializer() = RawTensor<std::int8_t>(
        "q", onnx::TensorProto::INT8, {6, 4, 3, 3}, std::vector<std::int8_t>(216, 3));
    m.Add("DequantizeLinear", {"q", "s", "z"}, {"w"}).Int("axis", misfit.axis).Name("weights");
    m.Add("Conv", {"x", "w"}, {"y"});
    const Result<Graph> graph = m.Load();
    ASSERT_FALSE(graph.has_value());
    EXPECT_EQ(graph.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(graph.error().message, ::testing::HasSubstr("'weights'"));
    EXPECT_THAT(graph.error().message, ::testing::HasSubstr(misfit.words));
  }
}

TEST(Bytes, WhatNoByteStandsForIsComputedInFloats) {
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("x", {1, 8, 6, 6}).Output("y");
  q.Round("x", "x1", 0.01F, 128);
  q.Conv("x1", "c1", {8, 8, 3, 3});
  m.Add("Sigmoid", {"c1"}, {"s"});
  q.Conv("s", "c2", {8, 8, 1, 1});
  q.Round("c2", "y", 0.01F, 128);
  const auto kernels = ExpectAsInFloats(m, Image(8 * 36), 0.01F);
  EXPECT_EQ(kernels.count("byte_conv"), 0U);
}

float Rounded(float x, float scale, std::uint8_t zero) {
  const float level = std::nearbyint(x / scale) + static_cast<float>(zero);
  return (std::min(255.0F, std::max(0.0F, level)) - static_cast<float>(zero)) * scale;
}

/// Adds "y" = "x" * clip("x" + 3, 0, 6) / 6, with each result rounded as `Activation` does.
void AddRoundedActivation(QuantisedModel& q) {
  ModelBuilder& m = q.model();
  m.Floats("three", {1}, {3}).Floats("none", {}, {0}).Floats("most", {}, {6});
  m.Floats("six", {1, 1}, {6});
  m.Add("Add", {"x", "three"}, {"a"});
  m.Add("Clip", {"a", "none", "most"}, {"b"});
  q.Round("b", "c", 0.023F, 0);
  m.Add("Mul", {"c", "x"}, {"d"});
  q.Round("d", "e", 0.07F, 40);
  m.Add("Div", {"e", "six"}, {"f"});
  q.Round("f", "y", 0.01F, 40);
}

/// e and y of one element.
std::pair<float, float> Activation(float x) {
  const float gate = Rounded(std::min(6.0F, std::max(0.0F, x + 3)), 0.023F, 0);
  const float product = Rounded(gate * x, 0.07F, 40);
  return {product, Rounded(product / 6, 0.01F, 40)};
}

TEST(Bytes, ElementwiseNodesBetweenBytesAreATable) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  for (const bool inner : {false, true}) {
    QuantisedModel q;
    q.model().Input("image", {1, 4, 9, 7}).Output("y");
    if (inner) q.model().Output("e");
    q.Round("image", "x", 0.01F, 120);
    AddRoundedActivation(q);
    const Result<Graph> graph = q.model().Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const auto kernels = KernelsOf(*graph);
    EXPECT_EQ(kernels.count("byte_table"), inner ? 2U : 1U);
    EXPECT_EQ(kernels.count("binary") + kernels.count("unary"), 0U);
    const Floats x = Image(4 * 9 * 7);
    const std::vector<Bytes> y = RunTyped(*graph, {ToBytes(x)});
    const Floats outer = FromBytes<float>(y[0]), within = FromBytes<float>(y.back());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [e, expected] = Activation(Rounded(x[i], 0.01F, 120));
      ASSERT_FLOAT_EQ(outer[i], expected) << x[i];
      ASSERT_FLOAT_EQ(within[i], inner ? e : expected) << x[i];
    }
  }
}

TEST(Bytes, ATableBetweenConvolutions) {
  if (!Vectors()) GTEST_SKIP() << "this level computes quantised models in fp32";
  QuantisedModel q;
  ModelBuilder& m = q.model();
  m.Input("image", {1, 8, 9, 7}).Output("z");
  q.Round("image", "x1", 0.01F, 120);
  q.Conv("x1", "c1", {8, 8, 3, 3});
  q.Round("c1", "x", 0.02F, 100);
  AddRoundedActivation(q);
  q.Conv("y", "c2", {8, 8, 1, 1});
  q.Round("c2", "z", 0.02F, 100);
  const auto kernels = ExpectAsInFloats(m, Image(8 * 9 * 7), 0.02F);
  const std::multiset<std::string> expected{"transpose",  "quantize",  "byte_conv",
                                            "byte_table", "byte_conv", "transpose"};
  EXPECT_EQ(kernels, expected);
}

/// Adds nodes between "x", on a grid, and "y": expects as many tables, and the same result as if
/// "x" was not on a grid.
void ExpectTables(const std::function<void(QuantisedModel&)>& form, std::size_t tables) {
  std::vector<Floats> results;
  for (const bool rounds : {true, false}) {
    QuantisedModel q;
    ModelBuilder& m = q.model();
    m.Input("image", {2, 3, 4, 5}).Output("y");
    if (rounds) q.Round("image", "x", 1.0F / 64, 120);
    if (!rounds) m.Add("Abs", {"image"}, {"x"});
    form(q);
    const Result<Graph> graph = m.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const std::size_t found = KernelsOf(*graph).count("byte_table");
    EXPECT_TRUE(!rounds || found == (Vectors() ? tables : 0U)) << found;
    Floats x(120);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 64;
    results.push_back(FromBytes<float>(RunTyped(*graph, {ToBytes(x)})[0]));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Bytes, WhatDependsOnMoreThanOneByteIsNoTable) {
  const auto chain = [](QuantisedModel& q, const std::string& from, std::size_t nodes) {
    q.model().Floats("most", {1}, {1.125F});
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::string to = "n" + std::to_string(i);
      q.model().Add(i % 2 == 0 ? "Mul" : "Div",
                    {i == 0 ? from : "n" + std::to_string(i - 1), "most"}, {to});
    }
    q.Round("n" + std::to_string(nodes - 1), "y", 1.0F / 32, 0);
  };
  ExpectTables([&](QuantisedModel& q) { chain(q, "x", 8); }, 1);
  // A factor for each channel.
  ExpectTables(
      [&](QuantisedModel& q) {
        q.model().Floats("scales", {3, 1, 1}, {1, 2, 3});
        q.model().Add("Mul", {"x", "scales"}, {"a"});
        chain(q, "a", 8);
      },
      0);
  // Another element of the same tensor.
  ExpectTables(
      [&](QuantisedModel& q) {
        q.model().Add("ReduceMax", {"x"}, {"most_of"}).Ints("axes", {3}).Int("keepdims", 1);
        q.model().Add("Mul", {"x", "most_of"}, {"a"});
        chain(q, "a", 8);
      },
      0);
  // A second value on a grid.
  ExpectTables(
      [&](QuantisedModel& q) {
        q.model().Add("Transpose", {"x"}, {"t"}).Ints("perm", {0, 1, 3, 2});
        q.model().Ints("dims", {2, 3, 4, 5}).Add("Reshape", {"t", "dims"}, {"u"});
        q.model().Add("Mul", {"x", "u"}, {"a"});
        chain(q, "a", 8);
      },
      0);
}

TEST(Bytes, ALongChainIsMoreThanOneTable) {
  ExpectTables(
      [&](QuantisedModel& q) {
        ModelBuilder& m = q.model();
        m.Floats("half", {1}, {0.5F});
        std::string from = "x";
        for (std::size_t i = 0; i < 50; ++i) {
          const std::string n = std::to_string(i);
          m.Add("Add", {from, "half"}, {"a" + n});
          m.Add("Sub", {"a" + n, "half"}, {"s" + n});
          q.Round("s" + n, i == 49 ? "y" : "r" + n, 1.0F / 64, static_cast<std::uint8_t>(i));
          from = "r" + n;
        }
      },
      2);
}

}  // namespace
}  // namespace lagoon

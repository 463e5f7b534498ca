// Quantised models, computed on bytes, compared with the same models computed in fp32.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

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
  EXPECT_EQ(kernels.count("byte_add"), 1U);
  EXPECT_EQ(kernels.count("quantize"), 1U);
  EXPECT_EQ(kernels.count("dequantize"), 1U);
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
  EXPECT_EQ(kernels.count("dequantize"), 1U);
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
  EXPECT_EQ(kernels.count("dequantize"), 1U);
}

// With 4 columns a group most of a panel would be empty; with 6 channels no quad is whole.
TEST(Bytes, ConvolutionsInGroupsThatFillNoPanelAreComputedInFloats) {
  for (const auto& [channels, columns] : {std::pair{4, 4}, std::pair{6, 32}}) {
    QuantisedModel q;
    ModelBuilder& m = q.model();
    m.Input("x", {1, 2 * channels, 5, 5}).Output("y");
    q.Round("x", "x1", 0.01F, 110);
    q.Conv("x1", "c1", {2 * columns, channels, 3, 3}, 2);
    q.Round("c1", "y", 0.05F, 120);
    const auto kernels =
        ExpectAsInFloats(m, Image(static_cast<std::size_t>(2 * channels) * 25), 0.05F);
    EXPECT_EQ(kernels.count("byte_conv"), 0U);
  }
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
  EXPECT_EQ(kernels.count("dequantize"), 1U);
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
  EXPECT_EQ(kernels.count("dequantize"), 1U);
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

}  // namespace
}  // namespace lagoon

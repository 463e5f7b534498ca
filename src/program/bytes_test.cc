// Quantised models, computed on bytes, compared with the same models computed in fp32.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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

  /// Signed weights with one scale for each index of `axis`, dequantised.
  void Weights(const std::string& name, const std::vector<std::int64_t>& dims, std::int64_t axis) {
    const std::int64_t columns = dims[static_cast<std::size_t>(axis)];
    std::vector<std::int8_t> levels(static_cast<std::size_t>(ElementCount(dims)));
    for (std::size_t i = 0; i < levels.size(); ++i) {
      levels[i] = static_cast<std::int8_t>(i * 61 % 255 - 127);
    }
    Floats scales;
    for (std::int64_t c = 0; c < columns; ++c)
      scales.push_back(0.002F + 0.0001F * static_cast<float>(c));
    std::vector<std::int64_t> w_dims = dims;
    *model_.graph().add_initializer() =
        RawTensor<std::int8_t>(name + "_q", onnx::TensorProto::INT8, w_dims, levels);
    model_.Floats(name + "_s", {columns}, scales);
    model_.Add("DequantizeLinear", {name + "_q", name + "_s"}, {name}).Int("axis", axis);
  }

  void Conv(const std::string& x, const std::string& y, const std::vector<std::int64_t>& weights,
            std::int64_t group = 1, std::int64_t stride = 1) {
    Weights("w_" + y, weights, 0);
    const std::int64_t pad = weights[2] / 2;
    model_.Add("Conv", {x, "w_" + y}, {y})
        .Ints("pads", {pad, pad, pad, pad})
        .Ints("strides", {stride, stride})
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

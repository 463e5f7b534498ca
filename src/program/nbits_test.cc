// Models with weights of a few bits, compared with the product of the decoded weights.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "plan/element.h"
#include "program/testing/emulated_gpu.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ModelBuilder;
using testing::ToBytes;
using Floats = std::vector<float>;

struct Layer {
  std::int64_t rows = 1, depth = 80, columns = 20, bits = 4, block = 32, accuracy = 0;
  bool zeros = false, bias = false, half = false;
};

/// A model of one layer, its input and what it must give.
struct LayerModel {
  explicit LayerModel(const Layer& l) : layer(l) {
    std::minstd_rand random(7);
    const std::int64_t blocks = (l.depth + l.block - 1) / l.block;
    const std::int64_t zero_bytes = (blocks * l.bits + 7) / 8;
    const auto bytes = [&random](std::int64_t count) {
      std::vector<std::uint8_t> data(static_cast<std::size_t>(count));
      for (auto& byte : data) byte = static_cast<std::uint8_t>(random() >> 8);
      return data;
    };
    const auto floats = [&random](std::int64_t count, float from) {
      Floats data(static_cast<std::size_t>(count));
      for (float& v : data) v = from + static_cast<float>(random() % 4096) / 2048.0F;
      return data;
    };
    const auto levels = bytes(l.columns * blocks * l.block * l.bits / 8);
    const auto zeros = bytes(l.columns * zero_bytes);
    Floats scales = floats(l.columns * blocks, 0.125F);
    x = floats(l.rows * l.depth, -1);
    const Floats bias = floats(l.columns, -1);
    const auto at = [&](const std::vector<std::uint8_t>& from, std::int64_t bit) {
      return from[static_cast<std::size_t>(bit / 8)] >> (bit % 8) & ((1 << l.bits) - 1);
    };
    for (std::int64_t row = 0; row < l.rows; ++row) {
      for (std::int64_t j = 0; j < l.columns; ++j) {
        double sum = l.bias ? double{bias[static_cast<std::size_t>(j)]} : 0, magnitude = 0;
        for (std::int64_t p = 0; p < l.depth; ++p) {
          const std::int64_t b = p / l.block;
          const int zero = l.zeros ? at(zeros, j * zero_bytes * 8 + b * l.bits) : 1 << (l.bits - 1);
          const int level = at(levels, ((j * blocks + b) * l.block + p % l.block) * l.bits);
          const double product = double{x[static_cast<std::size_t>(row * l.depth + p)]} *
                                 (level - zero) *
                                 double{scales[static_cast<std::size_t>(j * blocks + b)]};
          sum += product;
          magnitude += std::abs(product);
        }
        expected.push_back(sum);
        magnitudes.push_back(magnitude);
      }
    }
    Write(levels, zeros, scales, bias);
  }

  void Write(const std::vector<std::uint8_t>& levels, const std::vector<std::uint8_t>& zeros,
             const Floats& scales, const Floats& bias) {
    const auto type = layer.half ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT;
    const auto add = [&](const std::string& name, const Floats& data) {
      const Dims dims{static_cast<std::int64_t>(data.size())};
      if (!layer.half) return static_cast<void>(model.Floats(name, dims, data));
      std::vector<Float16> halves;
      for (const float v : data) halves.push_back(Float16::From(v));
      *model.graph().add_initializer() = testing::RawTensor(name, type, dims, halves);
    };
    const auto packed = [&](const std::string& name, const std::vector<std::uint8_t>& data) {
      *model.graph().add_initializer() = testing::RawTensor(
          name, onnx::TensorProto::UINT8, {static_cast<std::int64_t>(data.size())}, data);
    };
    model.Input("x", {layer.rows, layer.depth}, type).Output("y");
    packed("b", levels);
    packed("z", zeros);
    add("s", scales);
    add("c", bias);
    testing::NodeRef node = model.Add(
        "MatMulNBits", {"x", "b", "s", layer.zeros ? "z" : "", "", layer.bias ? "c" : ""}, {"y"});
    node.proto().set_domain("com.microsoft");
    node.Int("K", layer.depth).Int("N", layer.columns).Int("bits", layer.bits);
    node.Int("block_size", layer.block).Int("accuracy_level", layer.accuracy);
  }

  Bytes InputBytes() const {
    if (!layer.half) return ToBytes(x);
    std::vector<Float16> halves;
    for (const float v : x) halves.push_back(Float16::From(v));
    return ToBytes(halves);
  }

  void Expect(const Bytes& y) const {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double got =
          ElementAsDouble(layer.half ? DataType::kFloat16 : DataType::kFloat32, y.data(), i);
      const double part = layer.accuracy == 4 ? 0.01 : 1e-5;
      const double rounding = layer.half ? 1e-3 * (std::abs(expected[i]) + magnitudes[i]) : 1e-5;
      ASSERT_NEAR(got, expected[i], part * magnitudes[i] + rounding) << "element " << i;
    }
  }

  Layer layer;
  ModelBuilder model{20};
  Floats x;
  std::vector<double> expected, magnitudes;
};

TEST(NbitsModel, GivesTheProductOfTheDecodedWeights) {
  for (const std::int64_t accuracy : {0, 1, 4}) {
    for (const std::int64_t bits : {2, 4, 8}) {
      for (const std::int64_t rows : {1, 3, 20}) {
        for (const bool more : {false, true}) {
          SCOPED_TRACE(::testing::Message() << accuracy << " " << bits << " " << rows << more);
          const LayerModel layer(
              {.rows = rows, .bits = bits, .accuracy = accuracy, .zeros = more, .bias = more});
          layer.Expect(testing::RunModel(layer.model, {layer.InputBytes()})[0]);
        }
      }
    }
  }
}

TEST(NbitsModel, TakesFloatsOf16BitsAndKeepsTheirScales) {
  const LayerModel layer({.rows = 2, .accuracy = 4, .bias = true, .half = true});
  const Result<Graph> graph = layer.model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes.at(0).Int("half_scales", 0), 1);
  layer.Expect(testing::RunModel(layer.model, {layer.InputBytes()})[0]);
}

TEST(NbitsModel, OnAGpuTheWeightsAreDecoded) {
  const LayerModel layer({.rows = 3, .accuracy = 4, .zeros = true, .bias = true});
  auto opened = OpenDevice(testing::StartEmulatedGpu(2));
  ASSERT_TRUE(opened.has_value());
  CompileOptions options;
  options.model = "test";
  options.kernels = opened->kernels.get();
  const auto loaded = CompileGraph(*layer.model.Load(), *opened->device, options);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  auto instance = Instance::Create(*loaded, *opened->device);
  const Bytes x = layer.InputBytes();
  Bytes y(layer.expected.size() * sizeof(float));
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  const Status run = RunOnce(**instance, *opened->device, inputs, outputs);
  ASSERT_TRUE(run) << run.error().message;
  LayerModel exact = layer;
  exact.layer.accuracy = 0;
  exact.Expect(y);
}

}  // namespace
}  // namespace lagoon

#pragma once

// A naive executor of graphs, to check that a pass keeps the results of a graph. Supports the ops
// that fusion touches, and Node::fused; sums are in double.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "graph/graph.h"

namespace lagoon::testing {

using Tensor = std::vector<float>;

class Reference {
 public:
  explicit Reference(const Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      if (!graph.values[i].constant) continue;
      const auto floats = graph.values[i].constant->floats();
      values_[static_cast<ValueId>(i)] = Tensor(floats.begin(), floats.end());
    }
  }

  /// The outputs for inputs that are a fixed function of the element index.
  std::vector<Tensor> Run() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      Tensor x(Count(graph_.inputs[i]));
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] = static_cast<float>(std::sin(0.7 * static_cast<double>(k + 13 * i) + 0.1));
      }
      values_[graph_.inputs[i]] = x;
    }
    for (const Node& node : graph_.nodes) {
      if (node.op == "Split") {
        Split(node);
        continue;
      }
      const bool last = node.fused.residual_last;
      Tensor y = Compute(node);
      if (!last) y = WithResidual(node, y);
      y = Activate(node, y);
      if (last) y = WithResidual(node, y);
      EXPECT_EQ(y.size(), Count(node.outputs[0])) << node.name;
      values_[node.outputs[0]] = y;
    }
    std::vector<Tensor> outputs;
    for (const ValueId output : graph_.outputs) outputs.push_back(values_.at(output));
    return outputs;
  }

 private:
  const Dims& dims(ValueId id) const { return graph_.value(id).dims; }
  std::size_t Count(ValueId id) const { return static_cast<std::size_t>(ElementCount(dims(id))); }
  // Throws, which ends the test, if the node runs before the node that computes this input.
  const Tensor& In(const Node& node, std::size_t i) const { return values_.at(node.inputs.at(i)); }

  Tensor Compute(const Node& node) const {
    if (node.op == "Conv") return Conv(node);
    if (node.op == "Gemm" || node.op == "MatMul") return MatMul(node);
    if (node.op == "BatchNormalization") return BatchNorm(node);
    if (node.op == "Concat") return Concat(node);
    if (node.op == "Slice") return SliceOfRows(node);
    if (node.op == "ChannelAffine") return ChannelAffine(node);
    if (node.op == "Add") return Binary(node, [](float a, float b) { return a + b; });
    if (node.op == "Mul") return Binary(node, [](float a, float b) { return a * b; });
    if (node.op == "Relu") return Unary(node, [](float v) { return std::max(v, 0.0f); });
    if (node.op == "Reshape" || node.op == "Unsqueeze") return In(node, 0);
    if (node.op == "Tanh" || node.op == "Identity") {
      const bool tanh = node.op == "Tanh";
      return Unary(node, [=](float v) { return tanh ? std::tanh(v) : v; });
    }
    if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") {
      EXPECT_EQ(node.inputs.size(), 2U) << "the reference knows no zero point";
      const bool rounds = node.op == "QuantizeLinear";
      const float scale = In(node, 1)[0];
      return Unary(node, [=](float v) { return rounds ? LevelOf(v / scale, 0) : v * scale; });
    }
    if (node.op == "FakeQuantize") {
      return Unary(node, [&](float v) { return FakeQuantized(v, node.attributes); });
    }
    if (node.op == "Clip") {
      const float low = node.Float("min", 0), high = node.Float("max", 0);
      return Unary(node, [=](float v) { return std::min(std::max(v, low), high); });
    }
    ADD_FAILURE() << "the reference does not know " << node.op;
    return Tensor(Count(node.outputs[0]));
  }

  static float LevelOf(float quotient, float low) {
    return std::min(low + 255, std::max(low, std::nearbyint(quotient)));
  }
  static float FakeQuantized(float v, const std::map<std::string, Attribute>& attributes) {
    const float scale = std::get<float>(attributes.at("scale"));
    return LevelOf(v / scale, std::get<float>(attributes.at("low"))) * scale;
  }

  void Split(const Node& node) {
    const Dims& whole = dims(node.inputs[0]);
    const std::int64_t axis = node.Int("axis", 0);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + std::ssize(whole) : axis);
    std::size_t row = 1, begin = 0;  // elements of one step along the axes before `axis`
    for (std::size_t i = at; i < whole.size(); ++i) row *= static_cast<std::size_t>(whole[i]);
    const std::vector<std::int64_t> sizes = node.Ints("split", {});
    for (std::size_t number = 0; number < node.outputs.size(); ++number) {
      const ValueId output = node.outputs[number];
      const std::size_t part =
          row / static_cast<std::size_t>(whole[at]) * static_cast<std::size_t>(sizes.at(number));
      Tensor y;
      for (std::size_t i = 0; i < In(node, 0).size(); ++i) {
        if (i % row >= begin && i % row < begin + part) y.push_back(In(node, 0)[i]);
      }
      if (output != kNoValue) values_[output] = y;
      begin += part;
    }
  }

  Tensor WithResidual(const Node& node, Tensor y) const {
    if (node.fused.residual == kNoValue) return y;
    const Tensor& residual = values_.at(node.fused.residual);
    EXPECT_EQ(residual.size(), y.size()) << node.name;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += residual[i];
    return y;
  }

  static Tensor Activate(const Node& node, Tensor y) {
    const Fused& fused = node.fused;
    for (float& v : y) {
      if (fused.activation == ActivationKind::kRelu) v = std::max(v, 0.0f);
      if (fused.activation == ActivationKind::kClip)
        v = std::min(std::max(v, fused.low), fused.high);
      if (fused.activation != ActivationKind::kOp) continue;
      if (fused.op == "FakeQuantize") {
        v = FakeQuantized(v, fused.attributes);
        continue;
      }
      EXPECT_EQ(fused.op, "Tanh") << "the reference knows no other";
      v = std::tanh(v);
    }
    return y;
  }

  Tensor Unary(const Node& node, const std::function<float(float)>& f) const {
    Tensor y = In(node, 0);
    std::transform(y.begin(), y.end(), y.begin(), f);
    return y;
  }

  // The element of input `i` that broadcasts to element `at` of the output.
  float BroadcastElement(const Node& node, std::size_t i, std::size_t at) const {
    const Dims& out = dims(node.outputs[0]);
    const Dims& own = dims(node.inputs[i]);
    std::size_t index = 0, stride = 1;
    for (std::size_t back = 0; back < out.size(); ++back) {
      const auto size = static_cast<std::size_t>(out[out.size() - 1 - back]);
      const std::size_t coordinate = at % size;
      at /= size;
      if (back >= own.size()) continue;
      const auto own_size = static_cast<std::size_t>(own[own.size() - 1 - back]);
      if (own_size > 1) index += coordinate * stride;
      stride *= own_size;
    }
    return In(node, i)[index];
  }

  Tensor Binary(const Node& node, const std::function<float(float, float)>& f) const {
    Tensor y(Count(node.outputs[0]));
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = f(BroadcastElement(node, 0, i), BroadcastElement(node, 1, i));
    }
    return y;
  }

  Tensor BatchNorm(const Node& node) const {
    Tensor y = In(node, 0);
    const Dims& shape = dims(node.inputs[0]);
    const auto channels = static_cast<std::size_t>(shape[1]);
    const std::size_t inner = y.size() / static_cast<std::size_t>(shape[0]) / channels;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t c = i / inner % channels;
      const double scale =
          In(node, 1)[c] / std::sqrt(double{In(node, 4)[c]} + node.Float("epsilon", 1e-5f));
      y[i] = static_cast<float>((y[i] - In(node, 3)[c]) * scale + In(node, 2)[c]);
    }
    return y;
  }

  Tensor Concat(const Node& node) const {
    const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
    std::size_t outer = 1;
    for (std::size_t i = 0; i < axis; ++i) {
      outer *= static_cast<std::size_t>(dims(node.outputs[0])[i]);
    }
    Tensor y;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t part = 0; part < node.inputs.size(); ++part) {
        const Tensor& x = In(node, part);
        const std::size_t count = x.size() / outer;
        y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(o * count),
                 x.begin() + static_cast<std::ptrdiff_t>((o + 1) * count));
      }
    }
    return y;
  }

  // A Slice of the last axis only, in steps of 1.
  Tensor SliceOfRows(const Node& node) const {
    const auto row = static_cast<std::size_t>(dims(node.inputs[0]).back());
    const auto count = static_cast<std::size_t>(dims(node.outputs[0]).back());
    const auto start = static_cast<std::size_t>(node.Ints("starts", {0}).back());
    EXPECT_EQ(node.Ints("axes", {}).back() + 1,
              static_cast<std::int64_t>(dims(node.inputs[0]).size()));
    Tensor y;
    for (std::size_t at = start; at < In(node, 0).size(); at += row) {
      for (std::size_t i = 0; i < count; ++i) y.push_back(In(node, 0)[at + i]);
    }
    return y;
  }

  Tensor ChannelAffine(const Node& node) const {
    const Dims& shape = dims(node.outputs[0]);
    const auto batch = static_cast<std::size_t>(shape[0]);
    const auto channels = static_cast<std::size_t>(shape[1]);
    const std::size_t inner = Count(node.outputs[0]) / batch / channels;
    Tensor y;
    for (std::size_t image = 0; image < batch; ++image) {
      for (std::size_t part = 2; part < node.inputs.size(); ++part) {
        const Tensor& x = In(node, part);
        const std::size_t count = x.size() / batch;
        for (std::size_t i = image * count; i < (image + 1) * count; ++i) {
          const std::size_t c = y.size() / inner % channels;
          y.push_back(x[i] * In(node, 0)[c] + In(node, 1)[c]);
        }
      }
    }
    return y;
  }

  Tensor MatMul(const Node& node) const {
    const bool transposed = node.Int("transB", 0) != 0;
    const auto inner = static_cast<std::size_t>(dims(node.inputs[0]).back());
    const auto columns = static_cast<std::size_t>(dims(node.outputs[0]).back());
    const double alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
    Tensor y(Count(node.outputs[0]));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / columns, column = i % columns;
      double sum = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        const std::size_t at = transposed ? column * inner + k : k * columns + column;
        sum += double{In(node, 0)[row * inner + k]} * In(node, 1)[at];
      }
      if (node.inputs.size() > 2) {
        const Tensor& bias = In(node, 2);
        y[i] = static_cast<float>(alpha * sum + beta * bias[bias.size() == 1 ? 0 : column]);
      } else {
        y[i] = static_cast<float>(alpha * sum);
      }
    }
    return y;
  }

  Tensor Conv(const Node& node) const {
    const Dims& y_dims = dims(node.outputs[0]);
    Tensor y;
    for (std::int64_t n = 0; n < y_dims[0]; ++n) {
      for (std::int64_t m = 0; m < y_dims[1]; ++m) {
        for (std::int64_t h = 0; h < y_dims[2]; ++h) {
          for (std::int64_t w = 0; w < y_dims[3]; ++w) y.push_back(ConvAt(node, n, m, h, w));
        }
      }
    }
    return y;
  }

  float ConvAt(const Node& node, std::int64_t n, std::int64_t m, std::int64_t h,
               std::int64_t w) const {
    const Dims& x = dims(node.inputs[0]);
    const Dims& k = dims(node.inputs[1]);
    const auto strides = node.Ints("strides", {}), pads = node.Ints("pads", {});
    const auto dilations = node.Ints("dilations", {});
    const std::int64_t group = m / (k[0] / node.Int("group", 1));
    double sum = node.inputs.size() > 2 ? In(node, 2)[static_cast<std::size_t>(m)] : 0;
    for (std::int64_t i = 0; i < k[1] * k[2] * k[3]; ++i) {
      const std::int64_t c = i / (k[2] * k[3]), r = i / k[3] % k[2], s = i % k[3];
      const std::int64_t row = h * strides[0] - pads[0] + r * dilations[0];
      const std::int64_t column = w * strides[1] - pads[1] + s * dilations[1];
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      const std::int64_t channel = group * k[1] + c;
      const std::int64_t at = ((n * x[1] + channel) * x[2] + row) * x[3] + column;
      const std::int64_t weight = m * k[1] * k[2] * k[3] + i;
      sum += double{In(node, 0)[static_cast<std::size_t>(at)]} *
             In(node, 1)[static_cast<std::size_t>(weight)];
    }
    return static_cast<float>(sum);
  }

  const Graph& graph_;
  std::map<ValueId, Tensor> values_;
};

/// Expects both graphs to compute the same outputs, up to rounding.
inline void ExpectSameOutputs(const Graph& expected, const Graph& actual) {
  const std::vector<Tensor> a = Reference(expected).Run();
  const std::vector<Tensor> b = Reference(actual).Run();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    float largest = 1e-3f;
    for (const float v : a[i]) largest = std::max(largest, std::abs(v));
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      ASSERT_NEAR(a[i][k], b[i][k], 1e-5f * largest) << "output " << i << ", element " << k;
    }
  }
}

}  // namespace lagoon::testing

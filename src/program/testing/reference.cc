#include "program/testing/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"

namespace lagoon::testing {
namespace {

using Index = std::vector<std::int64_t>;
using Inputs = std::vector<const HostTensor*>;

double At(const HostTensor& x, const Index& index) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    LAGOON_CHECK(index[i] >= 0 && index[i] < x.dims[i]);
    flat = flat * x.dims[i] + index[i];
  }
  return x.data[static_cast<std::size_t>(flat)];
}

/// y[index] = f(index) for every index of `dims`.
HostTensor Fill(const Dims& dims, const std::function<double(const Index&)>& f) {
  HostTensor y{dims, {}};
  Index index(dims.size(), 0);
  for (std::int64_t left = ElementCount(dims); left > 0; --left) {
    y.data.push_back(static_cast<float>(f(index)));
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return y;
}

/// Calls f(y, x, inside) for every element of the window of `node` at output y, x.
void ForWindow(const Node& node, const Dims& in, const Index& out,
               const std::function<void(std::int64_t, std::int64_t, Index)>& f) {
  const auto kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             pads = node.Ints("pads", {}), dilations = node.Ints("dilations", {});
  for (std::int64_t i = 0; i < kernel[0]; ++i) {
    for (std::int64_t j = 0; j < kernel[1]; ++j) {
      const std::int64_t y = out[2] * strides[0] - pads[0] + i * dilations[0];
      const std::int64_t x = out[3] * strides[1] - pads[1] + j * dilations[1];
      if (y >= 0 && y < in[2] && x >= 0 && x < in[3]) f(y, x, {i, j});
    }
  }
}

Dims WindowDims(const Node& node, const Dims& in, std::int64_t channels) {
  const auto kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             pads = node.Ints("pads", {}), dilations = node.Ints("dilations", {});
  Dims out{in[0], channels};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t span = (kernel[i] - 1) * dilations[i] + 1;
    out.push_back((in[i + 2] + pads[i] + pads[i + 2] - span) / strides[i] + 1);
  }
  return out;
}

HostTensor Conv(const Node& node, const Inputs& in) {
  const HostTensor& w = *in[1];
  const std::int64_t per_group = w.dims[1];
  const std::int64_t out_per_group = w.dims[0] / node.Int("group", 1);
  return Fill(WindowDims(node, in[0]->dims, w.dims[0]), [&](const Index& at) {
    double sum = in.size() > 2 && in[2] != nullptr ? At(*in[2], {at[1]}) : 0;
    const std::int64_t first = at[1] / out_per_group * per_group;
    ForWindow(node, in[0]->dims, at, [&](std::int64_t y, std::int64_t x, Index k) {
      for (std::int64_t c = 0; c < per_group; ++c) {
        sum += At(*in[0], {at[0], first + c, y, x}) * At(w, {at[1], c, k[0], k[1]});
      }
    });
    return sum;
  });
}

HostTensor Pool(const Node& node, const Inputs& in) {
  const Dims out_dims = WindowDims(node, in[0]->dims, in[0]->dims[1]);
  const auto kernel = node.Ints("kernel_shape", {});
  return Fill(out_dims, [&](const Index& at) {
    double sum = 0, max = -std::numeric_limits<double>::infinity();
    std::int64_t count = 0;
    ForWindow(node, in[0]->dims, at, [&](std::int64_t y, std::int64_t x, const Index&) {
      const double v = At(*in[0], {at[0], at[1], y, x});
      sum += v;
      max = std::max(max, v);
      ++count;
    });
    if (node.op == "MaxPool") return max;
    if (node.Int("count_include_pad", 0) != 0) count = kernel[0] * kernel[1];
    return sum / static_cast<double>(count);
  });
}

/// The index in `x` of the matrix at `at`, the leading axes of which broadcast.
Index MatrixAt(const HostTensor& x, const Index& at, std::int64_t row, std::int64_t column) {
  Index index(x.dims.size());
  const std::size_t leading = index.size() - 2;
  for (std::size_t i = 0; i < leading; ++i) {
    index[i] = x.dims[i] == 1 ? 0 : at[at.size() - index.size() + i];
  }
  index[leading] = row;
  index[leading + 1] = column;
  return index;
}

/// Of matrices; the right side may have as many axes as the left one, or 2.
HostTensor MatMul(const Node& node, const Inputs& in) {
  const bool transposed = node.Int("transB", 0) != 0;
  Dims dims = in[0]->dims;
  for (std::size_t i = 0; i + 2 < in[1]->dims.size(); ++i) {
    std::int64_t& size = dims[dims.size() - in[1]->dims.size() + i];
    size = std::max(size, in[1]->dims[i]);
  }
  const std::int64_t k_size = dims.back();
  dims.back() = *(in[1]->dims.end() - (transposed ? 2 : 1));
  return Fill(dims, [&](const Index& at) {
    const std::int64_t m = at[at.size() - 2], n = at.back();
    double sum = in.size() > 2 && in[2] != nullptr ? At(*in[2], {n}) : 0;
    for (std::int64_t k = 0; k < k_size; ++k) {
      const Index right = transposed ? MatrixAt(*in[1], at, n, k) : MatrixAt(*in[1], at, k, n);
      sum += At(*in[0], MatrixAt(*in[0], at, m, k)) * At(*in[1], right);
    }
    return sum;
  });
}

double Unary(const Node& node, double x) {
  const std::string& op = node.op;
  if (op == "Relu") return std::max(x, 0.0);
  if (op == "Clip") {
    return std::clamp<double>(x, node.Float("min", -INFINITY), node.Float("max", INFINITY));
  }
  if (op == "Sigmoid") return 1 / (1 + std::exp(-x));
  if (op == "Tanh") return std::tanh(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Log") return std::log(x);
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Abs") return std::abs(x);
  if (op == "Neg") return -x;
  if (op == "LeakyRelu") return x < 0 ? x * node.Float("alpha", 0.01F) : x;
  if (op == "HardSwish") return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
  if (op == "HardSigmoid") {
    return std::clamp<double>(x * node.Float("alpha", 0.2F) + node.Float("beta", 0.5F), 0, 1);
  }
  CheckFailed(op.c_str(), __FILE__, __LINE__);
}

double Binary(const std::string& op, double a, double b) {
  if (op == "Add" || op == "Sum") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Pow") return std::pow(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  CheckFailed(op.c_str(), __FILE__, __LINE__);
}

bool IsBinary(const std::string& op) {
  static const std::vector<std::string> ops{"Add", "Sum", "Sub", "Mul", "Div", "Pow", "Min", "Max"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

HostTensor Broadcast(const std::string& op, const HostTensor& a, const HostTensor& b) {
  Dims dims(std::max(a.dims.size(), b.dims.size()), 1);
  for (const HostTensor* x : {&a, &b}) {
    const std::size_t skip = dims.size() - x->dims.size();
    for (std::size_t i = 0; i < x->dims.size(); ++i) {
      dims[skip + i] = std::max(dims[skip + i], x->dims[i]);
    }
  }
  const auto operand = [&](const HostTensor& x, const Index& at) {
    Index own(at.end() - static_cast<std::ptrdiff_t>(x.dims.size()), at.end());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = std::min(own[i], x.dims[i] - 1);
    return At(x, own);
  };
  return Fill(dims, [&](const Index& at) { return Binary(op, operand(a, at), operand(b, at)); });
}

HostTensor Reduce(const std::string& op, const HostTensor& x, std::vector<std::int64_t> axes,
                  bool keep) {
  Dims kept = x.dims;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  HostTensor y = Fill(kept, [&](const Index& at) {
    double sum = 0, max = -INFINITY, min = INFINITY;
    Index inner(x.dims.size(), 0);
    Dims window(x.dims.size(), 1);
    for (const std::int64_t axis : axes) {
      window[static_cast<std::size_t>(axis)] = x.dims[static_cast<std::size_t>(axis)];
    }
    Fill(window, [&](const Index& offset) {
      for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = at[i] + offset[i];
      const double v = At(x, inner);
      sum += v;
      max = std::max(max, v);
      min = std::min(min, v);
      return 0.0;
    });
    if (op == "ReduceSum") return sum;
    if (op == "ReduceMax" || op == "GlobalMaxPool") return max;
    if (op == "ReduceMin") return min;
    return sum / static_cast<double>(ElementCount(window));
  });
  if (!keep) {
    Dims left;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
      if (!reduced) left.push_back(kept[i]);
    }
    y.dims = left;
  }
  return y;
}

HostTensor Softmax(const Node& node, const HostTensor& x) {
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  // log(sum(exp(x))) along the axis, of the differences to the maximum, so that exp stays small.
  const auto log_sum_at = [&](Index at) {
    double max = -INFINITY, sum = 0;
    for (at[axis] = 0; at[axis] < x.dims[axis]; ++at[axis]) max = std::max(max, At(x, at));
    for (at[axis] = 0; at[axis] < x.dims[axis]; ++at[axis]) sum += std::exp(At(x, at) - max);
    return max + std::log(sum);
  };
  return Fill(x.dims, [&](const Index& at) {
    const double log = At(x, at) - log_sum_at(at);
    return node.op == "LogSoftmax" ? log : std::exp(log);
  });
}

HostTensor Transpose(const Node& node, const HostTensor& x) {
  const auto perm = node.Ints("perm", {});
  Dims dims;
  for (const std::int64_t axis : perm) dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
  return Fill(dims, [&](const Index& at) {
    Index from(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) from[static_cast<std::size_t>(perm[i])] = at[i];
    return At(x, from);
  });
}

HostTensor Concat(const Node& node, const Inputs& in) {
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  Dims dims = in[0]->dims;
  dims[axis] = 0;
  for (const HostTensor* x : in) dims[axis] += x->dims[axis];
  return Fill(dims, [&](Index at) {
    std::size_t part = 0;
    while (at[axis] >= in[part]->dims[axis]) at[axis] -= in[part++]->dims[axis];
    return At(*in[part], at);
  });
}

std::vector<HostTensor> Split(const Node& node, const HostTensor& x) {
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  std::vector<HostTensor> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : node.Ints("split", {})) {
    Dims dims = x.dims;
    dims[axis] = size;
    parts.push_back(Fill(dims, [&](Index at) {
      at[axis] += first;
      return At(x, at);
    }));
    first += size;
  }
  return parts;
}

HostTensor Slice(const Node& node, const HostTensor& x) {
  const auto starts = node.Ints("starts", {}), ends = node.Ints("ends", {}),
             steps = node.Ints("steps", {});
  Dims dims;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    dims.push_back((ends[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  return Fill(dims, [&](Index at) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = starts[i] + at[i] * steps[i];
    return At(x, at);
  });
}

HostTensor Pad(const Node& node, const HostTensor& x) {
  const auto pads = node.Ints("pads", {});
  Dims dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] += pads[i] + pads[i + dims.size()];
  return Fill(dims, [&](Index at) -> double {
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] -= pads[i];
      if (at[i] < 0 || at[i] >= x.dims[i]) {
        return std::get<Constant>(node.attributes.at("value")).floats()[0];
      }
    }
    return At(x, at);
  });
}

HostTensor GlobalPool(const Node& node, const HostTensor& x) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < x.dims.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return Reduce(node.op, x, axes, true);
}

HostTensor EvaluateOne(const Node& node, const Inputs& in, const Dims& out_dims) {
  const HostTensor& x = *in[0];
  const std::string& op = node.op;
  if (op == "Conv") return Conv(node, in);
  if (op == "Gemm" || op == "MatMul") return MatMul(node, in);
  if (op == "MaxPool" || op == "AveragePool") return Pool(node, in);
  if (op == "GlobalAveragePool" || op == "GlobalMaxPool") return GlobalPool(node, x);
  if (op.starts_with("Reduce")) {
    return Reduce(op, x, node.Ints("axes", {}), node.Int("keepdims", 1) != 0);
  }
  if (op == "Softmax" || op == "LogSoftmax") return Softmax(node, x);
  if (op == "Transpose") return Transpose(node, x);
  if (op == "Concat") return Concat(node, in);
  if (op == "Slice") return Slice(node, x);
  if (op == "Pad") return Pad(node, x);
  if (!out_dims.empty()) return {out_dims, x.data};
  if (op == "Identity" || op == "Dropout") return x;
  if (IsBinary(op)) {
    HostTensor y = x;
    for (std::size_t i = 1; i < in.size(); ++i) y = Broadcast(op, y, *in[i]);
    return y;
  }
  return Fill(x.dims, [&](const Index& at) { return Unary(node, At(x, at)); });
}

}  // namespace

std::vector<HostTensor> Evaluate(const Node& node, const std::vector<const HostTensor*>& inputs,
                                 const Dims& out_dims) {
  if (node.op == "Split") return Split(node, *inputs[0]);
  const Inputs own(inputs.begin(),
                   inputs.begin() + static_cast<std::ptrdiff_t>(node.inputs.size()));
  HostTensor y = EvaluateOne(node, own, out_dims);
  const Fused& fused = node.fused;
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    float& v = y.data[i];
    if (fused.residual != kNoValue) v += inputs.back()->data[i];
    if (fused.activation == ActivationKind::kRelu) v = std::max(v, 0.0F);
    if (fused.activation == ActivationKind::kClip) v = std::clamp(v, fused.low, fused.high);
  }
  return {y};
}

}  // namespace lagoon::testing

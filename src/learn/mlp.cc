#include "learn/mlp.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "learn/product.h"

namespace lagoon::learn {
namespace {

std::size_t ParametersOf(int in, int out) {
  return (static_cast<std::size_t>(in) + 1) * static_cast<std::size_t>(out);
}

}  // namespace

Mlp::Mlp(std::vector<int> sizes) : sizes_(std::move(sizes)) {
  LAGOON_CHECK(sizes_.size() >= 2);
  std::size_t count = 0;
  for (std::size_t i = 0; i < layers(); ++i) {
    LAGOON_CHECK(sizes_[i] >= 1 && sizes_[i + 1] >= 1);
    offsets_.push_back(count);
    count += ParametersOf(sizes_[i], sizes_[i + 1]);
  }
  parameters_.resize(count);
}

Mlp::Mlp(std::vector<int> sizes, Random& random, float last_scale) : Mlp(std::move(sizes)) {
  for (std::size_t i = 0; i < layers(); ++i) {
    const double bound = 1 / std::sqrt(static_cast<double>(sizes_[i]));
    const float scale = i + 1 == layers() ? last_scale : 1;
    const std::size_t count = ParametersOf(sizes_[i], sizes_[i + 1]);
    for (std::size_t j = 0; j < count; ++j) {
      parameters_[offsets_[i] + j] = scale * static_cast<float>(random.Uniform(-bound, bound));
    }
  }
}

Matrix Mlp::Forward(const Matrix& in, Tape* tape) const {
  LAGOON_CHECK(in.cols() == sizes_.front());
  if (tape != nullptr) {
    tape->layers.resize(sizes_.size());
    tape->layers.front() = in;
  }
  Matrix values = in;
  for (std::size_t i = 0; i < layers(); ++i) {
    const int inputs = sizes_[i], outputs = sizes_[i + 1];
    const float* weights = parameters_.data() + offsets_[i];
    Matrix next(values.rows(), outputs);
    Multiply(ViewOf(values), {weights, inputs, outputs, outputs, 1}, next.data());
    const float* biases = weights + static_cast<std::ptrdiff_t>(inputs) * outputs;
    next.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(biases, outputs);
    if (i + 1 < layers()) next = next.cwiseMax(0.0F);
    values = std::move(next);
    if (tape != nullptr) tape->layers[i + 1] = values;
  }
  return values;
}

void Mlp::Backward(const Tape& tape, const Matrix& dout, std::vector<float>* gradient,
                   Matrix* din) const {
  LAGOON_CHECK(tape.layers.size() == sizes_.size());
  LAGOON_CHECK(dout.cols() == sizes_.back() && dout.rows() == tape.layers.back().rows());
  if (gradient != nullptr) gradient->resize(parameters_.size());
  Matrix derivative = dout;
  for (std::size_t i = layers(); i-- > 0;) {
    const Matrix& input = tape.layers[i];
    const int inputs = sizes_[i], outputs = sizes_[i + 1];
    if (gradient != nullptr) {
      float* weights = gradient->data() + offsets_[i];
      Multiply(ViewOf(input).Transposed(), ViewOf(derivative), weights);
      float* biases = weights + static_cast<std::ptrdiff_t>(inputs) * outputs;
      Eigen::Map<Eigen::RowVectorXf>(biases, outputs) = derivative.colwise().sum();
    }
    if (i == 0 && din == nullptr) return;
    const MatrixView weights{parameters_.data() + offsets_[i], inputs, outputs, outputs, 1};
    Matrix before(derivative.rows(), inputs);
    Multiply(ViewOf(derivative), weights.Transposed(), before.data());
    // Behind a ReLU: where its output is 0, nothing passes.
    if (i > 0) before = (input.array() > 0.0F).select(before, 0.0F);
    derivative = std::move(before);
  }
  *din = std::move(derivative);
}

void MoveTowards(const Mlp& source, float rate, Mlp* target) {
  LAGOON_CHECK(source.sizes() == target->sizes());
  const std::span<const float> from = source.parameters();
  const std::span<float> to = target->parameters();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += rate * (from[i] - to[i]);
}

}  // namespace lagoon::learn

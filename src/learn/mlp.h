#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/random.h"
#include "learn/matrix.h"

namespace lagoon::learn {

/// What a forward pass leaves for the backward pass: the input, then the output of each layer.
struct Tape {
  std::vector<Matrix> layers;
};

/// Fully connected layers with ReLU between them; the last layer is linear. Copyable. Methods that
/// are const may run on several threads.
class Mlp {
 public:
  /// `sizes`: inputs, hidden layers, outputs; at least two, each at least 1. All parameters are
  /// drawn uniformly from +- 1 / sqrt(inputs of the layer), those of the last layer times
  /// `last_scale`.
  Mlp(std::vector<int> sizes, Random& random, float last_scale = 1);
  /// With all parameters 0.
  explicit Mlp(std::vector<int> sizes);

  /// `in`: samples x inputs. Returns samples x outputs. `tape`: null, or filled for Backward().
  Matrix Forward(const Matrix& in, Tape* tape = nullptr) const;
  /// `dout`: the derivative of a loss by the outputs of the pass that filled `tape`. `gradient`:
  /// null, or set to the derivative by parameters(), summed up over the samples. `din`: null, or
  /// set to the derivative by the inputs.
  void Backward(const Tape& tape, const Matrix& dout, std::vector<float>* gradient,
                Matrix* din) const;

  const std::vector<int>& sizes() const { return sizes_; }
  /// Layer by layer: the weights (inputs x outputs, row-major), then the biases.
  std::span<const float> parameters() const { return parameters_; }
  std::span<float> parameters() { return parameters_; }

 private:
  std::size_t layers() const { return sizes_.size() - 1; }

  std::vector<int> sizes_;
  std::vector<std::size_t> offsets_;  // of each layer in parameters_
  std::vector<float> parameters_;
};

/// target += rate (source - target), for all parameters; both of the same sizes.
void MoveTowards(const Mlp& source, float rate, Mlp* target);

}  // namespace lagoon::learn

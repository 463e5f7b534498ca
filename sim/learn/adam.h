#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lagoon::learn {

class StateReader;
class StateWriter;

/// Adam (Kingma and Ba 2015) with beta 0.9 and 0.999, epsilon 1e-8, as in PyTorch.
class Adam {
 public:
  /// `count`: of the parameters.
  Adam(std::size_t count, float rate) : rate_(rate), first_(count), second_(count) {}

  /// Moves `parameters` against `gradient`; both of `count` elements.
  void Step(std::span<float> parameters, std::span<const float> gradient);

  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);

 private:
  float rate_;
  std::uint64_t steps_ = 0;
  std::vector<float> first_, second_;  // moments
};

}  // namespace lagoon::learn

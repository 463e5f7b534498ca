#include "sim/learn/adam.h"

#include <cmath>

#include "base/check.h"
#include "sim/learn/state_file.h"

namespace lagoon::learn {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
constexpr float kEpsilon = 1e-8F;

}  // namespace

void Adam::Step(std::span<float> parameters, std::span<const float> gradient) {
  LAGOON_CHECK(parameters.size() == first_.size() && gradient.size() == first_.size());
  ++steps_;
  const auto steps = static_cast<double>(steps_);
  const auto rate = static_cast<float>(rate_ / (1 - std::pow(kBeta1, steps)));
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, steps)));
  constexpr auto kOld1 = static_cast<float>(kBeta1), kNew1 = static_cast<float>(1 - kBeta1);
  constexpr auto kOld2 = static_cast<float>(kBeta2), kNew2 = static_cast<float>(1 - kBeta2);
  for (std::size_t i = 0; i < first_.size(); ++i) {
    first_[i] = kOld1 * first_[i] + kNew1 * gradient[i];
    second_[i] = kOld2 * second_[i] + kNew2 * gradient[i] * gradient[i];
    parameters[i] -= rate * first_[i] / (std::sqrt(second_[i]) * root + kEpsilon);
  }
}

void Adam::Save(StateWriter& writer) const {
  writer.Number(steps_);
  writer.Floats(first_);
  writer.Floats(second_);
}

void Adam::Load(StateReader& reader) {
  steps_ = reader.Number();
  reader.Floats(first_);
  reader.Floats(second_);
}

}  // namespace lagoon::learn

#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "program/split/split_model.h"

namespace lagoon::testing {

/// A model of `ops` ops like those of deep networks: a few ops take most of the time, and what
/// crosses a position gets less from front to back. In mode kOnnx a call takes 2 % of the time.
inline SplitModel RandomSplitModel(std::uint32_t seed, std::uint32_t ops, CutMode mode) {
  Random random(seed);
  SplitModel model;
  model.cost.mode = mode;
  model.boundary_bytes = {0};
  double whole_us = 0;
  for (std::uint32_t i = 0; i < ops; ++i) {
    const double rest = 1 - static_cast<double>(i) / ops;
    model.op_us.push_back(20 + 60 * std::exp2(2 * random.Normal()));
    whole_us += model.op_us.back();
    model.boundary_bytes.push_back(3e6 * (0.1 + rest) * random.Uniform(0.2, 1.5));
  }
  model.cost.session_us = 0.02 * whole_us;
  model.cost.bytes_per_us = 4000;
  return model;
}

}  // namespace lagoon::testing

#pragma once

// What the outputs of a network mean as actions: the best of some, of which only the safe ones may
// be taken, and shares that add up to 1. Placing and training both go through here.

#include <cstdint>
#include <span>
#include <vector>

#include "learn/matrix.h"

namespace lagoon::learn {

/// Bit i: action i is safe. At least one is.
using ActionMask = std::uint32_t;

inline bool IsSafe(ActionMask mask, Eigen::Index action) { return ((mask >> action) & 1U) != 0; }

/// The action with the largest logit among the safe ones; the first of equals.
int BestAction(std::span<const float> logits, ActionMask mask);

/// The state of something that is shared out among slots. The actor's outputs are added to
/// `offsets`: a first guess, so that the actor learns what to correct.
struct ShareState {
  std::vector<float> features;
  std::vector<float> offsets;  // of each slot for the shares, then the levels of each slot
  std::vector<float> present;  // of each slot: 1, or 0; at least one is 1
};

/// Shares and levels of raw outputs (samples x outputs, offsets included): the softmax over the
/// slots that are present, then the sigmoid of the levels. What is not present gets 0. `present`:
/// samples x slots.
Matrix Squash(const Matrix& raw, const Matrix& present);

}  // namespace lagoon::learn

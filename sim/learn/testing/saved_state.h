#pragma once

#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>

#include "sim/learn/state_file.h"

namespace lagoon::learn::testing {

/// What `learner` saves.
template <typename Learner>
std::string StateOf(const Learner& learner) {
  std::stringstream stream;
  StateWriter writer(stream);
  learner.Save(writer);
  return stream.str();
}

/// The number `index` of `bytes`.
inline float FloatAt(const std::string& bytes, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace lagoon::learn::testing

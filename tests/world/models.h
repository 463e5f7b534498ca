#pragma once

// The models of the world, and what they compute.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/tensor.h"
#include "serving/core/request.h"

namespace lagoon::world {

/// Draws from a seed, equal on all machines.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Draw();
  /// In [0, count). `count` is at least 1.
  std::int64_t Below(std::int64_t count) {
    return static_cast<std::int64_t>(Draw() % static_cast<std::uint64_t>(count));
  }
  std::int64_t Between(std::int64_t from, std::int64_t to) { return from + Below(to - from + 1); }
  bool OneIn(std::int64_t count) { return Below(count) == 0; }

 private:
  std::uint64_t state_;
};

struct Output {
  std::string name;
  Dims dims;
  std::vector<float> values;
};

/// A request for a model, and what it should be answered.
struct Ask {
  InferRequest request;
  /// The right answer if the model adds `constant`.
  std::function<std::vector<Output>(float constant)> right;
  std::string wrong;  // not empty: what is wrong with the request
};

/// Names of all models.
const std::vector<std::string>& ModelNames();
/// What is known of a model's requests.
struct Traits {
  bool batches = false;      // they may be joined
  bool opaque = false;       // its kernel cannot be interrupted
  bool program = false;      // cannot be loaded anew
  bool other_shapes = true;  // takes shapes that are not configured
};
Traits TraitsOf(const std::string& model);

/// How a model is configured. The same number gives the same configuration.
struct Config {
  std::uint64_t number = 0;
  bool may_fix_share = false;  // the device has room for a fixed share of the model
};

/// Writes the model, which adds `constant`, into the folder of a repository.
void WriteModel(const std::string& folder, const std::string& model, float constant,
                const Config& config);
/// Most requests of a model that may wait.
inline constexpr std::size_t kMostWaiting = 12;

/// `number` stands for the contents and for whether the request is wrong. The request's arrival is
/// not set.
Ask MakeAsk(const std::string& model, std::uint64_t number);

}  // namespace lagoon::world

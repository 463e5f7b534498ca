#pragma once

#include <optional>

namespace lagoon {

/// An exponentially weighted moving average. The first value starts the average.
class Ewma {
 public:
  /// `weight`: of a new value, above 0 and at most 1.
  explicit Ewma(double weight) : weight_(weight) {}

  /// Returns the average with the new value.
  double Add(double value) {
    average_ = average_ ? *average_ + weight_ * (value - *average_) : value;
    return *average_;
  }
  std::optional<double> value() const { return average_; }
  void Reset() { average_.reset(); }

 private:
  double weight_;
  std::optional<double> average_;
};

}  // namespace lagoon

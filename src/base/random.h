#pragma once

#include <cstdint>
#include <random>

namespace lagoon {

/// Draws that are equal on all machines, which those of <random>'s distributions are not.
class Random {
 public:
  explicit Random(std::uint32_t seed) : generator_(seed) {}

  /// In [0, 1).
  double Uniform() { return static_cast<double>(generator_()) * 0x1p-32; }
  double Uniform(double from, double to) { return from + (to - from) * Uniform(); }

  /// In [0, count). `count` is at least 1.
  std::uint32_t Below(std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{generator_()} * count) >> 32);
  }

  bool Happens(double probability) { return Uniform() < probability; }

  /// Close to a standard normal distribution: the sum of 12 uniform draws. Without functions of the
  /// C library, whose last bits differ.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  std::mt19937 generator_;  // gives 32 bits
};

}  // namespace lagoon

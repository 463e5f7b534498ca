#pragma once

// For tests: the longest stretch between two guard checks of a kernel.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

#include "device/block.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_SLOW_BUILD 1
#endif
#endif

namespace lagoon::testing {

inline constexpr double kLimitUs = 20;
inline constexpr int kMinRepetitions = 5, kMaxRepetitions = 60;

/// Time of this thread alone: others on the machine do not count.
inline double ThreadUs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

class Stretches final : public CheckProbe {
 public:
  void Start() {
    longest_ = 0;
    last_ = ThreadUs();
  }
  bool OnCheck() override {
    Mark();
    last_ = ThreadUs();
    return false;
  }
  double Finish() {
    Mark();
    return longest_;
  }

 private:
  void Mark() { longest_ = std::max(longest_, ThreadUs() - last_); }

  double last_ = 0, longest_ = 0;
};

/// The longest stretch of any block. Caches and interrupts disturb single runs, so a block counts
/// with its best of several; all blocks run in order each time, so that operands lie where a model
/// leaves them.
template <typename Bound>
double LongestStretchUs(Bound& bound) {
  std::vector<double> best(bound.kernel().blocks, 1e9);
  double longest = 0;
  for (int repetition = 0; repetition < kMaxRepetitions; ++repetition) {
    for (std::uint32_t block = 0; block < bound.kernel().blocks; ++block) {
      Stretches stretches;
      stretches.Start();
      bound.RunBlock(block, &stretches);
      best[block] = std::min(best[block], stretches.Finish());
    }
    longest = *std::max_element(best.begin(), best.end());
    if (repetition + 1 >= kMinRepetitions && longest < kLimitUs) break;
  }
  return longest;
}

}  // namespace lagoon::testing

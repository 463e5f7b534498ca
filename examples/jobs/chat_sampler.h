#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace chat {

// How a request chooses its tokens.
class Sampler {
 public:
  Sampler(float temperature, float top_p, std::int64_t seed)
      : temperature_(temperature), top_p_(top_p), random_(static_cast<std::uint64_t>(seed)) {}

  /// The next token; -1: the logits are no numbers.
  std::int64_t Choose(std::span<const float> logits) {
    const auto best = std::ranges::max_element(logits);
    if (!std::isfinite(*best)) return -1;
    if (temperature_ <= 0) return best - logits.begin();
    candidates_.clear();
    double sum = 0;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double weight = std::exp((static_cast<double>(logits[id]) - *best) / temperature_);
      sum += weight;
      candidates_.emplace_back(weight, static_cast<std::int64_t>(id));
    }
    if (!std::isfinite(sum)) return -1;
    return Draw(sum);
  }

 private:
  // One of the most probable candidates, which have top_p of the sum together.
  std::int64_t Draw(double sum) {
    double room = sum;
    std::size_t kept = candidates_.size();
    if (top_p_ < 1) {
      // Equal weights: the lower id goes first, so that a seed gives the same text everywhere.
      const auto less = [](const auto& a, const auto& b) {
        return a.first < b.first || (a.first == b.first && a.second > b.second);
      };
      std::ranges::make_heap(candidates_, less);
      room = 0;
      for (kept = 0; kept == 0 || (room < top_p_ * sum && kept < candidates_.size()); ++kept) {
        std::pop_heap(candidates_.begin(), candidates_.end() - static_cast<std::ptrdiff_t>(kept),
                      less);
        room += candidates_[candidates_.size() - 1 - kept].first;
      }
    }
    double left = room * static_cast<double>(random_() >> 11) * 0x1p-53;
    const std::size_t first = candidates_.size() - kept;
    for (std::size_t i = candidates_.size() - 1; i > first; --i) {
      left -= candidates_[i].first;
      if (left < 0) return candidates_[i].second;
    }
    return candidates_[first].second;
  }

  const double temperature_, top_p_;
  std::mt19937_64 random_;
  std::vector<std::pair<double, std::int64_t>> candidates_;
};

}  // namespace chat

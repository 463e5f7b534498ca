#pragma once

// How even the parts of a model are, and what they cost (SPLIT 3.1 and 3.3).

#include <cstdint>
#include <span>
#include <vector>

#include "program/split/split_model.h"

namespace lagoon {

struct SplitShape {
  std::vector<double> part_us;  // time of each part
  double mean_us = 0;           // of the parts
  double sigma_us = 0;          // standard deviation of the parts' times
  double overhead = 0;          // time of all parts by that of the whole model, less 1
  double range = 0;             // (longest part - shortest part) / mean
  double fitness = 0;           // SplitFitness()
  double wait_us = 0;           // MeanWait()
};

/// Eq. 2 of SPLIT: at most 0, and larger is better. `whole_us`: time of the model in one part.
/// `overhead`: a ratio, 0.154 for 15.4 %.
double SplitFitness(double sigma_us, double overhead, double whole_us, std::uint32_t parts);

/// Eq. 1 of SPLIT: how long a request waits on average for the end of the part that it meets, if it
/// arrives while the model runs.
double MeanWait(double sigma_us, double mean_us);

/// The costs of all possible parts of one model. Borrows nothing.
class PartCosts {
 public:
  /// `model` has at least one op, boundary bytes for each position or none, and in mode kOnnx a
  /// bandwidth above 0.
  explicit PartCosts(const SplitModel& model);

  std::uint32_t ops() const { return static_cast<std::uint32_t>(before_us_.size() - 1); }

  /// Time of the model in one part: of its ops and, in mode kOnnx, of one call.
  double whole_us() const { return before_us_.back() + session_us_; }

  /// Time of the ops before op `position` (0 <= position <= ops()).
  double BeforeUs(std::uint32_t position) const { return before_us_[position]; }

  /// Time to copy what crosses the position, once. 0 at both ends of the model.
  double CrossUs(std::uint32_t position) const { return cross_us_[position]; }

  /// Time of one call of the engine, in mode kOnnx.
  double CallUs() const { return session_us_; }

  /// Time of the part with the ops [begin, end). A bubble is not time of a part.
  double PartUs(std::uint32_t begin, std::uint32_t end) const {
    return before_us_[end] - before_us_[begin] + cross_us_[begin] + cross_us_[end] + session_us_;
  }

  /// `ends`: as Plan::part_ends, not empty.
  SplitShape Shape(std::span<const std::uint32_t> ends) const;
  /// Shape(ends).fitness without allocation.
  double Fitness(std::span<const std::uint32_t> ends) const;

 private:
  struct Sums;
  Sums SumsOf(std::span<const std::uint32_t> ends) const;

  std::vector<double> before_us_;  // ops() + 1
  std::vector<double> cross_us_;   // ops() + 1
  double session_us_ = 0;
  double bubble_us_ = 0;
};

/// Whether `ends` are ends of parts of `ops` ops: ascending, without an empty part, the last is
/// `ops`.
bool ArePartEnds(std::span<const std::uint32_t> ends, std::size_t ops);

}  // namespace lagoon

#include "program/split/split_shape.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lagoon {

double SplitFitness(double sigma_us, double overhead, double whole_us, std::uint32_t parts) {
  return -(std::expm1(sigma_us / whole_us) + std::expm1(overhead / parts));
}

double MeanWait(double sigma_us, double mean_us) {
  return (sigma_us * sigma_us / mean_us + mean_us) / 2;
}

PartCosts::PartCosts(const SplitModel& model) : cross_us_(model.op_us.size() + 1) {
  LAGOON_CHECK(!model.op_us.empty());
  LAGOON_CHECK(model.boundary_bytes.empty() ||
               model.boundary_bytes.size() == model.op_us.size() + 1);
  constexpr double kLeastUs = 1e-3;  // so that a model whose ops take no time has a whole to share
  before_us_ = {0};
  for (const double op_us : model.op_us) {
    before_us_.push_back(before_us_.back() + std::max(op_us, kLeastUs));
  }
  if (model.cost.mode == CutMode::kPlan) {
    bubble_us_ = model.cost.bubble_us;
    return;
  }
  session_us_ = model.cost.session_us;
  LAGOON_CHECK(model.cost.bytes_per_us > 0);
  for (std::size_t p = 1; p + 1 < model.boundary_bytes.size(); ++p) {
    cross_us_[p] = model.boundary_bytes[p] / model.cost.bytes_per_us;
  }
}

struct PartCosts::Sums {
  double mean = 0;
  double sigma = 0;
  double overhead = 0;
};

PartCosts::Sums PartCosts::SumsOf(std::span<const std::uint32_t> ends) const {
  double sum = 0;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    sum += PartUs(begin, end);
    begin = end;
  }
  const auto parts = static_cast<double>(ends.size());
  const double mean = sum / parts;
  double squares = 0;
  begin = 0;
  for (const std::uint32_t end : ends) {
    const double distance = PartUs(begin, end) - mean;
    squares += distance * distance;
    begin = end;
  }
  const double bubbles = (parts - 1) * bubble_us_;
  return {mean, std::sqrt(squares / parts), (sum + bubbles) / whole_us() - 1};
}

double PartCosts::Fitness(std::span<const std::uint32_t> ends) const {
  const Sums sums = SumsOf(ends);
  return SplitFitness(sums.sigma, sums.overhead, whole_us(),
                      static_cast<std::uint32_t>(ends.size()));
}

SplitShape PartCosts::Shape(std::span<const std::uint32_t> ends) const {
  const Sums sums = SumsOf(ends);
  SplitShape shape;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    shape.part_us.push_back(PartUs(begin, end));
    begin = end;
  }
  const auto [least, most] = std::ranges::minmax(shape.part_us);
  shape.mean_us = sums.mean;
  shape.sigma_us = sums.sigma;
  shape.overhead = sums.overhead;
  shape.range = (most - least) / sums.mean;
  shape.fitness =
      SplitFitness(sums.sigma, sums.overhead, whole_us(), static_cast<std::uint32_t>(ends.size()));
  shape.wait_us = MeanWait(sums.sigma, sums.mean);
  return shape;
}

bool ArePartEnds(std::span<const std::uint32_t> ends, std::size_t ops) {
  if (ends.empty() || ends.front() == 0 || ends.back() != ops) return false;
  return std::ranges::adjacent_find(ends, std::greater_equal<>()) == ends.end();
}

}  // namespace lagoon

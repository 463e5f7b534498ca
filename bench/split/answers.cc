#include "bench/split/answers.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace lagoon::bench {
namespace {

constexpr double kUnknownFigure = std::numeric_limits<double>::quiet_NaN();

std::size_t CountRequests(const SplitAnswers& answers) {
  std::size_t all = 0;
  for (const ModelAnswers& model : answers) all += model.latencies_ms.size() + model.refused;
  return all;
}

}  // namespace

void AddAnswers(const SplitAnswers& more, SplitAnswers& all) {
  if (all.empty()) all.resize(more.size());
  LAGOON_CHECK(all.size() == more.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].latencies_ms.insert(all[i].latencies_ms.end(), more[i].latencies_ms.begin(),
                               more[i].latencies_ms.end());
    all[i].refused += more[i].refused;
  }
}

double ViolationRate(const SplitAnswers& answers, std::span<const double> alone_ms, double alpha) {
  LAGOON_CHECK(answers.size() == alone_ms.size());
  const std::size_t all = CountRequests(answers);
  if (all == 0) return kUnknownFigure;
  std::size_t late = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    late += answers[i].refused;
    for (const double ms : answers[i].latencies_ms) late += ms > alpha * alone_ms[i] ? 1 : 0;
  }
  return static_cast<double>(late) / static_cast<double>(all);
}

double RefusedPart(const SplitAnswers& answers) {
  const std::size_t all = CountRequests(answers);
  if (all == 0) return kUnknownFigure;
  std::size_t refused = 0;
  for (const ModelAnswers& model : answers) refused += model.refused;
  return static_cast<double>(refused) / static_cast<double>(all);
}

double StandardDeviation(std::span<const double> values) {
  if (values.empty()) return kUnknownFigure;
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

double ShortJitterMs(const SplitAnswers& answers, std::span<const SplitModelName> models) {
  LAGOON_CHECK(answers.size() == models.size());
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (!models[i].is_short) continue;
    sum += StandardDeviation(answers[i].latencies_ms);
    ++count;
  }
  return count == 0 ? kUnknownFigure : sum / count;
}

std::vector<double> ResponseRatios(const SplitAnswers& answers, std::span<const double> alone_ms) {
  LAGOON_CHECK(answers.size() == alone_ms.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    for (const double ms : answers[i].latencies_ms) ratios.push_back(ms / alone_ms[i]);
  }
  return ratios;
}

}  // namespace lagoon::bench

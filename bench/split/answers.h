#pragma once

// What became of the requests of a window, and the figures of SPLIT that follow (5.2).

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lagoon::bench {

/// A model of SPLIT's Table 1, or one in its place.
struct SplitModelName {
  std::string name;
  bool is_short = false;  // the paper's type: its jitter is what SPLIT reduces
};

/// The requests of one model.
struct ModelAnswers {
  std::vector<double> latencies_ms;  // of answered requests, from the intended arrival
  std::size_t refused = 0;           // not answered: refused at admission, or too late
};

/// By model.
using SplitAnswers = std::vector<ModelAnswers>;

/// Appends the requests of `more`, which has the same models, or any if `all` is empty.
void AddAnswers(const SplitAnswers& more, SplitAnswers& all);

/// The part of all requests that take longer than `alpha` times their model alone, or have no
/// answer. `alone_ms`: by model. NaN without requests.
double ViolationRate(const SplitAnswers& answers, std::span<const double> alone_ms, double alpha);

/// The part of all requests that have no answer. NaN without requests.
double RefusedPart(const SplitAnswers& answers);

/// Standard deviation of all values (not of a sample). NaN without values.
double StandardDeviation(std::span<const double> values);

/// Jitter of the short models: the mean over them of the standard deviation of the latency, in
/// milliseconds. NaN if one of them has no answers.
double ShortJitterMs(const SplitAnswers& answers, std::span<const SplitModelName> models);

/// Response ratios (latency over time alone) of all answered requests.
std::vector<double> ResponseRatios(const SplitAnswers& answers, std::span<const double> alone_ms);

}  // namespace lagoon::bench

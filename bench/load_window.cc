#include "bench/load_window.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

// Uniform in (0, 1). Distributions of the standard libraries differ from each other.
double Uniform(std::mt19937& random) { return (random() + 0.5) / 4294967296.0; }

double Gap(const LoadShape& shape, std::mt19937& random) {
  if (shape.sigma == 0) return -std::log(Uniform(random));
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return std::exp(shape.sigma * radius * std::cos(2 * std::numbers::pi * Uniform(random)));
}

// The arrival of a job of a model. The mean gap of all arrivals is 1.
struct Arrival {
  double at;
  std::size_t model;
};
std::vector<Arrival> MakeArrivals(const std::vector<double>& shares, const LoadShape& shape) {
  std::mt19937 random(shape.seed);
  std::vector<Arrival> arrivals;
  double at = 0;
  for (int i = 0; i < shape.jobs; ++i) {
    at += Gap(shape, random);
    double dice = Uniform(random);
    std::size_t model = 0;
    while (model + 1 < shares.size() && dice >= shares[model]) dice -= shares[model++];
    arrivals.push_back({at, model});
  }
  for (Arrival& arrival : arrivals) arrival.at *= shape.jobs / at;
  return arrivals;
}

double Interpolate(double x, double x0, double y0, double x1, double y1) {
  if (x0 == x1 || y0 <= 0 || y1 <= 0 || x0 <= 0) return y1;
  const double part = std::log(x / x0) / std::log(x1 / x0);
  return y0 * std::pow(y1 / y0, part);
}

}  // namespace

DisbWindow MakeLoadWindow(const std::vector<double>& shares, const LoadShape& shape,
                          double per_second) {
  DisbWindow window;
  window.arrivals.resize(shares.size());
  for (const Arrival& arrival : MakeArrivals(shares, shape)) {
    const Seconds at(arrival.at / per_second);
    window.span = std::chrono::duration_cast<Nanoseconds>(at) + Nanoseconds(1);
    window.arrivals[arrival.model].push_back(std::chrono::duration_cast<Nanoseconds>(at));
  }
  return window;
}

double LoadAt(const std::vector<LoadPoint>& points, double limit) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].value <= limit) continue;
    if (i == 0) return points[0].load;
    const LoadPoint &below = points[i - 1], &above = points[i];
    return Interpolate(limit, below.value, below.load, above.value, above.load);
  }
  return points.back().load;
}

double ValueAt(const std::vector<LoadPoint>& points, double load) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].load < load) continue;
    if (i == 0) return points[0].value;
    const LoadPoint &below = points[i - 1], &above = points[i];
    return Interpolate(load, below.load, below.value, above.load, above.value);
  }
  return points.back().value;
}

}  // namespace lagoon::bench

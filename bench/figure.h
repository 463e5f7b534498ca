#pragma once

// A figure of a paper as we get it on simulated devices: series to draw, and numbers to compare.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

struct FigureSeries {
  std::string name;
  std::vector<double> x, y;  // of bars: x is the index of the group
};

struct FigurePanel {
  std::string title, x, y;          // what the axes say, units included
  std::vector<std::string> groups;  // of bars; empty: lines
  bool log_x = false, log_y = false;
  std::vector<FigureSeries> series = {};

  /// Adds a point to the series of that name.
  void Add(const std::string& name, double at, double value);
};

/// One published number, or a range, and ours.
struct FigureNumber {
  std::string metric;  // name with unit
  double least = 0, most = 0;
  double got = 0;
  std::string source;  // section
};

struct Figure {
  std::vector<FigurePanel> panels;
  std::vector<FigureNumber> numbers;                     // with one of the paper's
  std::vector<std::pair<std::string, double>> findings;  // without: the figure has no text

  void Compare(std::string metric, double paper, double got, std::string source) {
    numbers.push_back({std::move(metric), paper, paper, got, std::move(source)});
  }
  void CompareRange(std::string metric, std::pair<double, double> paper, double got,
                    std::string source) {
    numbers.push_back({std::move(metric), paper.first, paper.second, got, std::move(source)});
  }
  void Find(std::string metric, double got) { findings.emplace_back(std::move(metric), got); }
};

struct FigureOptions {
  unsigned seed = 1;  // of arrivals and moments
  double effort = 1;  // of the requests that a figure needs; less is faster and less sure
  /// `count` scaled by the effort, at least 3.
  int Scaled(int count) const;
};

}  // namespace lagoon::bench

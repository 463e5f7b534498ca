#pragma once

// A figure of a paper, reproduced on simulated devices: series to draw, and numbers to compare.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

struct FigureSeries {
  std::string name;
  std::vector<double> x, y;  // in a bar chart x is the index of the group
};

struct FigurePanel {
  std::string title, x, y;          // x, y: labels of the axes, with units
  std::vector<std::string> groups;  // of a bar chart; empty: a line chart
  bool log_x = false, log_y = false;
  std::vector<FigureSeries> series = {};

  /// Adds a point to the series `name`, which the first point creates.
  void Add(const std::string& name, double at, double value);
};

/// One published number (or range) beside ours.
struct FigureNumber {
  std::string metric;  // name with unit
  double least = 0, most = 0;
  double got = 0;
  std::string source;        // section
  bool gain = false;         // a factor of which it counts whether it is above 1
  std::string device = {};   // where we measured; may be empty: the title says it
  std::string verdict = {};  // empty: the distance from the paper's number says it
};

struct Figure {
  std::vector<FigurePanel> panels;
  std::vector<FigureNumber> numbers;                     // that the paper has too
  std::vector<std::pair<std::string, double>> findings;  // that the paper only draws

  void Compare(std::string metric, double paper, double got, std::string source) {
    numbers.push_back({std::move(metric), paper, paper, got, std::move(source), false, {}, {}});
  }
  /// `got` over 1 is the paper's direction if `paper` is over 1.
  void CompareGain(std::string metric, double paper, double got, std::string source) {
    numbers.push_back({std::move(metric), paper, paper, got, std::move(source), true, {}, {}});
  }
  void CompareRange(std::string metric, std::pair<double, double> paper, double got,
                    std::string source) {
    numbers.push_back(
        {std::move(metric), paper.first, paper.second, got, std::move(source), false, {}, {}});
  }
  /// Describes the number that was compared last.
  void Judge(std::string device, std::string verdict) {
    numbers.back().device = std::move(device);
    numbers.back().verdict = std::move(verdict);
  }
  void Find(std::string metric, double got) { findings.emplace_back(std::move(metric), got); }
};

struct FigureOptions {
  unsigned seed = 1;  // for arrivals and moments of preemption
  double effort = 1;  // scales the number of requests: less is faster and less certain
  /// `count` scaled by the effort, at least 3.
  int Scaled(int count) const;
};

}  // namespace lagoon::bench

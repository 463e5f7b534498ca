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
  std::string source;  // section
  /// A factor whose distance from 1 counts, such as a gain or a slow-down: 1.1 is far from 1.5.
  bool gain = false;
  /// The paper's number is an input of ours, or a constant was calibrated on it: no prediction.
  bool set = false;
  std::string device = {};   // where we measured; may be empty: the title says it
  std::string verdict = {};  // empty: the distance from the paper's number says it
};

struct Figure {
  std::vector<FigurePanel> panels;
  std::vector<FigureNumber> numbers;                     // that the paper has too
  std::vector<std::pair<std::string, double>> findings;  // that the paper does not give
  std::vector<std::pair<std::string, double>> inputs;    // settings that the paper's text names

  void Compare(std::string metric, double paper, double got, std::string source) {
    CompareRange(std::move(metric), {paper, paper}, got, std::move(source));
  }
  void CompareGain(std::string metric, double paper, double got, std::string source) {
    CompareGainRange(std::move(metric), {paper, paper}, got, std::move(source));
  }
  void CompareRange(std::string metric, std::pair<double, double> paper, double got,
                    std::string source) {
    numbers.push_back({std::move(metric), paper.first, paper.second, got, std::move(source)});
  }
  void CompareGainRange(std::string metric, std::pair<double, double> paper, double got,
                        std::string source) {
    CompareRange(std::move(metric), paper, got, std::move(source));
    numbers.back().gain = true;
  }
  /// Describes the number that was compared last.
  void Judge(std::string device, std::string verdict) {
    numbers.back().device = std::move(device);
    numbers.back().verdict = std::move(verdict);
  }
  /// The number that was compared last is no prediction; `why` follows "set: " in its verdict.
  void Set(const std::string& why) {
    numbers.back().set = true;
    numbers.back().verdict = "set: " + why;
  }
  void Find(std::string metric, double got) { findings.emplace_back(std::move(metric), got); }
  void Input(std::string name, double value) { inputs.emplace_back(std::move(name), value); }
};

struct FigureOptions {
  unsigned seed = 1;  // for arrivals and moments of preemption
  double effort = 1;  // scales the number of requests: less is faster and less certain
  /// `count` scaled by the effort, at least 3.
  int Scaled(int count) const;
};

}  // namespace lagoon::bench

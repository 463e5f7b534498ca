#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/papers/figure.h"
#include "bench/report/report.h"

namespace lagoon::bench {

/// A figure of a paper, or the reason why a simulated device cannot reproduce it.
struct FigureInfo {
  std::string_view name;                                          // "reef-17"
  std::string_view title;                                         // figure, subject, device
  Result<Figure> (*run)(const FigureOptions& options) = nullptr;  // null: cannot be reproduced
  std::string_view refused = {};                                  // the reason if `run` is null
};

/// The verdict of the number itself, if it has one. Else "reproduced within N %" up to 25 % from
/// the paper's number or range, N rounded up; "direction only" for a gain that is on the same side
/// of 1 as the paper's; and "not reproduced". Of a gain its distance from 1 counts: 1.1 for 1.5 is
/// 80 % off. A gain that differs by 1 % of the whole or less is "reproduced within 1 %".
std::string VerdictOf(const FigureNumber& number);

/// All figures, in the order in which they run.
std::span<const FigureInfo> FigureTable();

struct FiguresOptions : FigureOptions {
  std::vector<std::string> only;  // empty: all that can run
  std::string paper = {};         // "gslice", "paella" or "reef"; empty: all. Not if `only` is set
};

/// Runs figures on simulated devices. Metrics: FIGURE.METRIC for every number and finding. The
/// field "figures" lists {"name", "title", "panels", "paper": [{"metric", "paper", "got",
/// "off_percent", "set", "gain", "verdict", "source"}], "findings": [[metric, number]], "inputs":
/// [[name, number]]}, with four digits, so that the field is the same on any machine. With a paper,
/// the field "refused" lists its figures that cannot run, with the reason. `table` becomes a table
/// "paper says / we got" for people. kInvalidArgument: an unknown figure or paper (named), or a
/// refused one (with the reason).
Status RunFigures(const FiguresOptions& options, Report& report, std::string& table);

}  // namespace lagoon::bench

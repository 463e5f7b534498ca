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

/// All figures, in the order in which they run.
std::span<const FigureInfo> FigureTable();

struct FiguresOptions : FigureOptions {
  std::vector<std::string> only;  // empty: all that can run
  std::string paper;              // not empty: only figures named PAPER-*; not with `only`
};

/// Runs figures on simulated devices. Metrics: FIGURE.METRIC for every number and finding. The
/// field "figures" lists {"name", "title", "panels", "paper": [{"metric", "paper", "got",
/// "off_percent", "source"}]}. `table` becomes a table "paper says / we got" for people. Fails with
/// kInvalidArgument for an unknown figure (naming it) or a refused one (with the reason).
Status RunFigures(const FiguresOptions& options, Report& report, std::string& table);

}  // namespace lagoon::bench

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figure.h"
#include "bench/report.h"

namespace lagoon::bench {

/// A figure of a paper, or why a simulated device cannot say anything about it.
struct FigureInfo {
  std::string_view name;                                          // "reef-17"
  std::string_view title;                                         // and the device
  Result<Figure> (*run)(const FigureOptions& options) = nullptr;  // null: it cannot
  std::string_view refused = {};
};

/// All that are known, in the order in which they run.
std::span<const FigureInfo> FigureTable();

struct FiguresOptions : FigureOptions {
  std::vector<std::string> only;  // empty: all that can run
};

/// Runs figures on simulated devices. Metrics: FIGURE.METRIC of every number and finding. The field
/// "figures" has for each {"name", "title", "panels", "paper": [{"metric", "paper", "got",
/// "off_percent", "source"}]}. `table` becomes "paper says / we got" for people. kInvalidArgument
/// names an unknown figure, or says why one is refused.
Status RunFigures(const FiguresOptions& options, Report& report, std::string& table);

}  // namespace lagoon::bench

#pragma once

// What REEF publishes of DISB, to print beside what we get.

#include <span>
#include <string>
#include <string_view>

#include "bench/report.h"

namespace lagoon::bench {

/// One published number; a range where the paper gives one.
struct DisbPaperNumber {
  std::string_view device;    // profile of the simulator
  std::string_view workload;  // A to E, REAL
  std::string_view scheduler;
  std::string_view metric;
  double least = 0, most = 0;
  std::string_view source;  // section
};

std::span<const DisbPaperNumber> DisbPaperNumbers();

/// Adds the field "paper" to the report of `device`: a list of {"metric", "paper", "got",
/// "off_percent", "source"}, for each published number whose metric the report has; `got` beyond
/// the nearer end of a range is off. `suffixed`: metrics name their workload, else all are of
/// `workload`. Returns the list as a table for people; empty: nothing is published.
std::string ComparePaper(const std::string& device, const std::string& workload, bool suffixed,
                         Report& report);

}  // namespace lagoon::bench

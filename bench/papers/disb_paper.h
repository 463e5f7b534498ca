#pragma once

// The numbers that REEF publishes for DISB, to print beside ours.

#include <span>
#include <string>
#include <string_view>

#include "bench/report/report.h"

namespace lagoon::bench {

/// One published number; a range where the paper gives one.
struct DisbPaperNumber {
  std::string_view device;    // GPU model of the simulator
  std::string_view workload;  // A to E, REAL
  std::string_view scheduler;
  std::string_view metric;
  double least = 0, most = 0;
  std::string_view source;  // section
};

std::span<const DisbPaperNumber> DisbPaperNumbers();

/// Adds the field "paper" to the report of `device`: a list of {"metric", "paper", "got",
/// "off_percent", "source"}, one for each published number whose metric the report has. For a
/// range, "off_percent" is the distance from its nearer end, 0 inside. `suffixed`: the names of
/// metrics end in their workload; else all metrics belong to `workload`. Returns the list as a
/// table for people; empty if the paper has no such number.
std::string ComparePaper(const std::string& device, const std::string& workload, bool suffixed,
                         Report& report);

}  // namespace lagoon::bench

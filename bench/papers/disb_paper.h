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
  bool set = false;         // a constant of the device was calibrated on the number
};

/// The name of `number` in a report, without the workload's suffix: with clients that take the
/// newest request, as DISB's do, if `metrics` has them for this workload.
std::string MetricOf(const DisbPaperNumber& number, const std::string& suffix,
                     const nlohmann::json& metrics);

std::span<const DisbPaperNumber> DisbPaperNumbers();

/// Compares the metrics of a report with the numbers that the paper published for `device`.
///
/// The report gets the field "paper". It is a list with one entry {"metric", "paper", "got",
/// "off_percent", "source"} for each published number whose metric is in the report. "off_percent"
/// says how far our value is from the paper's. Where the paper gives a range, it is the distance
/// from the nearer end of the range, and 0 inside the range.
///
/// `suffixed` says how the report names metrics. True: every name ends in its workload (".A"), and
/// `workload` is not used. False: all metrics belong to `workload`.
///
/// Returns the same list as a table to print; empty if no published number fits.
std::string ComparePaper(const std::string& device, const std::string& workload, bool suffixed,
                         Report& report);

}  // namespace lagoon::bench

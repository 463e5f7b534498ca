#include "cluster/share_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "cluster/knee.h"

namespace lagoon {
namespace {

// The shares that are measured if the user names none: close together where times fall fast.
constexpr std::array kPercents{10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 75.0, 100.0};

tl::unexpected<Error> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::vector<double>> ParsePercents(std::string_view text) {
  std::vector<double> percents;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    double percent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), percent);
    if (error != std::errc() || end != word.data() + word.size() || !(percent > 0) ||
        percent > 100) {
      return Wrong(fmt::format(
          "--shares: '{}' is no share: say percents of the device above 0 and at most 100, such as "
          "25,50,100",
          word));
    }
    percents.push_back(percent);
    if (comma == std::string_view::npos) return percents;
    text.remove_prefix(comma + 1);
  }
}

std::uint32_t UnitsOf(double percent, std::uint32_t units, std::uint32_t granule) {
  const double granules = std::ceil(percent / 100 * units / granule - 1e-9);
  return std::min(units, std::max(granule, static_cast<std::uint32_t>(granules) * granule));
}

// The shares of a table: those measured, and tenths of the device between them.
std::vector<std::uint32_t> Shown(const SharePoints& plan) {
  std::set<std::uint32_t> shown(plan.measured.begin(), plan.measured.end());
  for (int tenth = 1; tenth <= 10; ++tenth) {
    shown.insert(UnitsOf(tenth * 10, plan.units, plan.granule));
  }
  return {shown.begin(), shown.end()};
}

}  // namespace

Result<SharePoints> PlanShares(std::uint32_t units, std::uint32_t granule,
                               const std::string& percents, std::vector<std::int64_t> rows) {
  SharePoints plan{units, granule, {}, {}};
  if (rows.empty()) return Wrong("--rows names no number of rows");
  for (const std::int64_t one : rows) {
    if (one >= 1 && one <= kMostShareRows) continue;
    return Wrong(fmt::format("--rows: {} rows; a batch has 1 to {} rows", one, kMostShareRows));
  }
  std::vector<double> wanted(kPercents.begin(), kPercents.end());
  if (!percents.empty()) {
    LAGOON_ASSIGN_OR_RETURN(wanted, ParsePercents(percents));
  }
  std::set<std::uint32_t> measured;
  for (const double percent : wanted) measured.insert(UnitsOf(percent, units, granule));
  const std::set<std::int64_t> distinct(rows.begin(), rows.end());
  if (measured.size() * distinct.size() > kMostSharePoints) {
    return Wrong(fmt::format(
        "{} numbers of rows and {} shares are {} points, more than {}: name fewer; the shares "
        "between are interpolated",
        distinct.size(), measured.size(), measured.size() * distinct.size(), kMostSharePoints));
  }
  plan.rows.assign(distinct.begin(), distinct.end());
  plan.measured.assign(measured.begin(), measured.end());
  return plan;
}

Result<Surface> SurfaceOf(const SharePoints& plan, std::vector<std::vector<double>> latency_ms) {
  SurfacePoints points{plan.rows, {}, std::move(latency_ms)};
  for (const std::uint32_t units : plan.measured) {
    points.shares.push_back(static_cast<double>(units) / plan.units);
  }
  return Surface::FromPoints(std::move(points));
}

std::string ShareTable(const SharePoints& plan, const NamedSurface& named) {
  const Surface& surface = named.surface;
  std::string text = fmt::format(
      "model {} on {}: {} units, shares in steps of {}\n{:>6} {:>6} {:>6} {:>12} {:>12}\n",
      named.model, named.device, plan.units, plan.granule, "rows", "units", "share", "latency ms",
      "rows/s");
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    for (const std::uint32_t units : Shown(plan)) {
      const double share = static_cast<double>(units) / plan.units;
      const auto at = std::ranges::find(plan.measured, units);
      std::string_view note = at == plan.measured.end() ? "interpolated" : "";
      const double ms = surface.LatencyMs(plan.rows[i], share);
      if (at != plan.measured.end()) {
        const auto j = static_cast<std::size_t>(at - plan.measured.begin());
        if (std::abs(surface.points()->latency_ms[i][j] / ms - 1) > 0.01) note = "smoothed";
      }
      text += fmt::format("{:>6} {:>6} {:>5.0f}% {:>12.3f} {:>12.1f} {}\n", plan.rows[i], units,
                          share * 100, ms, surface.Throughput(plan.rows[i], share), note);
    }
  }
  if (plan.measured.size() == 1) return text + "no knee: only one share was measured\n";
  const std::uint32_t granules = (plan.units + plan.granule - 1) / plan.granule;
  for (const std::int64_t rows : plan.rows) {
    const std::uint32_t knee = std::min(plan.units, Knee(surface, rows, granules) * plan.granule);
    text += fmt::format("knee at {} rows: {} units, {:.0f} % of the device\n", rows, knee,
                        100.0 * knee / plan.units);
  }
  return text;
}

}  // namespace lagoon

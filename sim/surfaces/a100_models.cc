#include "sim/surfaces/a100_models.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;

constexpr A100Model kModels[] = {
    {"A", "AlexNet", milliseconds(10), 0.35, 0.45, 244'000'000, 8'000'000},
    {"R", "ResNet-50", milliseconds(35), 0.50, 0.55, 102'000'000, 40'000'000},
    {"V", "VGG-16", milliseconds(65), 0.60, 0.75, 553'000'000, 60'000'000},
    {"M", "MnasNet", milliseconds(10), 0.30, 0.35, 17'000'000, 25'000'000},
    {"M1", "MobileNet", milliseconds(15), 0.30, 0.30, 14'000'000, 25'000'000},
    {"E", "EfficientNet", milliseconds(30), 0.40, 0.45, 21'000'000, 35'000'000},
    {"R1", "ResNet-18", milliseconds(15), 0.45, 0.45, 47'000'000, 15'000'000},
    {"V1", "VGG-19", milliseconds(80), 0.65, 0.80, 575'000'000, 60'000'000},
};

constexpr std::array<std::int64_t, 5> kRows = {1, 4, 8, 16, 32};
constexpr std::array<double, 8> kShares = {0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0};
using Times = std::array<double, kRows.size()>;  // ms, by number of rows

// Models whose times at 20 % are printed for several numbers of rows (Table 3). The times at 32
// rows, and A's at 32, continue the line of the last two.
struct ByRows {
  const char* name;
  Times at_20;
  double fixed;  // part of the time at the knee that no share shortens
  double knee;   // at 8 rows
};
constexpr ByRows kByRows[] = {
    {"A", {0.940, 1.773, 2.482, 3.976, 6.964}, 0.30, 0.30},
    {"R", {4.997, 6.809, 11.059, 19.533, 36.481}, 0.25, 0.60},
    {"V", {4.366, 11.180, 19.343, 36.688, 71.378}, 0.15, 0.80},
};

double FactorOfShare(const ByRows& model, std::int64_t rows, double share) {
  const double knee =
      std::min(1.0, model.knee * std::sqrt(std::sqrt(static_cast<double>(rows) / 8)));
  return model.fixed + (1 - model.fixed) * knee / std::min(share, knee);
}

// Models whose times at 8 rows are printed for several shares (Table 4), by kShares. The times at
// 10, 30, 50 and 60 % are the printed ones; 20 % follows the line in 1 / share through the printed
// ones, 5 % continues it, and beyond 60 % little is gained.
struct ByShare {
  const char* name;
  std::array<double, kShares.size()> at_8_rows;
  const char* rows_like;  // in kByRows
};
constexpr ByShare kByShare[] = {
    {"R1", {15.05, 7.884, 4.31, 3.113, 2.155, 2.004, 1.93, 1.90}, "R"},
    {"V1", {86.4, 43.645, 22.35, 15.213, 9.909, 9.161, 8.80, 8.60}, "V"},
};

// t = max(least, base + row * rows / share).
struct WithLeast {
  const char* name;
  double least, base, row;
};
constexpr WithLeast kWithLeast[] = {
    {"M", 3.63, 0.50, 0.0647},  // Table 4: 5.674 ms at 10 %, 3.63 from 30 % on
    {"M1", 2.50, 0.50, 0.0600},
    {"E", 6.50, 1.00, 0.1900},  // Table 4: 8.6 ms at 20 %
};

Surface MakeSurface(auto&& time) {
  SurfacePoints points;
  points.rows.assign(kRows.begin(), kRows.end());
  points.shares.assign(kShares.begin(), kShares.end());
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    std::vector<double>& line = points.latency_ms.emplace_back();
    for (std::size_t share = 0; share < kShares.size(); ++share) line.push_back(time(row, share));
  }
  auto surface = Surface::FromPoints(std::move(points));
  LAGOON_CHECK(surface.has_value());
  return *std::move(surface);
}

std::vector<std::pair<std::string_view, Surface>> MakeSurfaces() {
  std::vector<std::pair<std::string_view, Surface>> surfaces;
  for (const ByRows& model : kByRows) {
    surfaces.emplace_back(model.name, MakeSurface([&](std::size_t row, std::size_t share) {
                            return model.at_20[row] *
                                   FactorOfShare(model, kRows[row], kShares[share]) /
                                   FactorOfShare(model, kRows[row], 0.2);
                          }));
  }
  for (const ByShare& model : kByShare) {
    const ByRows& like =
        *std::ranges::find(kByRows, std::string_view(model.rows_like),
                           [](const ByRows& row) { return std::string_view(row.name); });
    surfaces.emplace_back(model.name, MakeSurface([&](std::size_t row, std::size_t share) {
                            return model.at_8_rows[share] * like.at_20[row] / like.at_20[2];
                          }));
  }
  for (const WithLeast& model : kWithLeast) {
    surfaces.emplace_back(
        model.name, MakeSurface([&](std::size_t row, std::size_t share) {
          return std::max(model.least, model.base + model.row * static_cast<double>(kRows[row]) /
                                                        kShares[share]);
        }));
  }
  return surfaces;
}

}  // namespace

std::span<const A100Model> A100Models() { return kModels; }

const Surface& A100Surface(std::string_view name) {
  static const auto* const surfaces = new auto(MakeSurfaces());
  const auto found =
      std::ranges::find(*surfaces, name, [](const auto& named) { return named.first; });
  LAGOON_CHECK(found != surfaces->end());
  return found->second;
}

}  // namespace lagoon

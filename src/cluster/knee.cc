#include "cluster/knee.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"
#include "cluster/checks.h"
#include "cluster/monotone.h"

namespace lagoon {
namespace {

constexpr double kFlat = 1.05;     // the whole device by the least share, below which all is flat
constexpr double kFurther = 0.10;  // part of the device
constexpr double kGain = 0.05;     // of throughput, for that part
constexpr double kRounding = 1e-9;

Status Check(std::span<const double> shares, std::span<const double> throughput) {
  if (shares.size() < 2 || shares.size() != throughput.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} shares and {} throughputs, must be as many and at least 2",
                            shares.size(), throughput.size()));
  }
  double before = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("a share", shares[i], {std::nextafter(before, 2.0), 1}));
    LAGOON_RETURN_IF_ERROR(CheckBounds("a throughput", throughput[i], {1e-300, 1e300}));
    before = shares[i];
  }
  return {};
}

// Kneedle: the index where the throughput, from 0 to 1, is farthest above the share, from 0 to 1.
std::size_t FarthestFromChord(std::span<const double> shares, std::span<const double> throughput) {
  const double rise = throughput.back() - throughput.front();
  std::size_t farthest = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double above = (throughput[i] - throughput.front()) / rise - shares[i] / shares.back();
    if (above > most + kRounding) {
      most = above;
      farthest = i;
    }
  }
  return farthest;
}

// Gpulet's rule: a share at most kFurther beyond index `from` that gains enough, if there is one.
// It looks beyond the next share, because throughput rises in steps: of blocks on units, or after
// smoothing.
std::optional<std::size_t> WorthMore(std::span<const double> shares,
                                     std::span<const double> throughput, std::size_t from) {
  for (std::size_t i = from + 1; i < shares.size(); ++i) {
    const double further = shares[i] - shares[from];
    if (further > kFurther + kRounding) break;
    const double gain = throughput[i] / throughput[from] - 1;
    if (gain >= kGain * further / kFurther - kRounding) return i;
  }
  return std::nullopt;
}

}  // namespace

Result<double> KneeOf(std::span<const double> shares, std::span<const double> throughput) {
  LAGOON_RETURN_IF_ERROR(Check(shares, throughput));
  const std::vector<double> smooth = Isotonic(throughput);
  if (smooth.back() < kFlat * smooth.front()) return shares.front();
  std::size_t knee = FarthestFromChord(shares, smooth);
  while (const auto more = WorthMore(shares, smooth, knee)) knee = *more;
  return shares[knee];
}

std::uint32_t Knee(const Surface& surface, std::int64_t rows, std::uint32_t granules) {
  constexpr std::uint32_t kMostGranules = 4096, kLeastPoints = 10;
  LAGOON_CHECK(granules >= 1 && granules <= kMostGranules);
  const std::uint32_t finer = (kLeastPoints + granules - 1) / granules;
  const std::uint32_t points = granules * finer;
  std::vector<double> shares, throughput;
  for (std::uint32_t i = 1; i <= points; ++i) {
    shares.push_back(static_cast<double>(i) / points);
    throughput.push_back(surface.Throughput(rows, shares.back()));
  }
  const auto knee = KneeOf(shares, throughput);
  LAGOON_CHECK(knee.has_value());
  return static_cast<std::uint32_t>(std::ceil(*knee * granules - kRounding));
}

}  // namespace lagoon

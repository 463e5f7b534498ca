#include "serving/fleet/fleet_shares.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cluster/shares.h"

namespace lagoon {
namespace {

struct Part {
  const ModelShare* now = nullptr;
  double part = 0;
  std::int64_t rows = 0;

  /// What the model has more than now; a share that the device tunes has no size yet.
  double Change() const { return now->fixed ? part - now->share.value_or(0) : part; }
};

/// Makes the parts whole granules of the device, if it has as many as models.
void Round(const SharesReport& report, std::vector<Part>& parts) {
  if (report.kind != ShareKind::kUnits) return;
  const std::uint32_t granules = (report.units + report.granule - 1) / report.granule;
  std::vector<double> exact;
  for (const Part& part : parts) exact.push_back(part.part * granules);
  const auto whole = ToGranules(exact, granules);
  if (!whole) return;  // more models than granules: the shares are weights
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].part = 1.0 * (*whole)[i] / granules;
}

}  // namespace

std::vector<ShareResize> SharesToSet(const SharesReport& report,
                                     const std::vector<ReplicaShare>& wanted) {
  std::vector<ShareResize> resizes;
  std::vector<Part> parts;
  for (const ReplicaShare& replica : wanted) {
    const auto versions = std::ranges::count(report.models, replica.model, &ModelShare::model);
    for (const ModelShare& row : report.models) {
      if (row.model != replica.model) continue;
      if (replica.part) {
        parts.push_back({&row, *replica.part / static_cast<double>(versions), replica.rows});
      } else if (row.fixed || row.ceiling != replica.rows) {
        resizes.push_back({row.model, row.version, {.automatic = true, .rows = replica.rows}});
      }
    }
  }
  Round(report, parts);
  const bool worth = std::ranges::any_of(parts, [](const Part& part) {
    return !part.now->fixed || std::abs(part.Change()) >= kLeastShareChange;
  });
  if (!worth) {
    for (Part& part : parts) part.part = *part.now->share;
  }
  std::ranges::stable_sort(parts, {}, &Part::Change);
  for (const Part& part : parts) {
    const bool same = part.now->fixed && std::abs(part.Change()) < 1e-6;
    if (same && part.now->ceiling == part.rows) continue;
    resizes.push_back({part.now->model, part.now->version, {.part = part.part, .rows = part.rows}});
  }
  return resizes;
}

std::vector<ShareResize> SharesBefore(const SharesReport& report, const std::string& model,
                                      const std::string& version) {
  std::vector<ShareResize> resizes;
  for (const ModelShare& row : report.models) {
    if (row.model != model || (!version.empty() && row.version != version)) continue;
    ShareWanted wanted{.automatic = true};
    if (row.fixed) wanted = {.part = row.share};
    if (!row.share && row.demand == 0) wanted = {.none = true};  // neither has nor awaits one
    wanted.rows = row.ceiling;
    resizes.push_back({row.model, row.version, wanted});
  }
  return resizes;
}

}  // namespace lagoon

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

/// The part of the device that fixed shares hold which are not among `parts`.
double HeldByOthers(const SharesReport& report, const std::vector<ReplicaShare>& wanted) {
  double held = 0;
  for (const ModelShare& row : report.models) {
    const bool named = std::ranges::count(wanted, row.model, &ReplicaShare::model) > 0;
    if (row.fixed && !named) held += row.share.value_or(0);
  }
  return std::min(held, 1.0);
}

/// Shrinks the parts to what others leave, and makes them whole granules of the device, if it has
/// as many as models.
void Fit(const SharesReport& report, double held, std::vector<Part>& parts) {
  double all = 0;
  for (const Part& part : parts) all += part.part;
  const double left = 1 - held;
  if (all > left) {
    for (Part& part : parts) part.part *= left / all;
  }
  if (report.kind != ShareKind::kUnits) return;
  const std::uint32_t granules = (report.units + report.granule - 1) / report.granule;
  const auto taken = static_cast<std::uint32_t>(std::ceil(held * granules - 1e-6));
  if (taken >= granules) return;
  std::vector<double> exact;
  for (const Part& part : parts) exact.push_back(part.part * granules);
  const auto whole = ToGranules(exact, granules - taken);
  if (!whole) return;  // more models than granules: the shares are weights
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].part = 1.0 * (*whole)[i] / granules;
}

}  // namespace

std::vector<ShareResize> SharesToSet(const SharesReport& report,
                                     const std::vector<ReplicaShare>& wanted) {
  std::vector<ShareResize> resizes;
  std::vector<Part> parts;
  for (const ReplicaShare& replica : wanted) {
    std::vector<const ModelShare*> versions;  // a fleet tells a row for each replica
    for (const ModelShare& row : report.models) {
      const bool known = std::ranges::any_of(
          versions, [&](const ModelShare* other) { return other->version == row.version; });
      if (row.model == replica.model && !known) versions.push_back(&row);
    }
    for (const ModelShare* const row : versions) {
      if (replica.part) {
        parts.push_back({row, *replica.part / static_cast<double>(versions.size()), replica.rows});
      } else if (row->fixed || row->ceiling != replica.rows) {
        resizes.push_back({row->model, row->version, {.automatic = true, .rows = replica.rows}});
      }
    }
  }
  const double held = HeldByOthers(report, wanted);
  if (held > 1 - kLeastShareChange) return resizes;  // there is nothing to give
  Fit(report, held, parts);
  const bool worth = std::ranges::any_of(parts, [](const Part& part) {
    return !part.now->fixed || std::abs(part.Change()) >= kLeastShareChange;
  });
  if (!worth) {
    for (Part& part : parts) part.part = part.now->share.value_or(part.part);
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

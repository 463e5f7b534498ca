#pragma once

// What several cores say, as if one core said it.

#include <span>
#include <vector>

#include "serving/core/models.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {

/// Adds `more` to the rows of `sums` with the same model and version; a new one becomes a row.
/// Counts and times are added. The time of the last inference, shares, row limits and the longest
/// opaque kernel are the larger ones.
void AddStatistics(std::vector<ModelStatistics>& sums, std::span<const ModelStatistics> more);

/// One row per model and version, by name and version: ready if one of `all` is. Rows of members
/// that have not loaded a model are left out if another member has a row with a version.
std::vector<ModelStatus> JoinStatuses(std::span<const std::vector<ModelStatus>> all);

DispatcherStats SumOf(std::span<const DispatcherStats> all);
/// `all` is not empty.
DeviceInfo SumOf(std::span<const DeviceInfo> all);

}  // namespace lagoon

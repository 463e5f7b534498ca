#pragma once

// The shares that a placer gives replicas, as resizes of the devices' models.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serving/core/share_control.h"

namespace lagoon {

/// What a placer decides about a model on a device.
struct ReplicaShare {
  std::string model;
  std::optional<double> part;  // of the device, above 0; empty: the device tunes the share
  std::int64_t rows = 0;       // ShareWanted::rows
};

/// A call of ShareControl::ResizeShare().
struct ShareResize {
  std::string model, version;
  ShareWanted wanted;
};

/// The least change of a share that is worth a move, as a part of the device.
inline constexpr double kLeastShareChange = 0.05;

/// The resizes that give the models of `report` the shares `wanted`, in the order in which the
/// device has room for them. Models that `wanted` does not name stay as they are, and `wanted` may
/// name models that are not there. The parts of `wanted` are at most 1 together: of what the fixed
/// shares of other models leave. The versions of a model share its part evenly. If the device has
/// granules enough, the parts become whole granules, so that they are not more than the device
/// together. If no part changes by kLeastShareChange, none does, but limits of batches do.
std::vector<ShareResize> SharesToSet(const SharesReport& report,
                                     const std::vector<ReplicaShare>& wanted);

/// The resizes that give a model the shares of `report` again, or none. `version`: empty for all.
std::vector<ShareResize> SharesBefore(const SharesReport& report, const std::string& model,
                                      const std::string& version);

}  // namespace lagoon

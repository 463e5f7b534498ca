#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "device/device.h"

namespace lagoon {

/// The shares of a device: which units each has, and the rules for them. The device's lock protects
/// Create() and Move(). Any thread may call units(). Only Create() and errors allocate.
class Shares {
 public:
  static constexpr std::uint32_t kMost = 1024;  // DeviceInfo::max_shares

  /// `info`: of the device; borrowed, and complete before the first call.
  explicit Shares(const DeviceInfo& info);

  /// DeviceControl::CreateShare(), for what all devices check.
  Result<ShareId> Create(const std::string& name, UnitRange units);
  /// Whether DeviceQueue::MoveShare() may move the share to `units`.
  Status CheckMove(ShareId share, UnitRange units) const;
  /// CheckMove() must have succeeded.
  void Move(ShareId share, UnitRange units);
  /// The bounds of any share. `what`: "share 'bert'", for errors.
  Status CheckBounds(std::string_view what, UnitRange units) const;

  /// The share must exist. relaxed: what comes with a move (an epoch, a lock) orders it.
  UnitRange units(ShareId share) const {
    const std::uint64_t bits = ranges_[Raw(share)].load(std::memory_order_relaxed);
    return {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(bits)};
  }
  bool Has(ShareId share, std::uint32_t unit) const {
    return share == kAllUnits || units(share).Has(unit);
  }
  bool Exists(ShareId share) const { return Raw(share) <= names_.size(); }

 private:
  const DeviceInfo& info_;
  std::vector<std::string> names_;  // by ShareId - 1
  // By ShareId: the first unit in the upper half, the count in the lower.
  std::unique_ptr<std::atomic<std::uint64_t>[]> ranges_;
};

/// "units 2 to 5", "unit 3" or "no unit".
std::string Text(UnitRange units);

}  // namespace lagoon

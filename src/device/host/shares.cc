#include "device/host/shares.h"

#include <fmt/format.h>

namespace lagoon {

Shares::Shares(const DeviceInfo& info)
    : info_(info), ranges_(std::make_unique<std::atomic<std::uint64_t>[]>(kMost + 1)) {
  names_.reserve(kMost);
  ranges_[0].store(~std::uint32_t{0}, std::memory_order_relaxed);
}

Status Shares::CheckBounds(std::string_view what, UnitRange units) const {
  const auto wrong = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("device '{}': {} cannot have {}: {}",
                                                         info_.name, what, Text(units), why));
  };
  const std::uint32_t granule = info_.share_granule;
  if (granule == 0) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("device '{}': {}: the device has no shares; use all units", info_.name, what));
  }
  if (units.count == 0) return wrong("a share has at least one unit");
  if (units.count > info_.units || units.first > info_.units - units.count) {
    return wrong(fmt::format("the device has {}", Text({0, info_.units})));
  }
  const bool ends = units.end() == info_.units || units.end() % granule == 0;
  if (units.first % granule != 0 || !ends) {
    return wrong(
        fmt::format("a share must begin at a multiple of {0} and have a multiple of {0} units, or "
                    "end at unit {1}, the last one",
                    granule, info_.units - 1));
  }
  return {};
}

Result<ShareId> Shares::Create(const std::string& name, UnitRange units) {
  const std::string what = fmt::format("share '{}'", name);
  LAGOON_RETURN_IF_ERROR(CheckBounds(what, units));
  if (names_.size() == info_.max_shares) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("device '{}': cannot create {} with {}: all {} shares are in use",
                            info_.name, what, Text(units), info_.max_shares));
  }
  names_.push_back(name);
  const ShareId share{static_cast<std::uint32_t>(names_.size())};
  Move(share, units);
  return share;
}

Status Shares::CheckMove(ShareId share, UnitRange units) const {
  if (share == kAllUnits || !Exists(share)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("device '{}': cannot move share {} to {}: {}; name a share that was "
                    "created",
                    info_.name, Raw(share), Text(units),
                    share == kAllUnits ? "it stands for all units" : "there is no such share"));
  }
  return CheckBounds(fmt::format("share '{}'", names_[Raw(share) - 1]), units);
}

void Shares::Move(ShareId share, UnitRange units) {
  LAGOON_CHECK(share != kAllUnits && Exists(share));
  ranges_[Raw(share)].store(std::uint64_t{units.first} << 32 | units.count,
                            std::memory_order_relaxed);
}

std::string Text(UnitRange units) {
  if (units.count == 0) return "no unit";
  if (units.count == 1) return fmt::format("unit {}", units.first);
  return fmt::format("units {} to {}", units.first, units.first + std::uint64_t{units.count} - 1);
}

}  // namespace lagoon

#include "device/cuda/driver/unit_shares.h"

#include <fmt/format.h>

namespace lagoon::cuda {

UnitShares::~UnitShares() {
  while (!shares_.empty()) RemoveLast();
}

Status UnitShares::Add(std::uint32_t units) {
  const Driver& driver = session_->driver();
  if (!driver.HasGreenContexts()) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("the CUDA driver, of CUDA {}.{}, cannot set units aside: it has no green "
                    "contexts; install one for CUDA 12.5 or newer",
                    driver.version() / 1000, driver.version() % 1000 / 10));
  }
  if (shares_.empty()) {
    LAGOON_RETURN_IF_ERROR(
        driver.Check(driver.device_resource(session_->device(), &rest_, kMultiprocessorResource),
                     "cuDeviceGetDevResource"));
  }
  Share share;
  share.rest_before = rest_;
  DeviceResource mine, rest;
  unsigned groups = 1;
  // If too many units are asked for, the driver returns an error or zero groups.
  const Code split = driver.split_resource(&mine, &groups, &rest_, &rest, 0, units);
  if (units > rest_.multiprocessors || (split == kSuccess && groups == 0)) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("{} units asked for, {} are not set aside yet", units, rest_.multiprocessors));
  }
  LAGOON_RETURN_IF_ERROR(
      driver.Check(split, fmt::format("cuDevSmResourceSplitByCount({})", units)));
  ResourceDesc description = nullptr;
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.describe_resource(&description, &mine, 1), "cuDevResourceGenerateDesc"));
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.create_green_context(&share.context, description, session_->device(),
                                               kGreenDefaultStream),
                   "cuGreenCtxCreate"));
  share.units = mine.multiprocessors;
  rest_ = rest;
  shares_.push_back(share);
  return {};
}

void UnitShares::RemoveLast() {
  const Share& last = shares_.back();
  if (session_->Enter()) session_->driver().destroy_green_context(last.context);
  rest_ = last.rest_before;
  shares_.pop_back();
}

}  // namespace lagoon::cuda

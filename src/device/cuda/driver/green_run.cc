#include "device/cuda/driver/green_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lagoon::cuda {

GreenRun::~GreenRun() {
  if (session_->Enter()) session_->driver().destroy_green_context(context_);
}

Result<std::unique_ptr<UnitGranules>> UnitGranules::Split(
    std::shared_ptr<const GpuSession> session) {
  const Driver& driver = session->driver();
  if (!driver.HasGreenContexts()) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("the CUDA driver, of CUDA {}.{}, has no green contexts; install one for CUDA "
                    "12.5 or newer",
                    driver.version() / 1000, driver.version() % 1000 / 10));
  }
  DeviceResource all, rest;
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.device_resource(session->device(), &all, kMultiprocessorResource),
                   "cuDeviceGetDevResource"));
  // As many groups as there are, of the smallest size that the GPU has: pairs on a Hopper, where
  // groups that may launch clusters of blocks have 8 (measured on an H200).
  unsigned groups = session->gpu().multiprocessors;
  std::vector<DeviceResource> granules(groups);
  LAGOON_RETURN_IF_ERROR(driver.Check(
      driver.split_resource(granules.data(), &groups, &all, &rest, kSplitIgnoresClusters, 1),
      "cuDevSmResourceSplitByCount"));
  granules.resize(groups);
  if (groups == 0) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("the GPU's {} multiprocessors are less than one green context needs",
                            session->gpu().multiprocessors));
  }
  if (groups * granules.front().multiprocessors < session->gpu().multiprocessors) {
    granules.push_back(rest);
  }
  return std::unique_ptr<UnitGranules>(new UnitGranules(std::move(session), std::move(granules)));
}

Result<std::unique_ptr<GreenRun>> UnitGranules::CreateRun(UnitRange units) const {
  const Driver& driver = session_->driver();
  const std::uint32_t begin = units.first / granule_;
  const std::uint32_t end = (units.end() + granule_ - 1) / granule_;
  // The last group has what is left over, which can be more than a granule. Only a range that goes
  // to the end of the GPU has it.
  const auto last = std::min<std::uint32_t>(end, static_cast<std::uint32_t>(granules_.size()));
  const bool to_the_end = units.end() == session_->gpu().multiprocessors;
  if (begin >= last || (last == granules_.size() && !to_the_end)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("units {} to {} cannot be a share: the last {} units of the GPU stay "
                            "together",
                            units.first, units.end() - 1, granules_.back().multiprocessors));
  }
  std::vector<DeviceResource> granules(granules_.begin() + begin, granules_.begin() + last);
  ResourceDesc description = nullptr;
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.describe_resource(&description, granules.data(), last - begin),
                   "cuDevResourceGenerateDesc"));
  GreenContext context = nullptr;
  LAGOON_RETURN_IF_ERROR(driver.Check(
      driver.create_green_context(&context, description, session_->device(), kGreenDefaultStream),
      "cuGreenCtxCreate"));
  return std::make_unique<GreenRun>(session_, units, context);
}

}  // namespace lagoon::cuda

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/cuda/driver/session.h"
#include "device/device.h"

namespace lagoon::cuda {

/// A green context (CUDA 12.5): kernels of its streams run on a contiguous run of the GPU's
/// multiprocessors only. Kernels of other streams may use these multiprocessors too.
class GreenRun {
 public:
  GreenRun(std::shared_ptr<const GpuSession> session, UnitRange units, GreenContext context)
      : session_(std::move(session)), units_(units), context_(context) {}
  /// Only after its streams are destroyed.
  ~GreenRun();
  GreenRun(const GreenRun&) = delete;
  GreenRun& operator=(const GreenRun&) = delete;

  UnitRange units() const { return units_; }
  GreenContext context() const { return context_; }

 private:
  const std::shared_ptr<const GpuSession> session_;
  const UnitRange units_;
  const GreenContext context_;
};

/// The multiprocessors of a GPU, in the granules of which the driver makes green contexts: 2 on
/// Hopper and on compute capability 8. Any thread may call CreateRun().
class UnitGranules {
 public:
  /// kUnimplemented: the driver has no green contexts. Other errors name the driver's call.
  static Result<std::unique_ptr<UnitGranules>> Split(std::shared_ptr<const GpuSession> session);

  /// Number of multiprocessors in a granule.
  std::uint32_t granule() const { return granule_; }
  /// `units`: begin at a granule, and end at one or at the last multiprocessor. Needs the GPU's
  /// context (GpuSession::Enter()). Errors name the driver's call.
  Result<std::unique_ptr<GreenRun>> CreateRun(UnitRange units) const;

 private:
  UnitGranules(std::shared_ptr<const GpuSession> session, std::vector<DeviceResource> granules)
      : session_(std::move(session)),
        granules_(std::move(granules)),
        granule_(granules_.front().multiprocessors) {}

  const std::shared_ptr<const GpuSession> session_;
  const std::vector<DeviceResource> granules_;  // the last one may have another size
  const std::uint32_t granule_;
};

}  // namespace lagoon::cuda

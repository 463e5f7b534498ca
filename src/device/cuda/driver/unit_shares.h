#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/cuda/driver/session.h"

namespace lagoon::cuda {

/// Multiprocessors of a GPU that are set aside for some streams, as green contexts (CUDA 12.5).
/// Kernels of other streams may still use these multiprocessors. Externally locked.
class UnitShares {
 public:
  explicit UnitShares(std::shared_ptr<const GpuSession> session) : session_(std::move(session)) {}
  /// Only after the streams of all shares are destroyed.
  ~UnitShares();
  UnitShares(const UnitShares&) = delete;
  UnitShares& operator=(const UnitShares&) = delete;

  /// Sets aside at least `units` units that no other share has, rounded up to the GPU's granularity
  /// (8 on Hopper). kUnimplemented: the driver has no green contexts. kResourceExhausted: too few
  /// units are left.
  Status Add(std::uint32_t units);
  /// Gives the share that was added last back.
  void RemoveLast();

  std::size_t count() const { return shares_.size(); }
  GreenContext context(std::size_t share) const { return shares_[share].context; }
  std::uint32_t units(std::size_t share) const { return shares_[share].units; }

 private:
  struct Share {
    GreenContext context = nullptr;
    std::uint32_t units = 0;
    DeviceResource rest_before;  // units that were left before this share
  };

  const std::shared_ptr<const GpuSession> session_;
  std::vector<Share> shares_;
  DeviceResource rest_;  // units that are left; queried with the first share
};

}  // namespace lagoon::cuda

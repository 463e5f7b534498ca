#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/cuda/session.h"

namespace lagoon::cuda {

/// Multiprocessors of a GPU that are set aside for some streams: green contexts (CUDA 12.5). What
/// runs in another stream may still use them. The caller's lock.
class UnitShares {
 public:
  explicit UnitShares(std::shared_ptr<const GpuSession> session) : session_(std::move(session)) {}
  /// After their streams.
  ~UnitShares();
  UnitShares(const UnitShares&) = delete;
  UnitShares& operator=(const UnitShares&) = delete;

  /// Sets at least `units` aside that no share has, as many more as the GPU's granularity asks (8
  /// on Hopper). kUnimplemented when the driver has no green contexts, kResourceExhausted when too
  /// few units are left.
  Status Add(std::uint32_t units);
  /// Gives the last one back.
  void RemoveLast();

  std::size_t count() const { return shares_.size(); }
  GreenContext context(std::size_t share) const { return shares_[share].context; }
  std::uint32_t units(std::size_t share) const { return shares_[share].units; }

 private:
  struct Share {
    GreenContext context = nullptr;
    std::uint32_t units = 0;
    DeviceResource rest_before;  // what was left for it and those after it
  };

  const std::shared_ptr<const GpuSession> session_;
  std::vector<Share> shares_;
  DeviceResource rest_;  // asked for with the first share
};

}  // namespace lagoon::cuda

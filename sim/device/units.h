#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "device/device.h"
#include "sim/device/gpu_model.h"

namespace lagoon {

/// A kernel in the model: the demand of one block, in terms of the units' limits.
struct SimKernel {
  Body body = nullptr;
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;  // per block
  std::uint32_t shared_bytes = 0;
  std::uint64_t memory_bytes = 0;
  Nanoseconds time{0};
  double time_spread = 0;
  Nanoseconds check_interval{0};

  /// Kernels of equal keys are the same.
  using Key = std::tuple<Body, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t,
                         std::int64_t, double, std::int64_t>;
  Key key() const {
    return {body,         threads,      registers,   shared_bytes,
            memory_bytes, time.count(), time_spread, check_interval.count()};
  }
};

/// Tracks what blocks take of the compute units: the limits of Paella's Table 1, and the slow-down
/// by other launches' blocks. Not thread-safe; allocates only when built.
class Units {
 public:
  explicit Units(const SimConstants& constants);

  std::uint32_t size() const { return static_cast<std::uint32_t>(units_.size()); }
  std::uint32_t busy() const { return busy_; }

  bool Fits(std::uint32_t unit, const SimKernel& kernel) const {
    const Unit& u = units_[unit];
    return u.blocks < blocks_limit_ && u.threads + kernel.threads <= limit_.threads &&
           u.registers + kernel.registers <= limit_.registers &&
           u.shared_bytes + kernel.shared_bytes <= limit_.shared_bytes;
  }
  std::uint32_t threads(std::uint32_t unit) const { return units_[unit].threads; }

  /// `owner`: the launch. Blocks of different owners on one unit slow each other down.
  void Take(std::uint32_t unit, const SimKernel& kernel, std::uint32_t owner);
  void Give(std::uint32_t unit, const SimKernel& kernel);

  /// The time of a block that is about to be placed: its own `time` plus the slow-down by other
  /// blocks. It does not change when blocks come and go later.
  Nanoseconds Slowed(Nanoseconds time, std::uint32_t unit, const SimKernel& kernel,
                     std::uint32_t owner, double own_bandwidth) const;
  /// Memory bandwidth that one block asks for, in bytes per microsecond.
  static double Bandwidth(const SimKernel& kernel);

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  static constexpr std::uint32_t kSeveral = kNobody - 1;

  struct Unit {
    std::uint32_t blocks = 0, threads = 0, registers = 0, shared_bytes = 0;
    std::uint32_t owner = kNobody;
  };

  const std::uint32_t blocks_limit_;
  const Unit limit_;
  const double company_;    // slow-down by a unit full of other launches' blocks
  const double bandwidth_;  // bytes per microsecond
  std::vector<Unit> units_;
  std::uint32_t busy_ = 0;  // units with at least one block
  double asked_ = 0;        // demand of all blocks, in bytes per microsecond
};

}  // namespace lagoon

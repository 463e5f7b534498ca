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
  std::int64_t traffic = 0;  // bytes per microsecond of one block, when the kernel runs alone
  std::int64_t use = 0;      // part of its unit's throughput that one block uses, of kFullSpeed
  /// How far the device's bandwidth bounds the kernel, in permille: 1000 where its blocks on a unit
  /// ask for at least the unit's share of the bandwidth.
  std::int64_t bound_permille = 0;
  Nanoseconds time{0};
  double time_spread = 0;
  Nanoseconds check_interval{0};

  /// Kernels of equal keys are the same.
  using Key = std::tuple<Body, std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t,
                         std::int64_t, std::int64_t, double, std::int64_t>;
  Key key() const {
    return {body, threads,      registers,   shared_bytes,          traffic,
            use,  time.count(), time_spread, check_interval.count()};
  }
};

/// How many blocks of the kernel a unit holds at once; 0: not one fits.
std::int64_t OccupancyOf(const SimConstants& constants, const SimKernel& kernel);
/// The same for what a block demands.
std::int64_t BlocksAtOnce(const SimConstants& constants, const BlockDemand& demand);

/// Speeds of blocks, and what they use of a unit, are parts of this.
inline constexpr std::int64_t kFullSpeed = 100'000;

/// A block on a unit: a place in a BlockGroup.
struct Resident {
  std::uint32_t group = 0, slot = 0;
};

/// Tracks what blocks take of the compute units: the limits of Paella's Table 1, and how fast
/// blocks run beside others. Integers only. Not thread-safe; allocates only when built.
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

  /// Puts a block on the unit. Returns its seat there, which later calls name.
  std::uint32_t Take(std::uint32_t unit, const SimKernel& kernel, Resident resident);
  /// Takes the block of the seat off the unit. Returns the resident that sits there now, if the
  /// last one moved up.
  std::optional<Resident> Give(std::uint32_t unit, const SimKernel& kernel, std::uint32_t seat);
  /// The resident of the seat belongs to another group now.
  void Move(std::uint32_t unit, std::uint32_t seat, Resident resident) {
    residents_[unit * blocks_limit_ + seat] = resident;
  }
  std::span<const Resident> residents(std::uint32_t unit) const {
    return {&residents_[unit * blocks_limit_], units_[unit].blocks};
  }

  /// A launch of the kernel has `after` running blocks instead of `before`. What a launch asks for
  /// beyond the device's bandwidth does not count: its time alone includes that.
  void Ask(const SimKernel& kernel, std::uint32_t before, std::uint32_t after);

  /// The speed of a block of the kernel on the unit, of kFullSpeed: the least of what its company
  /// on the unit and what the device's bandwidth leave.
  std::int64_t Speed(std::uint32_t unit, const SimKernel& kernel) const {
    return step_ == kSteps || kernel.traffic == 0 ? units_[unit].speed : SpeedBound(unit, kernel);
  }
  /// The bandwidth covers what all launches ask for: Speed() is SpeedOfAll() for every kernel.
  bool enough_bandwidth() const { return step_ == kSteps; }
  std::int64_t SpeedOfAll(std::uint32_t unit) const { return units_[unit].speed; }

  /// A unit whose blocks may have another speed since the last call for it, in order of change;
  /// nullopt: none.
  std::optional<std::uint32_t> TakeDirty();

 private:
  static constexpr std::int64_t kSteps = 16;  // of the bandwidth

  struct Unit {
    std::uint32_t blocks = 0, threads = 0, registers = 0, shared_bytes = 0;
    std::int64_t demand = 0;          // of all blocks
    std::int64_t speed = kFullSpeed;  // that the demand leaves each of them
    bool dirty = false;
  };

  static void SetDemand(Unit& unit, std::int64_t demand) {
    unit.demand = demand;
    unit.speed = demand <= kFullSpeed ? kFullSpeed : kFullSpeed * kFullSpeed / demand;
  }
  std::int64_t SpeedBound(std::uint32_t unit, const SimKernel& kernel) const;
  void MarkDirty(std::uint32_t unit);

  const std::uint32_t blocks_limit_;
  const Unit limit_;
  const std::int64_t bandwidth_;  // bytes per microsecond
  std::vector<Unit> units_;
  std::vector<Resident> residents_;  // of each unit, `blocks_limit_` seats
  std::vector<std::uint32_t> dirty_;
  std::size_t next_dirty_ = 0;
  std::uint32_t busy_ = 0;      // units with at least one block
  std::int64_t asked_ = 0;      // bytes per microsecond, of all launches
  std::int64_t step_ = kSteps;  // part of what is asked for that the bandwidth covers
};

}  // namespace lagoon

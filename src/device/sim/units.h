#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/sim/profile.h"

namespace lagoon {

/// A kernel as the model knows it: a block's demand in the units' terms.
struct SimKernel {
  Body body = nullptr;
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;  // per block
  std::uint32_t shared_bytes = 0;
  std::uint64_t memory_bytes = 0;
  Nanoseconds time{0};
  double time_spread = 0;
  Nanoseconds check_interval{0};
};

/// What of the compute units is taken, and by how many blocks: the limits of Paella's Table 1 and
/// the slow-down by company. Not thread-safe; allocates only when built.
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

  /// `owner`: the launch; a unit slows down blocks of different ones.
  void Take(std::uint32_t unit, const SimKernel& kernel, std::uint32_t owner);
  void Give(std::uint32_t unit, const SimKernel& kernel);

  /// The time of a block that is about to be taken: its own `time` and what company costs it. That
  /// stays what it is when others come and go meanwhile.
  Nanoseconds Slowed(Nanoseconds time, std::uint32_t unit, const SimKernel& kernel,
                     std::uint32_t owner, double own_bandwidth) const;
  /// Bytes a microsecond that one block asks for.
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
  const double company_;    // slow-down by a unit full of others
  const double bandwidth_;  // bytes a microsecond
  std::vector<Unit> units_;
  std::uint32_t busy_ = 0;  // units with at least one block
  double asked_ = 0;        // bytes a microsecond, by all blocks
};

}  // namespace lagoon

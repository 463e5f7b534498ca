#include "sim/device/units.h"

#include <algorithm>
#include <utility>

namespace lagoon {

std::int64_t OccupancyOf(const SimConstants& constants, const SimKernel& kernel) {
  std::int64_t most = constants.blocks_per_unit;
  const auto limit = [&most](std::int64_t of_unit, std::uint32_t of_block) {
    if (of_block > 0) most = std::min(most, of_unit / of_block);
  };
  limit(constants.threads_per_unit, kernel.threads);
  limit(constants.registers_per_unit, kernel.registers);
  limit(constants.shared_bytes_per_unit, kernel.shared_bytes);
  return most;
}

std::int64_t BlocksAtOnce(const SimConstants& constants, const BlockDemand& demand) {
  if (demand.threads == 0) return 1;
  SimKernel kernel;
  kernel.threads = demand.threads;
  kernel.registers = demand.threads * demand.registers_per_thread;
  kernel.shared_bytes = demand.shared_bytes;
  return OccupancyOf(constants, kernel);
}
namespace {

std::uint32_t Limit(std::int64_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace

Units::Units(const SimConstants& constants)
    : blocks_limit_(Limit(constants.blocks_per_unit)),
      limit_{.threads = Limit(constants.threads_per_unit),
             .registers = Limit(constants.registers_per_unit),
             .shared_bytes = Limit(constants.shared_bytes_per_unit)},
      bandwidth_(constants.memory_bytes_per_us),
      units_(static_cast<std::size_t>(constants.units)),
      residents_(units_.size() * blocks_limit_) {
  dirty_.reserve(units_.size());
}

std::uint32_t Units::Take(std::uint32_t unit, const SimKernel& kernel, Resident resident) {
  Unit& u = units_[unit];
  const std::uint32_t seat = u.blocks++;
  if (seat == 0) ++busy_;
  u.threads += kernel.threads;
  u.registers += kernel.registers;
  u.shared_bytes += kernel.shared_bytes;
  SetDemand(u, u.demand + kernel.use);
  Move(unit, seat, resident);
  if (Speed(unit, kernel) != kFullSpeed) MarkDirty(unit);
  return seat;
}

std::optional<Resident> Units::Give(std::uint32_t unit, const SimKernel& kernel,
                                    std::uint32_t seat) {
  Unit& u = units_[unit];
  if (u.speed != kFullSpeed) MarkDirty(unit);
  u.threads -= kernel.threads;
  u.registers -= kernel.registers;
  u.shared_bytes -= kernel.shared_bytes;
  SetDemand(u, u.demand - kernel.use);
  const std::uint32_t last = --u.blocks;
  if (last == 0) --busy_;
  if (seat == last) return std::nullopt;
  const Resident moved = residents_[unit * blocks_limit_ + last];
  Move(unit, seat, moved);
  return moved;
}

void Units::Ask(const SimKernel& kernel, std::uint32_t before, std::uint32_t after) {
  if (kernel.traffic == 0) return;
  asked_ +=
      std::min(bandwidth_, kernel.traffic * after) - std::min(bandwidth_, kernel.traffic * before);
  const std::int64_t step =
      asked_ <= bandwidth_ ? kSteps
                           : std::max<std::int64_t>(1, (kSteps * bandwidth_ + asked_ / 2) / asked_);
  if (std::exchange(step_, step) == step) return;
  for (std::uint32_t unit = 0; unit < size(); ++unit) {
    if (units_[unit].blocks > 0) MarkDirty(unit);
  }
}

std::int64_t Units::SpeedBound(std::uint32_t unit, const SimKernel& kernel) const {
  const std::int64_t slower = kFullSpeed * (kSteps - step_) / step_ * kernel.bound_permille / 1000;
  return std::min(units_[unit].speed, kFullSpeed * kFullSpeed / (kFullSpeed + slower));
}

void Units::MarkDirty(std::uint32_t unit) {
  if (!std::exchange(units_[unit].dirty, true)) dirty_.push_back(unit);
}

std::optional<std::uint32_t> Units::TakeDirty() {
  if (next_dirty_ == dirty_.size()) {
    dirty_.clear();
    next_dirty_ = 0;
    return std::nullopt;
  }
  const std::uint32_t unit = dirty_[next_dirty_++];
  units_[unit].dirty = false;
  return unit;
}

}  // namespace lagoon

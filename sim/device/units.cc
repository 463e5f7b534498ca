#include "sim/device/units.h"

#include <algorithm>

namespace lagoon {
namespace {

std::uint32_t Limit(std::int64_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace

Units::Units(const SimConstants& constants)
    : blocks_limit_(Limit(constants.blocks_per_unit)),
      limit_{.threads = Limit(constants.threads_per_unit),
             .registers = Limit(constants.registers_per_unit),
             .shared_bytes = Limit(constants.shared_bytes_per_unit)},
      company_(static_cast<double>(constants.coresidency_permille) / 1000),
      bandwidth_(static_cast<double>(constants.memory_bytes_per_us)),
      units_(static_cast<std::size_t>(constants.units)) {}

void Units::Take(std::uint32_t unit, const SimKernel& kernel, std::uint32_t owner) {
  Unit& u = units_[unit];
  if (u.blocks++ == 0) {
    ++busy_;
    u.owner = owner;
  } else if (u.owner != owner) {
    u.owner = kSeveral;
  }
  u.threads += kernel.threads;
  u.registers += kernel.registers;
  u.shared_bytes += kernel.shared_bytes;
  asked_ += Bandwidth(kernel);
}

void Units::Give(std::uint32_t unit, const SimKernel& kernel) {
  Unit& u = units_[unit];
  u.threads -= kernel.threads;
  u.registers -= kernel.registers;
  u.shared_bytes -= kernel.shared_bytes;
  asked_ -= Bandwidth(kernel);
  if (--u.blocks == 0) {
    u.owner = kNobody;
    // Sums of doubles drift, so the demand of an idle device is set to 0.
    if (--busy_ == 0) asked_ = 0;
  }
}

double Units::Bandwidth(const SimKernel& kernel) {
  return static_cast<double>(kernel.memory_bytes) * 1000 /
         static_cast<double>(std::max<std::int64_t>(1, kernel.time.count()));
}

Nanoseconds Units::Slowed(Nanoseconds time, std::uint32_t unit, const SimKernel& kernel,
                          std::uint32_t owner, double own_bandwidth) const {
  double factor = 1;
  const Unit& u = units_[unit];
  if (u.blocks > 0 && u.owner != owner) {
    factor += company_ * static_cast<double>(u.threads) / static_cast<double>(limit_.threads);
  }
  const double asked = asked_ + Bandwidth(kernel);
  // The measured time includes what the kernel's own blocks ask for, even if that alone is more
  // than the device has.
  const double room = std::max(bandwidth_, own_bandwidth);
  if (kernel.memory_bytes != 0 && asked > room) {
    const double share = bandwidth_ / static_cast<double>(units_.size());
    const double bound_by_memory = std::min(1.0, Bandwidth(kernel) / share);
    factor *= 1 + bound_by_memory * (asked / room - 1);
  }
  if (factor == 1) return time;
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

}  // namespace lagoon

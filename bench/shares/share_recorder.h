#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/check.h"
#include "bench/shares/switches.h"
#include "device/forwarding_device.h"
#include "device/observer.h"

namespace lagoon::bench {

/// Sits between a dispatcher and its device. Records the blocks of kernels with a share, and the
/// moves of shares. Read what was recorded when the device is idle.
class ShareRecorder final : public ForwardingDevice, private DeviceObserver {
 public:
  /// Blocks of one unit that are kept; later ones are counted in dropped(). 24 bytes each.
  static constexpr std::size_t kMostBlocks = 4'000'000;

  /// `device` must be idle, and outlive this.
  explicit ShareRecorder(Device& device)
      : ForwardingDevice(device),
        shares_(std::make_unique<std::array<std::atomic<std::uint32_t>, kSlots>>()),
        units_(device.info().units) {
    for (Unit& unit : units_) unit.blocks.reserve(kMostBlocks);
    moves_.reserve(kMostMoves);
    device_.SetObserver(this);
  }
  ~ShareRecorder() override { device_.SetObserver(nullptr); }
  ShareRecorder(const ShareRecorder&) = delete;
  ShareRecorder& operator=(const ShareRecorder&) = delete;

  SubmitResult Submit(const Launch& launch) override {
    // relaxed: Submit() orders this before the blocks of the launch.
    SlotOf(launch.id).store(Raw(launch.share), std::memory_order_relaxed);
    return device_.Submit(launch);
  }
  Status MoveShare(ShareId share, UnitRange units) override {
    const TimePoint at = device_.Now();
    Status moved = device_.MoveShare(share, units);
    if (moved && moves_.size() < kMostMoves) moves_.push_back({Raw(share), units, at});
    return moved;
  }

  std::vector<ShareBlock> Blocks() const {
    std::vector<ShareBlock> all;
    for (const Unit& unit : units_) {
      all.insert(all.end(), unit.blocks.begin(), unit.blocks.end());
    }
    return all;
  }
  const std::vector<ShareMove>& moves() const { return moves_; }
  std::uint64_t dropped() const {
    std::uint64_t dropped = 0;
    for (const Unit& unit : units_) dropped += unit.dropped;
    return dropped;
  }

 private:
  // The lower half of a launch's id is a slot of the dispatcher, which another launch takes only
  // after this one has retired (sched/job_launches.h).
  static constexpr std::size_t kSlots = 1 << 16;
  static constexpr std::size_t kMostMoves = 100'000;
  struct alignas(64) Unit {  // its device thread writes it
    std::vector<ShareBlock> blocks;
    std::uint64_t dropped = 0;
  };

  std::atomic<std::uint32_t>& SlotOf(LaunchId id) {
    const auto slot = static_cast<std::uint32_t>(Raw(id));
    LAGOON_CHECK(slot < kSlots);
    return (*shares_)[slot];
  }
  void OnPlaced(const DeviceBlock& /*block*/) override {}
  void OnEnded(const DeviceBlock& block, TimePoint at, bool /*committed*/) override {
    if (block.copy != nullptr || block.unit >= units_.size()) return;
    const std::uint32_t share = SlotOf(block.launch).load(std::memory_order_relaxed);
    if (share == Raw(kAllUnits)) return;
    Unit& unit = units_[block.unit];
    if (unit.blocks.size() == kMostBlocks) {
      ++unit.dropped;
      return;
    }
    unit.blocks.push_back({block.unit, share, block.placed, at});
  }

  const std::unique_ptr<std::array<std::atomic<std::uint32_t>, kSlots>> shares_;
  std::vector<Unit> units_;
  std::vector<ShareMove> moves_;  // changed under the dispatcher's lock
};

}  // namespace lagoon::bench

#pragma once

// For tests: compares the bytes that the ops of a plan declare to write with the bytes that they
// write.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "device/device.h"
#include "plan/instance.h"

namespace lagoon::testing {

/// Runs every op of a plan alone on an arena whose declared writes are filled with poison. Every
/// poisoned byte must be overwritten, whatever the poison was, and no other byte of the arena may
/// change.
class DeclaredWrites {
 public:
  DeclaredWrites(std::shared_ptr<const LoadedPlan> loaded, Device& device)
      : plan_(loaded->plan),
        device_(device),
        instance_(*Instance::Create(std::move(loaded), device)) {}

  void Expect() {
    Bytes arena(plan_.arena_bytes);
    for (std::size_t i = 0; i < arena.size(); ++i) {
      arena[i] = static_cast<std::byte>(i % 4 == 3 ? 0x3e : i * 37);  // floats around 0.1
    }
    for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
      const Bytes first = RunOnPoison(op, arena, std::byte{0x3d});
      const Bytes second = RunOnPoison(op, arena, std::byte{0x3f});
      for (const ByteRange& range : plan_.ops[op].writes) {
        EXPECT_EQ(std::memcmp(&first[range.offset], &second[range.offset], range.bytes), 0)
            << "op " << op << " " << plan_.ops[op].name << " leaves bytes that it should write";
      }
      arena = first;
    }
  }

 private:
  using Bytes = std::vector<std::byte>;

  static bool Holds(const std::vector<ByteRange>& ranges, const ByteRange& wanted) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const ByteRange& range) { return range.Overlaps(wanted); });
  }

  Bytes RunOnPoison(std::size_t op, const Bytes& arena, std::byte poison) {
    const PlanOp& plan_op = plan_.ops[op];
    Bytes before = arena;
    for (const ByteRange& range : plan_op.writes) {
      if (Holds(plan_op.reads, range)) continue;  // in place
      std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(range.offset), range.bytes, poison);
    }
    std::byte* memory = instance_->arena({Region::kArena, 0, plan_.arena_bytes});
    std::memcpy(memory, before.data(), before.size());
    RunAlone(op);
    Bytes after(memory, memory + plan_.arena_bytes);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] == before[i] || Holds(plan_op.writes, {Region::kArena, i, 1})) continue;
      ADD_FAILURE() << "op " << op << " " << plan_op.name << " writes byte " << i
                    << ", which it does not declare";
      break;
    }
    return after;
  }

  void RunAlone(std::size_t op) {
    instance_->Reset();
    Launch launch = instance_->launch(op).As(LaunchId{op + 1});
    launch.deps = {};
    ASSERT_EQ(device_.Submit(launch), SubmitResult::kOk);
    for (bool retired = false; !retired;) {
      std::array<DeviceEvent, 8> events;
      const std::size_t count = device_.Poll(events);
      for (std::size_t i = 0; i < count; ++i) {
        retired |= events[i].kind == DeviceEvent::Kind::kRetired;
      }
      if (!retired && count == 0) device_.Wait(device_.Now() + std::chrono::seconds(1));
    }
    ASSERT_TRUE(instance_->progress(op).Complete());
  }

  const Plan& plan_;
  Device& device_;
  std::unique_ptr<Instance> instance_;
};

}  // namespace lagoon::testing

// What the scheduler learns of blocks on a simulated device: what they take of a unit, and how many
// have begun and are done.

#include <gtest/gtest.h>

#include "sim/device/sim_device.h"
#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

using std::chrono::microseconds;

// A unit of Ideal() has room for 16 blocks, 1024 threads, 65536 registers and 64 KiB.
TEST(SimProgress, ABlockNeedsPartsOfItsUnit) {
  const auto device = Make(Ideal(2));
  BlockDemand block{.time = microseconds(10), .threads = 128};
  block.registers_per_thread = 32;
  block.shared_bytes = 8192;
  const UnitNeed need = device->NeedOf(LoadKernel(*device, block));
  EXPECT_EQ(need.blocks, kWholeUnit / 16);
  EXPECT_EQ(need.threads, kWholeUnit / 8);
  EXPECT_EQ(need.registers, kWholeUnit / 16);
  EXPECT_EQ(need.shared_bytes, kWholeUnit / 8);
}

// A unit holds one block of 600 threads: the other 424 threads are no use to the kernel.
TEST(SimProgress, WhatTheScarcestResourceLeavesCountsAsTaken) {
  const auto device = Make(Ideal(2));
  const UnitNeed need =
      device->NeedOf(LoadKernel(*device, {.time = microseconds(10), .threads = 600}));
  EXPECT_EQ(need.threads, kWholeUnit);
  EXPECT_EQ(need.blocks, kWholeUnit / 16);
}

TEST(SimProgress, BlocksThatEndTogetherAreToldOnce) {
  const auto device = Make(Ideal(4));
  Session session(*device);
  const KernelHandle kernel = LoadKernel(*device, {.time = microseconds(10)});
  Record record(16);
  const LaunchId id =
      session.Submit(Launch{.kernel = kernel, .progress = record.get(), .tell_every = 4});
  session.AwaitRetired(id);
  EXPECT_EQ(session.ProgressOf(id),
            (Session::Counts{{4, 0}, {4, 4}, {8, 4}, {8, 8}, {12, 8}, {12, 12}, {16, 12}}));
  EXPECT_EQ(Microseconds(session.CompleteAt(id)), 40);
}

}  // namespace
}  // namespace lagoon::sim_testing

// Recording does not allocate.

#include "base/testing/allocations.h"

#ifdef LAGOON_COUNTS_ALLOCATIONS

#include <gtest/gtest.h>

#include "sched/testing/sim_scenario.h"
#include "trace/recorder.h"

namespace lagoon::testing {
namespace {

TEST(TraceAllocation, NothingAllocatesOnceTheRecorderIsAttached) {
  const auto device = FigureDevice(4, SimAbort::kCheck);
  TraceRecorder recorder({.max_blocks = 1000, .max_events = 1000});
  recorder.Attach(*device);
  const std::uint64_t before = allocations.load();
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const DeviceBlock block{.launch = LaunchId{i}, .tile = i, .unit = i % 4};
    recorder.OnPlaced(block);
    recorder.OnEnded(block, TimePoint{}, true);
    recorder.OnEvent({.kind = SchedEvent::Kind::kDepth, .value = i});
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(recorder.blocks().front().lost(), 4000u);
  EXPECT_EQ(recorder.events().lost(), 4000u);
}

}  // namespace
}  // namespace lagoon::testing

#endif  // LAGOON_COUNTS_ALLOCATIONS

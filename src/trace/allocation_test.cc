// Recording does not allocate. The count is the program's, so this file replaces operator new for
// all of the layer's tests. Not under ThreadSanitizer, which brings its own.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAGOON_HAS_OWN_NEW
#endif
#endif
#ifndef LAGOON_HAS_OWN_NEW

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sched/testing/sim_scenario.h"
#include "trace/recorder.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  std::abort();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

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

#endif  // LAGOON_HAS_OWN_NEW

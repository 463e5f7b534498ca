// The queue's methods and the simulation behind them do not allocate.

#include "base/testing/allocations.h"

#ifdef LAGOON_COUNTS_ALLOCATIONS

#include <array>

#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

TEST(SimAllocation, NothingAllocatesOnceTheDeviceIsBuilt) {
  SimDeviceOptions options;
  options.gpu = *LoadGpuModel("h200");
  const auto device = Make(options);
  const KernelHandle kernel = LoadKernel(
      *device, {.time = std::chrono::microseconds(40), .time_spread = 0.2, .threads = 256});
  const GuardId guard = *device->CreateGuard();
  const StreamId stream = *device->CreateStream({"a"});
  std::vector<std::unique_ptr<Record>> records;
  for (int i = 0; i < 300; ++i) records.push_back(std::make_unique<Record>(500));
  Record copied(1);
  const std::uint64_t before = allocations.load();
  std::array<DeviceEvent, 32> events;
  std::size_t seen = 0;
  for (std::uint32_t i = 0; i < records.size(); ++i) {
    Launch launch{.kernel = kernel, .progress = records[i]->get()};
    launch.guards[0] = {device->GuardWord(guard), i / 50, false};
    const StreamId on = i % 2 == 0 ? kUnordered : stream;
    EXPECT_EQ(device->Submit(launch.As(LaunchId{i}, on, i % 7)), SubmitResult::kOk);
    if (i == 100) {
      const Copy copy{.bytes = 9, .progress = copied.get()};
      EXPECT_EQ(device->Transfer(copy), SubmitResult::kOk);
    }
    if (i % 50 == 49) device->Raise(guard, i / 50 + 1);
    if (i % 3 == 0) device->Wait(device->Now() + std::chrono::microseconds(100));
    seen += device->Poll(events);
  }
  device->Wait(device->Now() + std::chrono::milliseconds(1));
  EXPECT_EQ(allocations.load(), before);
  EXPECT_GT(seen, 300u);
  EXPECT_GT(device->blocks_ended(), 10'000u);
}

}  // namespace
}  // namespace lagoon::sim_testing

#endif  // LAGOON_COUNTS_ALLOCATIONS

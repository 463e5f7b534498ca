#include "bench/shares/timed_copies.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <vector>

#include "base/time.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using namespace std::chrono_literals;

Status Lost(const Device& device) {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("device '{}' was lost during a copy", device.info().name));
}

// Takes events until `left` copies have retired.
Status WaitForAll(Device& device, std::size_t left) {
  std::array<DeviceEvent, 64> events;
  while (left > 0) {
    const std::size_t count = device.Poll(events);
    if (count == 0) device.Wait(device.Now() + 1s);
    for (const DeviceEvent& event : std::span(events).first(count)) {
      if (event.kind == DeviceEvent::Kind::kLost) return Lost(device);
      if (event.kind == DeviceEvent::Kind::kRetired) --left;
    }
  }
  return {};
}

Status CopyAll(Device& device, std::span<const Copy> copies) {
  std::size_t submitted = 0;
  SubmitResult result = SubmitResult::kOk;
  for (Copy copy : copies) {
    copy.id = LaunchId{submitted};
    copy.rank = submitted;
    copy.deps = {};
    result = device.Transfer(copy);
    if (result != SubmitResult::kOk) break;
    ++submitted;
  }
  if (result == SubmitResult::kLost) return Lost(device);
  LAGOON_RETURN_IF_ERROR(WaitForAll(device, submitted));
  if (submitted == copies.size()) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("device '{}' takes {} copies at once, there are {}", device.info().name,
                          submitted, copies.size()));
}

}  // namespace

Result<double> TimeCopies(Device& device, std::span<const Copy> copies, int runs,
                          const std::function<void()>& reset) {
  std::vector<double> times_ms;
  for (int run = 0; run < runs; ++run) {
    reset();
    const TimePoint start = device.Now();
    LAGOON_RETURN_IF_ERROR(CopyAll(device, copies));
    times_ms.push_back(ToMilliseconds(device.Now() - start));
  }
  return Median(times_ms);
}

Result<MeasuredCopies> TimeCopiesOf(Instance& instance, Device& device,
                                    std::span<const void* const> inputs,
                                    std::span<void* const> outputs, int runs) {
  std::vector<Copy> up, down;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    up.push_back(instance.InputCopy(i, inputs[i]));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    down.push_back(instance.OutputCopy(i, outputs[i]));
  }
  const auto reset = [&] { instance.Reset(); };
  MeasuredCopies copies;
  LAGOON_ASSIGN_OR_RETURN(copies.up_ms, TimeCopies(device, up, runs, reset));
  LAGOON_ASSIGN_OR_RETURN(copies.down_ms, TimeCopies(device, down, runs, reset));
  instance.Reset();
  return copies;
}

}  // namespace lagoon::bench

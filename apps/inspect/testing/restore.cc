#include "apps/inspect/testing/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace lagoon {
namespace {

class RestoringRun {
 public:
  RestoringRun(Instance& instance, Device& device, const RestoreOptions& options,
               RestoreStats& stats)
      : instance_(instance), device_(device), options_(options), stats_(stats) {}

  Status Execute(std::span<const void* const> inputs, std::span<void* const> outputs) {
    instance_.Reset();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(RunCopy(instance_.InputCopy(i, inputs[i])));
    }
    for (std::uint32_t op = 0; op < options_.groups.size();) {
      LAGOON_RETURN_IF_ERROR(RunKernel(op));
      op = instance_.progress(op).Complete() ? op + 1 : Restore(op);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(RunCopy(instance_.OutputCopy(i, outputs[i])));
    }
    return {};
  }

 private:
  // Forgets the results of the interrupted op's group and returns the first op of the group.
  std::uint32_t Restore(std::uint32_t op) {
    const std::uint32_t first = options_.groups[op];
    for (std::uint32_t i = first; i <= op; ++i) instance_.progress(i).Reset();
    const std::size_t kernels = op - first + 1;
    ++stats_.revocations;
    stats_.reexecuted += kernels;
    stats_.max_reexecuted = std::max(stats_.max_reexecuted, kernels);
    return first;
  }

  Status RunCopy(Copy copy) {
    copy.id = NextId();
    LAGOON_RETURN_IF_ERROR(Accept(device_.Transfer(copy)));
    return Await(std::nullopt);
  }

  Status RunKernel(std::uint32_t op) {
    const std::atomic<std::uint32_t>* word = device_.GuardWord(options_.guard);
    Launch launch = instance_.launch(op).As(NextId());
    launch.guards[0] = {word, word->load()};
    const std::optional<Nanoseconds> revoke_after = options_.revoke_after();
    const TimePoint submitted = device_.Now();
    LAGOON_RETURN_IF_ERROR(Accept(device_.Submit(launch)));
    if (!revoke_after) return Await(std::nullopt);
    return Await(submitted + *revoke_after);
  }

  LaunchId NextId() { return LaunchId{++last_id_}; }

  Status Accept(SubmitResult result) const {
    if (result == SubmitResult::kOk) return {};
    return Fail(
        result == SubmitResult::kLost ? ErrorCode::kInternal : ErrorCode::kUnavailable,
        fmt::format("model '{}': device '{}' {}", instance_.plan().model, device_.info().name,
                    result == SubmitResult::kLost ? "was lost" : "is not idle"));
  }

  // Waits until the one launch in flight has retired; raises the guard at `revoke_at`.
  Status Await(std::optional<TimePoint> revoke_at) {
    for (;;) {
      std::array<DeviceEvent, 8> events;
      const std::size_t count = device_.Poll(events);
      for (const DeviceEvent& event : std::span(events).first(count)) {
        if (event.kind == DeviceEvent::Kind::kLost) return Accept(SubmitResult::kLost);
        if (event.kind == DeviceEvent::Kind::kRetired) return {};
      }
      if (revoke_at && device_.Now() >= *revoke_at) {
        const std::uint32_t value = device_.GuardWord(options_.guard)->load() + 1;
        LAGOON_RETURN_IF_ERROR(Accept(device_.Raise(options_.guard, value)));
        revoke_at.reset();
      } else if (count == 0 && !revoke_at) {
        device_.Wait(device_.Now() + std::chrono::seconds(1));
      }
    }
  }

  Instance& instance_;
  Device& device_;
  const RestoreOptions& options_;
  RestoreStats& stats_;
  std::uint64_t last_id_ = 0;
};

}  // namespace

Status RunWithRestore(Instance& instance, Device& device, std::span<const void* const> inputs,
                      std::span<void* const> outputs, const RestoreOptions& options,
                      RestoreStats& stats) {
  const Plan& plan = instance.plan();
  LAGOON_CHECK(inputs.size() == plan.inputs.size() && outputs.size() == plan.outputs.size());
  LAGOON_CHECK(options.groups.size() == plan.ops.size());
  return RestoringRun(instance, device, options, stats).Execute(inputs, outputs);
}

}  // namespace lagoon

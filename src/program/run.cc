#include "program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "program/compile.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;

/// One execution of a plan on an idle device. A step is an input copy, an op or an output copy, in
/// that order; its launch id is its index.
class Run {
 public:
  Run(Instance& instance, Device& device, const RunOptions& options)
      : instance_(instance), device_(device), options_(options) {}

  Status Execute(std::span<const void* const> inputs, std::span<void* const> outputs) {
    inputs_ = inputs;
    outputs_ = outputs;
    instance_.Reset();
    const std::size_t steps = inputs.size() + plan().ops.size() + outputs.size();
    PlanRevocation();
    while (next_ < steps || !again_.empty() || in_flight_ > 0) {
      LAGOON_RETURN_IF_ERROR(SubmitAll(steps));
      LAGOON_RETURN_IF_ERROR(TakeEvents());
    }
    auto made = instance_.TakeMade();
    if (options_.made != nullptr) *options_.made = std::move(made);
    if (const std::shared_ptr<const Error> failure = instance_.Failure()) {
      return Annotate(fmt::format("model '{}'", plan().model), *failure);
    }
    return {};
  }

 private:
  const Plan& plan() const { return instance_.plan(); }

  Status Lost() const {
    return Fail(ErrorCode::kInternal,
                fmt::format("model '{}': device '{}' was lost", plan().model, device_.info().name));
  }

  /// Submits incomplete ops first, because all queued steps may wait for them.
  Status SubmitAll(std::size_t steps) {
    while (in_flight_ < options_.max_in_flight && (!again_.empty() || MayStart(steps))) {
      const std::size_t step = again_.empty() ? next_ : again_.back();
      const SubmitResult result = Submit(step);
      if (result == SubmitResult::kLost) return Lost();
      if (result == SubmitResult::kFull) {
        if (in_flight_ > 0) return {};
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("model '{}': device '{}' takes no launch, so it is not idle",
                                plan().model, device_.info().name));
      }
      if (again_.empty()) {
        ++next_;
      } else {
        again_.pop_back();
      }
      ++in_flight_;
    }
    return {};
  }

  /// Whether the step next_ may be submitted: it exists, and its part has begun.
  bool MayStart(std::size_t steps) {
    if (next_ == steps) return false;
    if (part_ == options_.part_ends.size()) return true;
    const std::size_t end = inputs_.size() + options_.part_ends[part_];
    if (next_ < end) return true;
    if (in_flight_ > 0) return false;
    ++part_;
    return true;
  }

  SubmitResult Submit(std::size_t step) {
    const LaunchId id{step};
    if (step < inputs_.size()) {
      Copy copy = instance_.InputCopy(step, inputs_[step]);
      copy.id = id;
      copy.rank = step;
      return device_.Transfer(copy);
    }
    const std::size_t op = step - inputs_.size();
    if (op < plan().ops.size()) {
      Launch launch = instance_.launch(op).As(id, kUnordered, step);
      launch.share = options_.share;
      if (options_.revoke_after) {
        const std::atomic<std::uint32_t>* word = device_.GuardWord(options_.guard);
        launch.guards[0] = {word, word->load()};
      }
      return device_.Submit(launch);
    }
    const std::size_t output = op - plan().ops.size();
    Copy copy = instance_.OutputCopy(output, outputs_[output]);
    copy.id = id;
    copy.rank = step;
    return device_.Transfer(copy);
  }

  Status TakeEvents() {
    std::array<DeviceEvent, 64> events;
    const std::size_t count = device_.Poll(events);
    if (count == 0 && in_flight_ > 0) {
      device_.WaitForMany(std::min(device_.Now() + 1s, revoke_at_), AwaitedLaunches());
    }
    for (const DeviceEvent& event : std::span(events).first(count)) {
      if (event.kind == DeviceEvent::Kind::kLost) return Lost();
      OnEvent(event);
    }
    if (device_.Now() < revoke_at_) return {};
    const std::uint32_t value = device_.GuardWord(options_.guard)->load() + 1;
    if (device_.Raise(options_.guard, value) == SubmitResult::kLost) return Lost();
    PlanRevocation();
    return {};
  }

  /// How many launches to wait for at once: all, or half where others wait for their room.
  std::size_t AwaitedLaunches() const {
    const bool more = next_ < inputs_.size() + plan().ops.size() + outputs_.size();
    return more ? (in_flight_ + 1) / 2 : in_flight_;
  }

  void PlanRevocation() {
    const auto after = options_.revoke_after ? options_.revoke_after() : std::nullopt;
    revoke_at_ = after ? device_.Now() + *after : TimePoint::max();
  }

  void OnEvent(const DeviceEvent& event) {
    const std::size_t step = Raw(event.launch);
    const std::size_t op = step - inputs_.size();
    const bool is_op = step >= inputs_.size() && op < plan().ops.size();
    if (event.kind == DeviceEvent::Kind::kRetired) {
      --in_flight_;
      if (!is_op || instance_.progress(op).Complete()) return;
      again_.push_back(step);
      if (options_.revoked != nullptr) ++*options_.revoked;
      return;
    }
    if (!is_op || options_.times.empty()) return;
    OpTimes& times = options_.times[op];
    (event.kind == DeviceEvent::Kind::kPlaced ? times.placed : times.complete) = event.at;
  }

  Instance& instance_;
  Device& device_;
  const RunOptions& options_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  std::size_t next_ = 0;            // the first step that was never submitted
  std::vector<std::size_t> again_;  // ops that retired incomplete
  std::size_t in_flight_ = 0;
  std::size_t part_ = 0;  // index in RunOptions::part_ends of the part under way
  TimePoint revoke_at_ = TimePoint::max();
};

}  // namespace

Status RunPlan(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs, const RunOptions& options) {
  const Plan& plan = instance.plan();
  LAGOON_CHECK(inputs.size() == plan.inputs.size() && outputs.size() == plan.outputs.size());
  LAGOON_CHECK(options.times.empty() || options.times.size() == plan.ops.size());
  return Run(instance, device, options).Execute(inputs, outputs);
}

Status RunOnce(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs) {
  return RunPlan(instance, device, inputs, outputs, {});
}

}  // namespace lagoon

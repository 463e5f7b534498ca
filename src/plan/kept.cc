#include "plan/kept.h"

#include "plan/pages.h"

namespace lagoon {

std::optional<std::size_t> ReplacedInput(const Plan& plan, const PlanTensor& output) {
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const ByteRange& range = plan.inputs[i].range;
    if (range.bytes > 0 && range.Overlaps(output.range)) return i;
  }
  return std::nullopt;
}

void ReleaseKept(const Instance& instance, const DeviceControl& device) {
  if (!device.info().memory_on_host) return;
  const Plan& plan = instance.plan();
  for (const PlanTensor& output : plan.outputs) {
    const std::optional<std::size_t> input = ReplacedInput(plan, output);
    if (!input) continue;
    const ByteRange& range = plan.inputs[*input].range;
    ReleaseToZero(instance.arena(range), range.bytes);
  }
}

}  // namespace lagoon

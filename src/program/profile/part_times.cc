#include "program/profile/part_times.h"

#include <algorithm>
#include <memory>

#include "program/link/host_tensors.h"
#include "program/run.h"

namespace lagoon {
namespace {

/// From the first start to the last commit of the ops [begin, end).
Nanoseconds Spent(std::span<const OpTimes> times) {
  const auto first = std::ranges::min_element(times, {}, &OpTimes::placed);
  const auto last = std::ranges::max_element(times, {}, &OpTimes::complete);
  return last->complete - first->placed;
}

Nanoseconds MedianOf(std::vector<Nanoseconds> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

}  // namespace

Result<PartTimes> MeasureParts(LoadedPlan& loaded, Device& device,
                               std::span<const std::uint32_t> ends, int runs) {
  // The instance borrows `loaded`.
  const std::shared_ptr<const LoadedPlan> borrowed(std::shared_ptr<void>(), &loaded);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          Instance::Create(borrowed, device));
  const HostTensors host(loaded.plan);
  std::vector<OpTimes> times(loaded.plan.ops.size());
  RunOptions options;
  options.times = times;
  options.part_ends = ends;
  std::vector<std::vector<Nanoseconds>> samples(ends.size() + 1);  // the last one: of the whole
  for (int run = 0; run <= std::max(runs, 1); ++run) {
    LAGOON_RETURN_IF_ERROR(RunPlan(*instance, device, host.inputs(), host.outputs(), options));
    if (run == 0) continue;  // its caches are cold
    std::size_t begin = 0;
    for (std::size_t part = 0; part < ends.size(); ++part) {
      samples[part].push_back(Spent(std::span(times).subspan(begin, ends[part] - begin)));
      begin = ends[part];
    }
    samples.back().push_back(Spent(times));
  }
  PartTimes measured;
  measured.whole = MedianOf(std::move(samples.back()));
  samples.pop_back();
  for (auto& of_part : samples) measured.parts.push_back(MedianOf(std::move(of_part)));
  return measured;
}

}  // namespace lagoon

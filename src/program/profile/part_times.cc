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

/// The runs of one candidate.
class Samples {
 public:
  explicit Samples(std::span<const std::uint32_t> ends)
      : ends_(ends.begin(), ends.end()), parts_(ends.size()) {}

  const std::vector<std::uint32_t>& ends() const { return ends_; }

  void Add(std::span<const OpTimes> times) {
    std::size_t begin = 0;
    for (std::size_t part = 0; part < ends_.size(); ++part) {
      parts_[part].push_back(Spent(times.subspan(begin, ends_[part] - begin)));
      begin = ends_[part];
    }
    whole_.push_back(Spent(times));
  }

  PartTimes Medians() const {
    PartTimes medians;
    medians.whole = MedianOf(whole_);
    for (const auto& of_part : parts_) medians.parts.push_back(MedianOf(of_part));
    return medians;
  }

 private:
  std::vector<std::uint32_t> ends_;
  std::vector<std::vector<Nanoseconds>> parts_;
  std::vector<Nanoseconds> whole_;
};

}  // namespace

Result<std::vector<PartTimes>> MeasureParts(LoadedPlan& loaded, Device& device,
                                            std::span<const std::vector<std::uint32_t>> candidates,
                                            int runs,
                                            const std::function<void(int turn, int of)>& progress) {
  // The instance borrows `loaded`.
  const std::shared_ptr<const LoadedPlan> borrowed(std::shared_ptr<void>(), &loaded);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          Instance::Create(borrowed, device));
  const HostTensors host(loaded.plan);
  std::vector<OpTimes> times(loaded.plan.ops.size());
  std::vector<Samples> samples;
  for (const std::vector<std::uint32_t>& ends : candidates) samples.emplace_back(ends);
  const int turns = std::max(runs, 1) + 1;
  for (int turn = 0; turn < turns; ++turn) {
    if (progress) progress(turn, turns);
    for (Samples& of : samples) {
      RunOptions options;
      options.times = times;
      options.part_ends = of.ends();
      LAGOON_RETURN_IF_ERROR(RunPlan(*instance, device, host.inputs(), host.outputs(), options));
      if (turn > 0) of.Add(times);  // the first turn finds cold caches
    }
  }
  std::vector<PartTimes> medians;
  for (const Samples& of : samples) medians.push_back(of.Medians());
  return medians;
}

}  // namespace lagoon

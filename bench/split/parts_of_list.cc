#include "bench/split/parts_of_list.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "program/split/choose.h"
#include "program/split/split_shape.h"

namespace lagoon::bench {
namespace {

constexpr SplitTable3Row kTable3[] = {{"resnet50", 2, 0.62, 0.154}, {"resnet50", 3, 1.33, 0.424},
                                      {"resnet50", 4, 2.0, 0.503},  {"vgg19", 2, 0.02, 0.198},
                                      {"vgg19", 3, 1.1, 0.181},     {"vgg19", 4, 5.03, 0.276}};

// Table 1.
double WholeMs(std::string_view model) { return model == "resnet50" ? 28.35 : 67.5; }

}  // namespace

std::span<const SplitTable3Row> SplitTable3() { return kTable3; }

std::vector<SplitTable3Row> SplitTable3(std::string_view model) {
  std::vector<SplitTable3Row> rows;
  for (const SplitTable3Row& row : kTable3) {
    if (row.model == model) rows.push_back(row);
  }
  return rows;
}

std::uint32_t PartsOfTable3(std::string_view model) {
  const std::vector<SplitTable3Row> rows = SplitTable3(model);
  if (rows.empty()) return 1;
  std::vector<double> fitness;
  for (const SplitTable3Row& row : rows) {
    fitness.push_back(
        SplitFitness(row.sigma_ms * 1e3, row.overhead, WholeMs(model) * 1e3, row.parts));
  }
  return rows[ChooseByFitness(fitness, 0)].parts;
}

std::vector<std::uint32_t> EvenEnds(const SimModel& model, std::uint32_t parts) {
  const auto count = static_cast<std::uint32_t>(model.kernels.size());
  LAGOON_CHECK(parts >= 1 && parts <= count);
  std::vector<double> before{0};
  for (const SimModelKernel& kernel : model.kernels) {
    before.push_back(before.back() + static_cast<double>(kernel.time.count()));
  }
  std::vector<std::uint32_t> ends;
  for (std::uint32_t part = 1; part < parts; ++part) {
    const double share = before.back() * part / parts;
    // At least one kernel in this part and in each of the later ones.
    std::uint32_t best = ends.empty() ? 1 : ends.back() + 1;
    for (std::uint32_t end = best; end <= count - (parts - part); ++end) {
      if (std::abs(before[end] - share) < std::abs(before[best] - share)) best = end;
    }
    ends.push_back(best);
  }
  ends.push_back(count);
  return ends;
}

SimModel CutIntoParts(const SimModel& model, std::uint32_t parts, double overhead,
                      const SimConstants& constants) {
  SimModel cut = model;
  cut.part_ends.clear();
  if (parts == 1) return cut;
  const std::vector<std::uint32_t> ends = EvenEnds(model, parts);
  if (overhead == 0) {
    cut.part_ends = ends;
    return cut;
  }
  const double copies = 2.0 * (parts - 1);
  const auto whole = static_cast<double>(model.statistics.time.count());
  const Nanoseconds gap(constants.dependent_gap_ns);  // behind each kernel
  const Nanoseconds time = Nanoseconds(std::llround(overhead * whole / copies)) - gap;
  LAGOON_CHECK(time.count() > 0);
  const SimModelKernel copy =
      FullKernel(time, static_cast<std::uint32_t>(constants.units), model.statistics.block);
  cut.kernels.clear();
  const auto size = [&] { return static_cast<std::uint32_t>(cut.kernels.size()); };
  const auto add_copy = [&] {
    cut.cut_ops.push_back(size());
    cut.kernels.push_back(copy);
  };
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    if (begin > 0) add_copy();
    cut.kernels.insert(cut.kernels.end(), model.kernels.begin() + begin,
                       model.kernels.begin() + end);
    if (end != ends.back()) add_copy();
    cut.part_ends.push_back(size());
    begin = end;
  }
  // Each kernel waits for the one before, so that the copies stand between the parts. The first of
  // a part also waits for the last of the part before, as a whole model has no copies.
  for (SimModelKernel& kernel : cut.kernels) kernel.deps.reset();
  for (std::size_t i = 0; i < cut.cut_ops.size(); i += 2) {
    const std::uint32_t out = cut.cut_ops[i];
    cut.kernels[out + 1].deps = {{out - 1, out}};
    cut.kernels[out + 2].deps = {{out - 1, out, out + 1}};
  }
  return cut;
}

}  // namespace lagoon::bench

#include "program/profile/versions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/check.h"
#include "program/compile.h"
#include "program/profile/profile_run.h"

namespace lagoon {
namespace {

std::size_t MostVersions(const Plan& plan) {
  std::size_t most = 0;
  for (const PlanOp& op : plan.ops) most = std::max(most, op.versions.size());
  return most;
}

// Ops with fewer versions than others repeat theirs; additional samples do no harm.
Status MeasureRound(LoadedPlan& loaded, Device& device, std::size_t round, int runs) {
  Plan& plan = loaded.plan;
  for (PlanOp& op : plan.ops) {
    if (!op.versions.empty()) {
      UseVersion(op, static_cast<std::uint32_t>(round % op.versions.size()));
    }
  }
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Nanoseconds> kernels,
                          MeasureKernels(loaded, device, runs));
  const std::uint32_t units = std::max(device.info().units, 1u);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    PlanOp& op = plan.ops[i];
    if (op.versions.empty()) continue;
    OpVersion& version = op.versions[op.version];
    if (round >= op.versions.size() && version.cost.kernel <= kernels[i]) continue;
    version.cost = CostOf(kernels[i], version.blocks, units);
  }
  return {};
}

std::uint32_t Fastest(const PlanOp& op, Nanoseconds max_block) {
  std::uint32_t best = 0;
  const auto key = [&](const OpVersion& version) {
    return std::pair(version.cost.block > max_block, version.cost.kernel);
  };
  for (std::uint32_t i = 1; i < op.versions.size(); ++i) {
    if (key(op.versions[i]) < key(op.versions[best])) best = i;
  }
  return best;
}

// The version other than the one in use whose block time is nearest to that of a faster one.
std::size_t MostSuperfluous(const PlanOp& op) {
  std::size_t found = op.version == 0 ? 1 : 0;
  double nearest = std::numeric_limits<double>::infinity();
  const auto block = [&](std::size_t i) {
    return std::log(
        static_cast<double>(std::max<std::int64_t>(op.versions[i].cost.block.count(), 1)));
  };
  for (std::size_t i = 0; i < op.versions.size(); ++i) {
    if (i == op.version) continue;
    for (std::size_t other = 0; other < op.versions.size(); ++other) {
      if (other == i || op.versions[other].cost.kernel > op.versions[i].cost.kernel) continue;
      const double distance = std::abs(block(i) - block(other));
      if (distance < nearest) {
        nearest = distance;
        found = i;
      }
    }
  }
  return found;
}

void Drop(PlanOp& op, std::size_t index) {
  LAGOON_CHECK(index != op.version);
  op.versions.erase(op.versions.begin() + static_cast<std::ptrdiff_t>(index));
  if (index < op.version) --op.version;
}

}  // namespace

void UseVersion(PlanOp& op, std::uint32_t index) {
  LAGOON_CHECK(index < op.versions.size());
  const OpVersion& version = op.versions[index];
  op.version = index;
  op.args = version.args;
  op.blocks = version.blocks;
  op.scratch_bytes = version.scratch_bytes;
  if (version.cost.kernel.count() > 0) op.cost = version.cost;
  op.occupancy = OccupancyOf(op, index);
  if (!version.kernel) return;
  op.kernel = *version.kernel;
  op.need = version.need;
}

VersionTraits TraitsOf(const OpVersion& version, std::uint32_t units) {
  const std::uint32_t rounds = (version.blocks + units - 1) / units;
  VersionTraits traits;
  traits.kernel = version.cost.kernel;
  traits.block = version.cost.block;
  traits.occupancy = static_cast<double>(version.blocks) / (static_cast<double>(rounds) * units);
  traits.scratch_bytes = version.scratch_bytes;
  traits.blocks = version.blocks;
  return traits;
}

bool Dominates(const VersionTraits& a, const VersionTraits& b) {
  const bool no_worse = a.kernel <= b.kernel && a.block <= b.block && a.occupancy <= b.occupancy &&
                        a.scratch_bytes <= b.scratch_bytes && a.threads <= b.threads &&
                        a.blocks <= b.blocks;
  const bool better = a.kernel < b.kernel || a.block < b.block || a.occupancy < b.occupancy ||
                      a.scratch_bytes < b.scratch_bytes || a.threads < b.threads ||
                      a.blocks < b.blocks;
  return no_worse && better;
}

void PruneVersions(PlanOp& op, std::uint32_t units, std::size_t keep) {
  for (std::size_t i = op.versions.size(); i-- > 0;) {
    if (i == op.version) continue;
    const VersionTraits traits = TraitsOf(op.versions[i], units);
    const bool dominated = std::any_of(
        op.versions.begin(), op.versions.end(),
        [&](const OpVersion& other) { return Dominates(TraitsOf(other, units), traits); });
    if (dominated) Drop(op, i);
  }
  while (op.versions.size() > std::max<std::size_t>(keep, 1)) Drop(op, MostSuperfluous(op));
}

void DropUnmeasuredVersions(Plan& plan) {
  for (PlanOp& op : plan.ops) {
    for (std::size_t i = op.versions.size(); i-- > 0;) {
      if (i != op.version && op.versions[i].cost.kernel <= Nanoseconds(0)) Drop(op, i);
    }
    // A measured choice stays, for ScaleProfile().
    if (op.versions.size() == 1 && op.versions[0].cost.kernel <= Nanoseconds(0))
      op.versions.clear();
    op.versions.shrink_to_fit();
  }
}

Status ProfileVersions(LoadedPlan& loaded, Device& device, const VersionOptions& options) {
  Plan& plan = loaded.plan;
  const std::size_t rounds = MostVersions(plan);
  const int steps = static_cast<int>(rounds) + 1;
  for (std::size_t round = 0; round < rounds; ++round) {
    LAGOON_RETURN_IF_ERROR(MeasureRound(loaded, device, round, options.runs));
    if (options.progress) options.progress(static_cast<int>(round) + 1, steps);
  }
  const std::uint32_t units = std::max(device.info().units, 1u);
  for (PlanOp& op : plan.ops) {
    if (op.versions.empty()) continue;
    UseVersion(op, Fastest(op, options.max_block));
    if (options.measured) options.measured(op);
    PruneVersions(op, units, options.keep);
  }
  LAGOON_RETURN_IF_ERROR(ProfilePlan(loaded, device, options.runs));
  if (options.progress) options.progress(steps, steps);
  return {};
}

}  // namespace lagoon

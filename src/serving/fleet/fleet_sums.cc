#include "serving/fleet/fleet_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

void Add(StageStatistics& sum, const StageStatistics& more) {
  sum.count += more.count;
  sum.ns += more.ns;
}

void Add(std::vector<BatchStatistics>& sums, const std::vector<BatchStatistics>& more) {
  for (const BatchStatistics& batch : more) {
    auto at = std::ranges::lower_bound(sums, batch.batch_size, {}, &BatchStatistics::batch_size);
    if (at == sums.end() || at->batch_size != batch.batch_size) {
      BatchStatistics empty;
      empty.batch_size = batch.batch_size;
      at = sums.insert(at, empty);
    }
    Add(at->compute_input, batch.compute_input);
    Add(at->compute_infer, batch.compute_infer);
    Add(at->compute_output, batch.compute_output);
  }
}

void Add(ModelStatistics& sum, const ModelStatistics& more) {
  using M = ModelStatistics;
  for (const auto count :
       {&M::inference_count, &M::execution_count, &M::rejected, &M::cancelled, &M::backend,
        &M::other, &M::deadline_misses, &M::superseded, &M::too_late, &M::revocations,
        &M::resumed_blocks, &M::repeated_kernels, &M::pending, &M::share_moves}) {
    sum.*count += more.*count;
  }
  for (const auto stage : {&M::success, &M::fail, &M::queue, &M::compute_input, &M::compute_infer,
                           &M::compute_output}) {
    Add(sum.*stage, more.*stage);
  }
  for (std::size_t i = 0; i < sum.histograms.size(); ++i) {
    for (const auto stage : StageHistograms::kAll) {
      (sum.histograms[i].*stage).Add(more.histograms[i].*stage);
    }
  }
  Add(sum.batches, more.batches);
  sum.last_inference_ms = std::max(sum.last_inference_ms, more.last_inference_ms);
  sum.most_rows = std::max(sum.most_rows, more.most_rows);
  sum.share = std::max(sum.share, more.share);
  sum.opaque_max = std::max(sum.opaque_max, more.opaque_max);
}

}  // namespace

void AddStatistics(std::vector<ModelStatistics>& sums, std::span<const ModelStatistics> more) {
  for (const ModelStatistics& row : more) {
    const auto same = std::ranges::find_if(sums, [&](const ModelStatistics& sum) {
      return sum.name == row.name && sum.version == row.version;
    });
    if (same == sums.end()) {
      sums.push_back(row);
    } else {
      Add(*same, row);
    }
  }
}

std::vector<ModelStatus> JoinStatuses(std::span<const std::vector<ModelStatus>> all) {
  std::map<std::pair<std::string, std::string>, ModelStatus> rows;
  for (const std::vector<ModelStatus>& statuses : all) {
    for (const ModelStatus& status : statuses) {
      const auto [at, added] = rows.try_emplace({status.name, status.version}, status);
      if (added) continue;
      ModelStatus& row = at->second;
      const double load_ms = std::max(row.load_ms, status.load_ms);
      const Nanoseconds standalone = std::max(row.standalone, status.standalone);
      // Two changes do not cancel each other out, as they would in a sum.
      const std::uint64_t told = row.told * 31 + status.told;
      const bool better = status.state == ModelState::kReady || row.reason == kNotLoaded;
      if (row.state != ModelState::kReady && better) row = status;
      row.load_ms = load_ms;
      row.standalone = standalone;
      row.told = told;
    }
  }
  std::vector<ModelStatus> joined;
  for (auto at = rows.begin(); at != rows.end(); ++at) {
    // A row without a version comes first of the model's.
    const auto next = std::next(at);
    const bool known = next != rows.end() && next->first.first == at->first.first;
    if (at->first.second.empty() && known) continue;
    joined.push_back(at->second);
  }
  return joined;
}

DispatcherStats SumOf(std::span<const DispatcherStats> all) {
  DispatcherStats sum;
  for (const DispatcherStats& one : all) {
    sum.revocations += one.revocations;
    sum.resumed_blocks += one.resumed_blocks;
    sum.reexecuted += one.reexecuted;
    sum.launches += one.launches;
    sum.refused_launches += one.refused_launches;
    sum.padded_launches += one.padded_launches;
    sum.slices += one.slices;
    sum.holds += one.holds;
    sum.holds_in_vain += one.holds_in_vain;
    sum.off_core += one.off_core;
  }
  return sum;
}

DeviceInfo SumOf(std::span<const DeviceInfo> all) {
  LAGOON_CHECK(!all.empty());
  DeviceInfo sum = all.front();
  std::string names = sum.name;
  for (const DeviceInfo& one : all.subspan(1)) {
    sum.units += one.units;
    sum.memory_bytes += one.memory_bytes;
    sum.max_launches += one.max_launches;
    sum.max_streams += one.max_streams;
    sum.max_guards += one.max_guards;
    names += ", " + one.name;
  }
  if (all.size() > 1)
    sum.description = fmt::format("a fleet of {} devices ({})", all.size(), names);
  return sum;
}

}  // namespace lagoon

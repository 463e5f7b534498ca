#include "sim/placement/grouped_placer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr std::int64_t kRowsOfDemand = 8;

std::vector<std::string> NamesIn(const PlacementView& view) {
  std::vector<std::string> names;
  for (const ModelView& model : view.models) names.push_back(model.name);
  for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) names.push_back(NameOf(view, gpu));
  return names;
}

// Milliseconds of a whole GPU that the model needs each second.
double TimeOf(const ModelView& model) {
  const std::int64_t rows = std::min(kRowsOfDemand, model.most_rows);
  return model.rate * model.latency->AloneMs(rows, 1) / static_cast<double>(rows);
}

// What one group sees, and the models and GPUs of the whole view that its indices mean.
struct Group {
  PlacementView view;
  std::vector<std::size_t> models, gpus;
};

Group GroupOf(const PlacementView& view, std::vector<std::size_t> models,
              std::vector<std::size_t> gpus) {
  Group group{.view = {}, .models = std::move(models), .gpus = std::move(gpus)};
  for (const std::size_t model : group.models) group.view.models.push_back(view.models[model]);
  for (const std::size_t gpu : group.gpus) group.view.gpus.push_back(view.gpus[gpu]);
  for (PlacedReplica replica : view.current.replicas) {
    const auto model = std::ranges::find(group.models, replica.model);
    const auto gpu = std::ranges::find(group.gpus, replica.gpu);
    if (model == group.models.end() || gpu == group.gpus.end()) continue;
    replica.model = static_cast<std::size_t>(model - group.models.begin());
    replica.gpu = static_cast<std::size_t>(gpu - group.gpus.begin());
    group.view.current.replicas.push_back(replica);
  }
  SortReplicas(group.view.current);
  return group;
}

}  // namespace

GroupedPlacer::GroupedPlacer(std::size_t gpus, Make make) : gpus_(gpus), make_(std::move(make)) {
  LAGOON_CHECK(gpus_ > 0);
  placers_.push_back(make_());
}

void GroupedPlacer::Deal(const PlacementView& view) {
  const std::size_t groups = std::max<std::size_t>(1, (view.gpus.size() + gpus_ - 1) / gpus_);
  placers_.clear();
  while (placers_.size() < groups) placers_.push_back(make_());
  std::vector<std::size_t> order(view.models.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&view](std::size_t a, std::size_t b) {
    return TimeOf(view.models[a]) > TimeOf(view.models[b]);
  });
  std::vector<double> time(groups);
  const auto busy = [&](std::size_t group) {
    const std::size_t gpus = std::min(gpus_, view.gpus.size() - group * gpus_);
    return time[group] / static_cast<double>(gpus);
  };
  group_of_.assign(view.models.size(), 0);
  for (const std::size_t model : order) {
    std::size_t least = 0;
    for (std::size_t group = 1; group < groups; ++group) {
      if (busy(group) < busy(least)) least = group;
    }
    group_of_[model] = least;
    time[least] += TimeOf(view.models[model]);
  }
}

Assignment GroupedPlacer::Place(const PlacementView& view) {
  if (std::vector<std::string> names = NamesIn(view); names != names_) {
    names_ = std::move(names);
    Deal(view);
  }
  Assignment all;
  for (std::size_t number = 0; number < placers_.size(); ++number) {
    std::vector<std::size_t> models, gpus;
    for (std::size_t model = 0; model < view.models.size(); ++model) {
      if (group_of_[model] == number) models.push_back(model);
    }
    if (models.empty()) continue;
    const std::size_t end = std::min(view.gpus.size(), (number + 1) * gpus_);
    for (std::size_t gpu = number * gpus_; gpu < end; ++gpu) gpus.push_back(gpu);
    const Group group = GroupOf(view, std::move(models), std::move(gpus));
    const Assignment placed = placers_[number]->Place(group.view);
    for (PlacedReplica replica : placed.replicas) {
      replica.model = group.models[replica.model];
      replica.gpu = group.gpus[replica.gpu];
      all.replicas.push_back(replica);
    }
    for (const RefusedModel& refused : placed.refused) {
      all.refused.push_back({group.models[refused.model], refused.reason});
    }
  }
  SortReplicas(all);
  std::ranges::sort(all.refused, {}, &RefusedModel::model);
  return all;
}

}  // namespace lagoon

#include "cluster/ranges.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

using Order = std::vector<std::size_t>;  // indexes of models, from the first granule on

// The largest set of models in `order` that stay in place, as positions in `order`, ascending.
// nullopt: a pinned model would have to move.
class StayingModels {
 public:
  StayingModels(std::span<const RangeWanted> models, const Order& order, std::uint32_t granules)
      : models_(models), order_(order), granules_(granules), best_(order.size() + 1) {}

  std::optional<std::vector<std::size_t>> Find() {
    for (std::size_t at = 0; at <= order_.size(); ++at) {
      if (at == order_.size() || CanStay(at)) FindBest(at);
    }
    if (!best_.back().reachable) return std::nullopt;
    std::vector<std::size_t> staying;
    for (std::size_t at = best_.back().before; at != kStart; at = best_[at].before) {
      staying.push_back(at);
    }
    std::ranges::reverse(staying);
    return staying;
  }

 private:
  static constexpr std::size_t kStart = static_cast<std::size_t>(-1);

  // The most models that stay before a position, if the model there stays, too. The last entry is
  // the end of the device.
  struct Best {
    bool reachable = false;
    std::size_t staying = 0;
    std::size_t before = kStart;  // position of the one that stays before this one
  };

  const RangeWanted& At(std::size_t at) const { return models_[order_[at]]; }
  bool CanStay(std::size_t at) const { return At(at).now && At(at).now->count == At(at).count; }

  void FindBest(std::size_t at) {
    const std::uint32_t limit = at == order_.size() ? granules_ : At(at).now->first;
    std::uint64_t between = 0;  // granules of the models that move, after `before`
    for (std::size_t before = at; before-- > 0;) {
      if (best_[before].reachable && At(before).now->end() + between <= limit) {
        Take(at, best_[before].staying + 1, before);
      }
      if (At(before).pinned) return;
      between += At(before).count;
    }
    if (between <= limit) Take(at, 0, kStart);
  }

  void Take(std::size_t at, std::size_t staying, std::size_t before) {
    if (best_[at].reachable && best_[at].staying >= staying) return;
    best_[at] = {true, staying, before};
  }

  std::span<const RangeWanted> models_;
  const Order& order_;
  std::uint32_t granules_;
  std::vector<Best> best_;
};

std::optional<std::vector<std::size_t>> FindStaying(std::span<const RangeWanted> models,
                                                    const Order& order, std::uint32_t granules) {
  return StayingModels(models, order, granules).Find();
}

Order PresentOrder(std::span<const RangeWanted> models) {
  Order order;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].now) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return models[i].now->first; });
  return order;
}

// Puts the new model where the most others stay; of equal positions, the last one.
void Insert(std::span<const RangeWanted> models, std::size_t model, std::uint32_t granules,
            Order& order) {
  std::size_t best = order.size(), most = 0;
  for (std::size_t at = order.size() + 1; at-- > 0;) {
    Order tried = order;
    tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(at), model);
    const auto staying = FindStaying(models, tried, granules);
    if (staying && staying->size() + 1 > most) {
      best = at;
      most = staying->size() + 1;
    }
  }
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(best), model);
}

// Ranges for all models: those at the positions `staying` have theirs, the others lie as near as
// possible to their present place.
std::vector<GranuleRange> PlaceAll(std::span<const RangeWanted> models, const Order& order,
                                   const std::vector<std::size_t>& staying,
                                   std::uint32_t granules) {
  // By position: where the model must end at the latest.
  std::vector<std::uint32_t> ends(order.size());
  std::uint32_t limit = granules;
  auto stays = staying.rbegin();
  for (std::size_t at = order.size(); at-- > 0;) {
    const RangeWanted& model = models[order[at]];
    if (stays != staying.rend() && *stays == at) {
      limit = model.now->end();
      ++stays;
    }
    ends[at] = limit;
    limit -= model.count;
  }
  std::vector<GranuleRange> ranges(models.size());
  std::uint32_t free = 0;  // first granule behind the models placed so far
  for (std::size_t at = 0; at < order.size(); ++at) {
    const RangeWanted& model = models[order[at]];
    const std::uint32_t latest = ends[at] - model.count;
    const std::uint32_t first =
        std::clamp(model.now ? model.now->first : free, free, std::max(free, latest));
    ranges[order[at]] = {first, model.count};
    free = first + model.count;
  }
  return ranges;
}

// As the models keep their order, there is always one that can move: a model that waits for one
// behind it cannot be waited for by one before it.
std::vector<std::size_t> SafeOrder(std::span<const RangeWanted> models,
                                   std::span<const GranuleRange> ranges) {
  std::vector<std::optional<GranuleRange>> present;
  std::vector<std::size_t> waiting, order;
  for (std::size_t i = 0; i < models.size(); ++i) {
    present.push_back(models[i].now);
    if (models[i].now != ranges[i]) waiting.push_back(i);
  }
  const auto is_free = [&](std::size_t mover) {
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (i != mover && present[i] && present[i]->Overlaps(ranges[mover])) return false;
    }
    return true;
  };
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, is_free);
    LAGOON_CHECK(next != waiting.end());
    present[*next] = ranges[*next];
    order.push_back(*next);
    waiting.erase(next);
  }
  return order;
}

}  // namespace

std::optional<Repacking> Repack(std::span<const RangeWanted> models, std::uint32_t granules) {
  Order order = PresentOrder(models);
  std::uint64_t sum = 0;
  for (const RangeWanted& model : models) {
    LAGOON_CHECK(model.count >= 1);
    LAGOON_CHECK(!model.pinned || (model.now && model.now->count == model.count));
    sum += model.count;
  }
  LAGOON_CHECK(sum <= granules);
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    LAGOON_CHECK(models[i].now->first >= end);
    end = std::uint64_t{models[i].now->first} + models[i].now->count;
    LAGOON_CHECK(end <= granules);
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (!models[i].now) Insert(models, i, granules, order);
  }
  const auto staying = FindStaying(models, order, granules);
  if (!staying) return std::nullopt;
  Repacking result{PlaceAll(models, order, *staying, granules), {}};
  result.order = SafeOrder(models, result.ranges);
  return result;
}

}  // namespace lagoon

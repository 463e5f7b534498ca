#include "cluster/placement/placement_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace lagoon {

PlacementJudge::Verdict PlacementJudge::Judge(const PlacementView& view, const Assignment& proposed,
                                              TimePoint now) {
  if (const Status checked = CheckAssignment(view, proposed); !checked) {
    return {Judgement::kBroken, "the placement is refused: " + checked.error().message};
  }
  const auto before = PlacesOf(view.current), after = PlacesOf(proposed);
  const auto has = [](const auto& places, std::size_t model) {
    return std::ranges::any_of(places, [model](const auto& place) { return place.first == model; });
  };
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    if (has(before, model) || !has(after, model)) continue;
    moved_ = now;
    moved_once_ = true;
    return {Judgement::kApply,
            fmt::format("model {} had no replica", Quoted(view.models[model].name))};
  }
  if (before != after) return JudgeMoves(NamesOf(view, view.current), NamesOf(view, proposed), now);
  agreed_ = 0;
  double change = 0;
  const PlacedReplica* most = nullptr;
  for (const PlacedReplica& replica : proposed.replicas) {
    for (const PlacedReplica& now_there : view.current.replicas) {
      if (now_there.model != replica.model || now_there.gpu != replica.gpu) continue;
      const double by = std::abs(replica.fraction - now_there.fraction);
      if (by <= change) continue;
      change = by;
      most = &replica;
    }
  }
  if (change < kFraction) return {Judgement::kKeep, "no replica would change"};
  return {Judgement::kApply,
          fmt::format("arrivals are split anew: the fraction of model {} on {} changes by {:.2f}",
                      Quoted(view.models[most->model].name), NameOf(view, most->gpu), change)};
}

// Views of two decisions may have the same model or GPU at different places.
PlacementJudge::Places PlacementJudge::NamesOf(const PlacementView& view,
                                               const Assignment& assignment) {
  Places names;
  for (const PlacedReplica& replica : assignment.replicas) {
    names.emplace_back(view.models[replica.model].name, NameOf(view, replica.gpu));
  }
  std::ranges::sort(names);
  return names;
}

std::string PlacementJudge::MovesOf(const Places& before, const Places& after) {
  Places come, go;
  std::ranges::set_difference(after, before, std::back_inserter(come));
  std::ranges::set_difference(before, after, std::back_inserter(go));
  const std::size_t changes = come.size() + go.size();
  const auto& [model, gpu] = come.empty() ? go.front() : come.front();
  return fmt::format("model {} {} {}{}", Quoted(model), come.empty() ? "leaves" : "goes to", gpu,
                     changes > 1 ? fmt::format(" (one of {} changes)", changes) : "");
}

PlacementJudge::Verdict PlacementJudge::JudgeMoves(const Places& before, Places proposed,
                                                   TimePoint now) {
  const std::string moves = MovesOf(before, proposed);
  agreed_ = agreed_ > 0 && proposed == last_ ? agreed_ + 1 : 1;
  last_ = std::move(proposed);
  if (now < moved_) moved_ = now;  // the clock was set back
  if (agreed_ < rules_.confirmations) {
    return {Judgement::kWait, fmt::format("{}: {} of {} placements agree on these replicas", moves,
                                          agreed_, rules_.confirmations)};
  }
  if (moved_once_ && now - moved_ < rules_.hold_down) {
    return {Judgement::kWait, fmt::format("{}: the last move was {:.1f} s ago, less than {:.1f} s",
                                          moves, ToMilliseconds(now - moved_) / 1e3,
                                          ToMilliseconds(rules_.hold_down) / 1e3)};
  }
  agreed_ = 0;
  moved_ = now;
  moved_once_ = true;
  return {Judgement::kApply,
          fmt::format("{}: {} placements agree on these replicas", moves, rules_.confirmations)};
}

}  // namespace lagoon

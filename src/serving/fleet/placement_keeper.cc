#include "serving/fleet/placement_keeper.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace lagoon {

Result<std::unique_ptr<PlacementKeeper>> PlacementKeeper::Start(PlacementHost& host,
                                                                const std::string& placer,
                                                                MakePlacer make,
                                                                const PlacementRules& rules) {
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Placer> made, make(placer));
  std::unique_ptr<PlacementKeeper> keeper(new PlacementKeeper(host, std::move(make), rules));
  keeper->runner_ = std::make_unique<PlacerRunner>(std::move(made));
  {
    const MutexLock lock(keeper->mutex_);
    keeper->report_.placer = keeper->runner_->name();
  }
  keeper->thread_ =
      std::jthread([raw = keeper.get()](const std::stop_token& stop) { raw->Run(stop); });
  return keeper;
}

PlacementKeeper::~PlacementKeeper() = default;

Status PlacementKeeper::SetPlacer(const std::string& name) {
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Placer> made, make_(name));
  const MutexLock lock(mutex_);
  if (stuck_ >= kMostStuck) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("{} placers that were replaced still work on a decision; placer '{}' can "
                    "be set when one of them has ended",
                    stuck_, name));
  }
  report_.placer = made->name();
  next_ = std::move(made);
  return {};
}

PlacementKeeper::Report PlacementKeeper::Read() const {
  const MutexLock lock(mutex_);
  return report_;
}

void PlacementKeeper::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-place");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    const TimePoint next = Now() + rules_.period;
    {
      const MutexLock lock(mutex_);
      while (!stop.stop_requested() && Now() < next) wake_.WaitUntil(mutex_, next);
    }
    if (stop.stop_requested()) return;
    DropFormer();
    TakeNewPlacer();
    Decide();
  }
}

void PlacementKeeper::TakeNewPlacer() {
  std::unique_ptr<Placer> next;
  {
    const MutexLock lock(mutex_);
    next = std::move(next_);
  }
  if (next == nullptr) return;
  former_.push_back(std::exchange(runner_, std::make_unique<PlacerRunner>(std::move(next))));
  DropFormer();
  judge_.Forget();
  spdlog::info("placement: placer '{}' decides", runner_->name());
}

/// Ends the threads of placers that were replaced. One that is stuck in a decision goes on.
void PlacementKeeper::DropFormer() {
  std::erase_if(former_, [](const auto& runner) { return !runner->busy(); });
  const MutexLock lock(mutex_);
  stuck_ = former_.size();
}

void PlacementKeeper::Decide() {
  const TimePoint begin = Now();
  PlacementView view = host_.View(begin);
  FleetDecisionReport decision{.placer = runner_->name(), .reason = {}, .at = begin};
  PlacementJudge::Verdict verdict;
  Result<Assignment> placed = tl::unexpected<Error>(Error{});
  if (view.gpus.empty()) {
    verdict.reason = "no member is there on which the placer may load models";
  } else if (const Status checked = CheckView(view); !checked) {
    verdict = {PlacementJudge::Judgement::kBroken, "no decision: " + checked.error().message};
  } else {
    placed = runner_->Place(view, rules_.limit);
    decision.took = Now() - begin;
    verdict = placed ? judge_.Judge(view, *placed, begin)
                     : PlacementJudge::Verdict{PlacementJudge::Judgement::kBroken,
                                               placed.error().message};
  }
  const bool broken = verdict.judgement == PlacementJudge::Judgement::kBroken;
  const bool apply = verdict.judgement == PlacementJudge::Judgement::kApply;
  if (broken && verdict.reason != logged_) {
    spdlog::warn("placement: {}; the present placement stays", verdict.reason);
  }
  logged_ = broken ? verdict.reason : "";
  decision.applied = apply;
  decision.reason = verdict.reason;
  {
    const MutexLock lock(mutex_);
    report_.last = decision;
    ++report_.decisions;
  }
  if (apply) {
    spdlog::info("placement: {}", verdict.reason);
    host_.Apply(*placed);
  }
  if (apply || verdict.judgement == PlacementJudge::Judgement::kKeep) {
    host_.SetShares(*placed, runner_->decides_shares());
  }
}

}  // namespace lagoon

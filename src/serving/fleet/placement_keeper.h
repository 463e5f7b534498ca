#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cluster/placement/placement_judge.h"
#include "serving/core/fleet_control.h"
#include "serving/fleet/placer_runner.h"

namespace lagoon {

/// What a PlacementKeeper needs of the fleet. Called on the keeper's thread.
class PlacementHost {
 public:
  virtual ~PlacementHost() = default;
  /// What serves now, on the devices that are there. The latency models live as long as the host.
  virtual PlacementView View(TimePoint now) = 0;
  /// Makes `assignment`, which passes CheckAssignment for the last View(), what serves. Blocks
  /// until the moves are done.
  virtual void Apply(const Assignment& assignment) = 0;
  /// Sets the shares of the replicas that serve, which are those of `assignment`. If `decided` is
  /// true, each replica gets its granules; if not, the devices tune the shares.
  virtual void SetShares(const Assignment& assignment, bool decided) = 0;
};

/// Decides once per period which device serves which model: measures, asks the placer, judges
/// (PlacementJudge), applies. A placer that fails or overruns its time changes nothing, and the log
/// says so once. Any thread may call any method.
class PlacementKeeper {
 public:
  using MakePlacer = std::function<Result<std::unique_ptr<Placer>>(std::string_view name)>;

  /// `host` outlives the keeper. The errors are those of `make`.
  static Result<std::unique_ptr<PlacementKeeper>> Start(PlacementHost& host,
                                                        const std::string& placer, MakePlacer make,
                                                        const PlacementRules& rules);
  /// Waits for moves and decisions under way.
  ~PlacementKeeper();
  PlacementKeeper(const PlacementKeeper&) = delete;
  PlacementKeeper& operator=(const PlacementKeeper&) = delete;

  /// The next decision is this placer's. The errors are those of `make`; kUnavailable: kMostStuck
  /// placers that were replaced are still busy. Then nothing changes.
  Status SetPlacer(const std::string& name);
  static constexpr std::size_t kMostStuck = 4;

  struct Report {
    std::string placer;
    std::optional<FleetDecisionReport> last;
    std::uint64_t decisions = 0;
  };
  Report Read() const;

 private:
  PlacementKeeper(PlacementHost& host, MakePlacer make, const PlacementRules& rules)
      : host_(host), make_(std::move(make)), rules_(rules), judge_(rules) {}
  void Run(const std::stop_token& stop);
  void Decide();
  void TakeNewPlacer();
  void DropFormer();

  PlacementHost& host_;
  const MakePlacer make_;
  const PlacementRules rules_;
  // Used by the thread only.
  PlacementJudge judge_;
  std::unique_ptr<PlacerRunner> runner_;
  std::vector<std::unique_ptr<PlacerRunner>> former_;  // still work on a decision
  std::string logged_;                                 // the last failure that the log has

  mutable Mutex mutex_;
  CondVar wake_;
  std::unique_ptr<Placer> next_ GUARDED_BY(mutex_);  // takes over; null: none
  std::size_t stuck_ GUARDED_BY(mutex_) = 0;         // of former_
  Report report_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last member: stops before what it uses is destroyed
};

}  // namespace lagoon

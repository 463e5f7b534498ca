#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/monitor.h"
#include "cluster/share_tuner.h"
#include "sim/cluster/cluster_sim.h"

namespace lagoon {

struct GsliceOptions {
  ShareTuner::Options tuner = {};  // granules: those of the device
  /// By index of the model: the part of the device that it needs at first.
  std::vector<double> demands;
  Nanoseconds first{0};  // no tuning before
};

/// GSLICE on one device (3.2): watches each model's load, and lets ShareTuner move the shares. A
/// model has one replica, of the same index.
class GsliceController final : public SimController {
 public:
  /// `options` are valid (ShareTuner::Make), with a demand for each model.
  explicit GsliceController(const GsliceOptions& options);

  void Decide(ClusterSim& sim) override;
  void OnBatch(ClusterSim& sim, const BatchEnded& batch) override;
  void OnStart(ClusterSim& sim, std::size_t model) override;
  void OnStop(ClusterSim& sim, std::size_t model) override;
  void OnResized(ClusterSim& sim, std::size_t replica) override;

  /// Moves that the simulator refused, because of memory.
  std::size_t refused() const { return refused_; }

 private:
  void Join(ClusterSim& sim, std::size_t model);
  void CountArrivals(ClusterSim& sim, std::size_t model);
  void Observe(ClusterSim& sim, std::size_t model);
  void Move(ClusterSim& sim);

  const GsliceOptions options_;
  ShareTuner tuner_;
  std::vector<LoadMonitor> monitors_;               // by model, as the ones below
  std::vector<std::uint64_t> arrived_;              // counted so far
  std::map<std::size_t, ShareTuner::Move> moving_;  // asked of the simulator, by replica
  bool joined_ = false;
  std::size_t refused_ = 0;
};

}  // namespace lagoon

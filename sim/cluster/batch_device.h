#pragma once

// The batches that run on a simulated device, and how fast.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "sim/cluster/cluster_spec.h"

namespace lagoon {

/// A batch on a device.
struct SimBatch {
  std::size_t replica = 0, model = 0;
  std::int64_t rows = 0;
  double share = 1;                   // of the replica, which its batches halve; ShareMode::kShares
  std::uint32_t beside = 1;           // batches of the replica that run, this one included
  Nanoseconds start{0}, end{0};       // `end`: as long as nothing else starts or ends
  std::vector<Nanoseconds> arrivals;  // of the requests
  // Progress.
  double noise = 1;
  double left = 1;      // part of the batch that has not run yet
  double alone_ns = 0;  // at the present share, without noise and neighbours
  double total_ns = 0;  // at the present speed; 0: not known yet
};

/// The time of a batch of `rows` rows of `model` on `share`, in ns.
double AloneNs(const ModelSpec& model, std::int64_t rows, double share);
/// x / (1 + x / limit), see TruthSpec. `cache`, `dram`: the neighbours' load.
double Slowdown(const TruthSpec& truth, double cache, double dram);

/// One device. Whenever a batch starts or ends, the speeds of the others change at once: each goes
/// on from where it is. Not thread-safe.
class BatchDevice {
 public:
  /// `spec` is valid and outlives the device.
  BatchDevice(const ClusterSpec& spec, std::uint32_t seed);

  std::size_t running() const { return count_; }
  double share_in_use() const;

  /// An empty batch to fill, whose vector keeps its memory. It runs from `now` on; its progress
  /// fields are set here.
  SimBatch& Start(Nanoseconds now);
  /// A batch that has ended by `now`. Valid until the next Start().
  const SimBatch* TakeEnded(Nanoseconds now);
  /// After Start() and TakeEnded() at `now`: when the next batch ends. nullopt: none runs.
  std::optional<Nanoseconds> Settle(Nanoseconds now);

 private:
  struct Load {
    double cache = 0, dram = 0;
  };
  void UpdateShares();
  Load LoadOf(const SimBatch& batch) const;
  double Weight(const SimBatch& batch);
  void CountPlaces();

  const ClusterSpec& spec_;
  Random random_;
  double speed_ = 1;                      // factor of all times
  std::vector<double> most_rows_per_ns_;  // by model: of its largest batches on the whole device
  std::vector<SimBatch> batches_;         // the first count_ run
  std::size_t count_ = 0;
  bool changed_ = false;
  Nanoseconds updated_{0};
  std::optional<Nanoseconds> next_end_;
  std::vector<std::vector<double>> weights_;  // [model][rows], 0: not computed yet
};

}  // namespace lagoon

#pragma once

// What the batch-level simulator simulates: devices, models, replicas of models on devices, and
// what the simulated truth has that schedulers do not know.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cluster/batch_limiter.h"
#include "cluster/surface.h"
#include "sim/cluster/arrivals.h"

namespace lagoon {

/// How the models of a device share it.
enum class ShareMode : std::uint8_t {
  kShares,      // each replica runs in its own granules
  kDefaultMps,  // every model may use the whole device; MpsRule says what each gets
  kTimeSlice,   // one batch at a time has the whole device; replicas take turns
};

/// What part of the device a batch gets in ShareMode::kDefaultMps. Nothing is published about
/// this.
enum class MpsRule : std::uint8_t {
  kKnee,  // its knee / the sum of the knees of the batches that run
  kWork,  // its work / the sum of theirs, work = knee x time on the whole device: the blocks of a
          // model that has more to do hold the units for longer
};

/// What a change of a replica's share costs (GSLICE 3.2.4).
enum class ResizeKind : std::uint8_t {
  kNextBatch,  // nothing is loaded: the next batch runs in the new share
  kShadow,     // a copy with the new share is loaded while the old one serves; memory twice
  kRestart,    // the replica stops, is loaded again, and serves nothing meanwhile
};

struct GpuSpec {
  std::uint32_t granules = 100;                // 1 to 4096
  std::int64_t memory_bytes = 16'000'000'000;  // 0 or more
};

struct BatchingSpec {
  std::string limiter = {};  // for MakeBatchLimiter(); empty: `rows` is the limit
  std::int64_t rows = 1;     // the most rows of a batch, 1 to 1024
  /// Waits for a full batch, until the SLO of the first request leaves just enough time for one,
  /// with a margin of 5 % of the SLO, at least 2 ms. Else a batch takes what waits.
  bool fill = false;
  /// When a batch is formed, requests that would be late are dropped. Only with SloOf::kRequest.
  bool drop = false;
};

struct ModelSpec {
  std::string name;                  // not empty, unique
  const Surface* surface = nullptr;  // borrowed, as long as the simulation
  ArrivalSpec arrivals = {};
  Nanoseconds slo{0};            // 1 us to 1 h
  SloOf slo_of = SloOf::kBatch;  // what `late` counts by
  BatchingSpec batching = {};
  std::size_t queue = 65536;      // requests that wait in a replica, at least 1; more are dropped
  std::int64_t memory_bytes = 0;  // of each replica, 0 or more
  /// Load that the largest batches (BatchingSpec::rows) on the whole device put on its cache and
  /// memory, 0 to 1. Other batches put as much on them as they do rows in a second (InSS Fig. 7).
  double cache = 0, dram = 0;
  /// The model's replicas are loaded from `start` on, its arrivals begin, and both end at `stop`.
  Nanoseconds start{0}, stop = Nanoseconds::max();
  Nanoseconds load{2'600'000'000};    // of a replica that is new, after the start of the run
  Nanoseconds resize{2'600'000'000};  // of a replica with another share
};

struct ReplicaSpec {
  std::size_t model = 0, gpu = 0;  // indices
  std::uint32_t granules = 0;      // at least 1 in ShareMode::kShares, else ignored
  double fraction = 1;             // of the model's arrivals, above 0; relative to the others
  std::uint32_t places = 1;        // batches that run at once, 1 or 2; they halve the share
  std::int64_t rows = 0;           // limit of a batch, 0 to 1024; 0: BatchingSpec::rows
};

/// What schedulers do not know. The slowdown of a batch is 1 + x / (1 + x / limit), where x =
/// cache C + dram D + product C D, and C and D are the loads (ModelSpec::cache, dram) of the other
/// replicas' batches that run at that instant.
struct TruthSpec {
  double noise = 0.015;  // standard deviation of a batch's time, relative, lognormal; 0 to 0.2
  double speed = 0.01;   // of the time on a device, relative to the other devices; 0 to 0.2
  double cache = 0.20, dram = 0.25, product = 0.2;  // 0 to 10
  double limit = 0.4;                               // of the slowdown, above 0, at most 10
  bool exponential = false;  // batches take exponential times, for comparison with M/M/1

  /// No noise, devices of equal speed, and a slowdown that is linear in the loads: then a model
  /// that was fitted to the truth is right.
  static TruthSpec Exact();
  /// Twice the slowdown's coefficients. So the largest slowdown of InSS's Fig. 2 is about the
  /// 22.7 % that the paper prints, and not 15.9 %. Noise and limit are as before.
  static TruthSpec Published();
};

struct ReconfigureSpec {
  ResizeKind resize = ResizeKind::kNextBatch;
  Nanoseconds switch_idle{60'000};  // of a replica whose share changes (GSLICE 3.2.4: 50-60 us)
};

struct ClusterSpec {
  std::vector<GpuSpec> gpus = {};          // 1 to 1024
  std::vector<ModelSpec> models = {};      // 1 to 4096
  std::vector<ReplicaSpec> replicas = {};  // of the start; those of later models too
  ShareMode mode = ShareMode::kShares;
  MpsRule mps = MpsRule::kKnee;
  TruthSpec truth = {};
  ReconfigureSpec costs = {};
  std::uint32_t seed = 1;
  Nanoseconds length{0};                // 1 ms to 24 h
  Nanoseconds warmup{0};                // from the start; not in the report's sums. Below `length`
  Nanoseconds decision{1'000'000'000};  // between two decisions of the controller, at least 1 ms
};

/// kInvalidArgument names the field and its value. kResourceExhausted names the device: the shares
/// of replicas of the start are more than 100 %, or their memory is more than there is.
Status CheckCluster(const ClusterSpec& spec);

}  // namespace lagoon

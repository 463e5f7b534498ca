#pragma once

// What a run of the batch-level simulator measured.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/time.h"

namespace lagoon {

/// Counts of times from 1 ns to 4,000 s, each within 0.4 % of its step's middle.
class LatencyHistogram {
 public:
  void Add(Nanoseconds time, std::uint64_t count = 1);
  std::uint64_t count() const { return count_; }
  /// Exact. 0 without times.
  double MeanMs() const;
  /// `part`: 0 to 1. 0 without times.
  double PercentileMs(double part) const;

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
};

/// A second of a model: what ended in it, and what held at its end.
struct SimSecond {
  std::uint64_t arrived = 0, served = 0, late = 0, dropped = 0;  // requests
  std::uint64_t batches = 0;
  double batch_ms = 0;     // sum of the batches' times
  double share = 0;        // of its replicas, in devices
  std::int64_t limit = 0;  // rows that a batch of the first replica may have
  std::uint64_t waiting = 0;
};

struct ModelReport {
  std::string name;
  // These count from the end of the warmup on.
  std::uint64_t arrived = 0, served = 0, late = 0, dropped = 0, batches = 0;
  LatencyHistogram requests;    // from arrival to the end of the batch
  LatencyHistogram batch_time;  // by batch
  LatencyHistogram row_time;    // the time of the batch that a request ran in, by request
  // The seconds of the whole run, warmup included.
  std::vector<SimSecond> seconds;

  double MeanBatch() const;  // rows
  /// late or dropped / (served + dropped)
  double ViolationRate() const;
};

/// A share that changed.
struct SimMove {
  Nanoseconds at{0};  // since the start; of the switch
  std::size_t replica = 0;
  std::uint32_t granules = 0;  // from then on
};

struct SimReport {
  std::vector<ModelReport> models;
  double seconds = 0;  // after the warmup
  std::vector<SimMove> moves;
  std::uint64_t relocations = 0;
  std::uint64_t events = 0;
  /// Mean over the seconds of the unused part of devices that have a replica (shares only).
  double fragments = 0;
  /// Means over the seconds after the warmup (shares only):
  double gpus_used = 0;       // devices that have a replica
  double fragments_each = 0;  // their unused parts, added up: 2 is two whole devices
  /// Rows per second that the replicas could serve if they only ran full batches (InSS Eq. 1: the
  /// sum of rows / time, beside neighbours that do the same), whether or not they get so many
  /// requests. Replicas whose full batches miss the SLO do not count.
  double capacity = 0;

  double Throughput(std::size_t model) const;  // served / s
  double Goodput(std::size_t model) const;     // served in time / s
  /// GSLICE's utilisation efficacy of all models: requests per second / ms, where ms is the mean
  /// time of the batch that a request ran in. For one model alone it is throughput / latency as in
  /// the paper (2.1.4), which does not define it for several.
  double Efficacy() const;
};

/// Every number of the report; the same report gives the same text.
nlohmann::json ToJson(const SimReport& report);

}  // namespace lagoon

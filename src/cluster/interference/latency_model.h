#pragma once

// How long a batch of a model takes on a share of a device while other models run on it (InSS 4).
//   t = up(rows) + t_run(rows, share) (1 + x / (1 + x / limit)) + down(rows)
//   x = constant + cache * C + dram * D
// C and D are the sums of the neighbours' loads on the device's cache and on its memory; x is 0 for
// a model that has no neighbour. up and down are the copies to the device and back, which
// neighbours do not slow down here. The paper has neither a constant nor a limit.

#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "cluster/surface.h"

namespace lagoon {

/// Load on the device's cache and on its memory. 1: as much as the device has.
struct DeviceLoad {
  double cache = 0, dram = 0;

  DeviceLoad& operator+=(const DeviceLoad& more) {
    cache += more.cache;
    dram += more.dram;
    return *this;
  }
  bool operator==(const DeviceLoad&) const = default;
};

/// A model's load, which is linear in its throughput (InSS Eq. 2): offset + slope * rows / s.
struct LoadLine {
  double offset = 0, slope = 0;
  /// 0 or more.
  double At(double rows_per_s) const;
};

struct SlowdownTerms {
  double constant = 0;  // of any neighbours, if there are some
  double cache = 0;     // of each unit of the neighbours' load
  double dram = 0;
  /// What the slowdown approaches as the load grows, above 0. Infinite: it is linear in the load.
  double limit = std::numeric_limits<double>::infinity();
};

/// The milliseconds of a copy of the rows of a batch between host and device (InSS 4.1): beta +
/// alpha * rows. Both are 0 or more. They are 0 where nothing is copied, or where the time of the
/// copy is part of the run's.
struct TransferLine {
  double alpha = 0;  // for each row: its bytes over the link's rate
  double beta = 0;   // for each batch
  double At(std::int64_t rows) const { return beta + alpha * static_cast<double>(rows); }
  bool operator==(const TransferLine&) const = default;
};
struct Transfers {
  TransferLine up = {}, down = {};  // to the device; back to the host
  double At(std::int64_t rows) const { return up.At(rows) + down.At(rows); }
};

/// A batch that is on the device at the same time: as long as it runs, of `rows` on `share`.
class LatencyModel;
struct Neighbour {
  const LatencyModel* model = nullptr;  // borrowed
  std::int64_t rows = 1;
  double share = 1;
};

/// Immutable, so that any thread may read.
class LatencyModel {
 public:
  /// `alone`: the times without neighbours and without `transfers`.
  LatencyModel(Surface alone, LoadLine cache, LoadLine dram, SlowdownTerms slowdown,
               Transfers transfers = {});

  /// Tells the model from all others of this process but its copies.
  std::uint64_t id() const { return id_; }

  /// Milliseconds of a batch of `rows` >= 1 rows on `share`, 0 to 1, without neighbours, with its
  /// copies.
  double AloneMs(std::int64_t rows, double share) const {
    return alone_.LatencyMs(rows, share) + transfers_.At(rows);
  }
  /// The load of the model's batches of `rows` rows on `share`, one after another, alone.
  DeviceLoad LoadOf(std::int64_t rows, double share) const;
  /// How many times as long a batch runs on the device beside neighbours whose loads sum up to
  /// `load`: at least 1, and 1 without neighbours. Copies take no longer, so that this factor times
  /// AloneMs() is an upper bound.
  double Slowdown(const DeviceLoad& load, bool neighbours) const;
  double LatencyMs(std::int64_t rows, double share, std::span<const Neighbour> neighbours) const;

  const Surface& alone() const { return alone_; }
  const LoadLine& cache() const { return cache_; }
  const LoadLine& dram() const { return dram_; }
  const SlowdownTerms& slowdown() const { return slowdown_; }
  const Transfers& transfers() const { return transfers_; }

 private:
  Surface alone_;
  LoadLine cache_, dram_;
  SlowdownTerms slowdown_;
  Transfers transfers_;
  std::uint64_t id_;
};

}  // namespace lagoon

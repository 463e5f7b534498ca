#pragma once

// What the learned placer knows of a replica before it is placed (InSS 5.1, 5.4).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/interference/latency_model.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// A replica that needs a place. Shares are parts of a GPU.
struct Demand {
  std::size_t model = 0;  // index in PlacementView::models
  double fraction = 1;    // of the model's arrivals
  double rate = 0;        // rows per second, of this replica
  double queued = 0;      // rows; stays 0, as training has shown the networks nothing else
  double slo_ms = 1;
  const LatencyModel* latency = nullptr;
  std::int64_t memory_bytes = 0, row_bytes = 0, most_rows = 1;

  /// The least share that keeps the SLO of 99.5 % of the requests if each batch takes a tenth
  /// longer than alone, and the batch limit with which it does. If no share does: 1 + the part of
  /// the requests that is late on a whole GPU.
  double need = 0;
  std::int64_t rows = 1;
  double batch_ms = 1, single_ms = 1;  // alone on `need`, of `rows` rows and of one
  DeviceLoad load = {};                // with `rows` on `need`
  double scale = 1;  // rows per second: root mean square of the throughput on 16 points (InSS 3.3)
};

/// Each model's replicas, in descending order of need, equals in the order of models. A model
/// whose rate is more than 0.9 of what a whole GPU serves within the SLO becomes as many replicas
/// as it takes to load each at most to 0.8, but no more than there are GPUs. `rate` counts with its
/// standard error. `interference`: false: DeviceLoad is 0 (InSS-ni).
std::vector<Demand> DemandsOf(const PlacementView& view, bool interference);

/// Rows per second on a whole GPU of the best batch that takes at most half of the SLO; with
/// batches of one row if there is none.
double MostThroughput(const ModelView& model);

}  // namespace lagoon

#pragma once

// The 28 measurements by which InSS judges its latency model (6.2, Tables 3 and 4).

#include <string>
#include <vector>

#include "sim/cluster/inss_cluster.h"

namespace lagoon {

struct InssRow {
  std::string name;                // "V:16:20% A:8:20% R:8:20%": model, rows, share
  std::vector<SimulatedRun> runs;  // the first is timed; names as in A100Models()
  double observed_ms = 0;          // on the paper's A100
  double predicted_ms = 0;         // by the paper's model
  double paper_error() const;      // |predicted - observed| / observed
};

/// Table 3 by rows, then Table 4 by share. In Table 3 all models have 20 % of the GPU and the
/// neighbours 8 rows; in Table 4 all have 8 rows and the neighbours 20 %. In the last four rows of
/// Table 4 the share of the neighbour varies.
std::vector<InssRow> InssRows();

}  // namespace lagoon

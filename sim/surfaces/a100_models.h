#pragma once

// The eight models that InSS serves on an NVIDIA A100 (6.1), for simulations of its experiments.

#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "cluster/surface.h"

namespace lagoon {

/// A model as the simulated A100 runs it.
struct A100Model {
  const char* name = "";       // as in the paper: A, R, V, M, M1, E, R1, V1
  const char* network = "";    // "AlexNet"
  Nanoseconds slo{0};          // of a request (6.1)
  double cache = 0, dram = 0;  // load of a batch on the whole device, 0 to 1; assumed
  std::int64_t weights_bytes = 0, row_bytes = 0;  // row_bytes: activations; assumed
};

/// In the paper's order.
std::span<const A100Model> A100Models();

/// The surface of the model called `name`, which must be among them. Its points at 20 % (A, R, V)
/// or at 8 rows (M, R1, V1, E) are those that Tables 3 and 4 print; the others are assumed:
/// - over the share, the first three follow a line in 1 / share until a knee (R: 60 % at 8 rows,
///   Fig. 1), which grows with the fourth root of the rows
/// - over the rows, R1 and V1 grow as R and V do
/// - M, M1 and E need a least time that no share shortens, and each row some time of the device
/// - M1 is not printed at all: it lies between M and R1
/// The printed times of A, R1, V, V1 and E are those beside other models, so they contain some
/// interference (about 2 to 5 %), which is not taken out.
const Surface& A100Surface(std::string_view name);

}  // namespace lagoon

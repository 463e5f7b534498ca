#pragma once

// Jobs of Paella's experiments that are no models with a table entry.

#include "device/sim/models.h"

namespace lagoon::bench {

/// Paella 2.1, Figure 2: eight kernels, each one block of 128 threads of 9 registers for 300 us.
SimModel PaellaFigure2Job();

}  // namespace lagoon::bench

#pragma once

#include "kernels/kernel.h"

namespace lagoon {

/// The body of MakeMatmul for kInt16, with MatmulArgs: y (kInt32) = a * b, with a_k == 1 and
/// b_column == 1.
Body FindIntegerMatmulBody();

}  // namespace lagoon

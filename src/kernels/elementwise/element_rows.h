#pragma once

// The kernels that MakeUnary and MakeBinary return for types and ops without a vector body.

#include "kernels/elementwise/elementwise.h"

namespace lagoon {

Result<Kernel> MakeUnaryRows(const UnarySpec& spec);
Result<Kernel> MakeBinaryRows(const BinarySpec& spec);

}  // namespace lagoon

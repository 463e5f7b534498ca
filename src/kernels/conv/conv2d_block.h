#pragma once

#include <cstdint>

#include "device/block.h"

namespace lagoon {

/// Computes tile `block` of a convolution; `args`: Conv2dArgs.
bool Conv2dBody(const void* args, std::uint32_t block, BlockContext& ctx);

}  // namespace lagoon

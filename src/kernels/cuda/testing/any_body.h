#pragma once

// All bodies behind one switch, for the emulator.

#include "kernels/cuda/bodies/bodies.cuh"

namespace lagoon::cuda::testing {

struct AnyBody {
  static bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
                  const BlockControl& control) {
    switch (static_cast<BodyId>(body)) {
#define LAGOON_RUN_BODY(name) \
  case BodyId::k##name:       \
    return OpBody<BodyId::k##name>::Run(body, args, tile, shared, control);
      LAGOON_BODIES(LAGOON_RUN_BODY)
#undef LAGOON_RUN_BODY
    }
    return false;
  }
};

}  // namespace lagoon::cuda::testing

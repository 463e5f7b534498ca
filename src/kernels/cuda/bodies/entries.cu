// The entry kernels of the op bodies: one each, as a kernel that holds several bodies takes the
// registers of the hungriest, and computes a convolution 1.4 times slower (measured on an H200).
// NVRTC compiles this file for the GPU at run time; nvcc compiles it as a check.

#include "kernels/cuda/bodies/bodies.cuh"

#define LAGOON_OP_ENTRY(name) \
  LAGOON_CUDA_ENTRY(lagoon_##name, lagoon::cuda::OpBody<lagoon::cuda::BodyId::k##name>)
LAGOON_BODIES(LAGOON_OP_ENTRY)

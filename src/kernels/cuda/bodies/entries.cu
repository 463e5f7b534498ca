// The entry kernels of the op bodies. NVRTC compiles this file for the GPU at run time; nvcc
// compiles it as a check.

#include "kernels/cuda/bodies/classes.cuh"

LAGOON_CUDA_ENTRY(lagoon_light, lagoon::cuda::LightBodies)
LAGOON_CUDA_ENTRY(lagoon_medium, lagoon::cuda::MediumBodies)
LAGOON_CUDA_ENTRY(lagoon_heavy, lagoon::cuda::HeavyBodies)

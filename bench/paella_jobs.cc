#include "bench/paella_jobs.h"

namespace lagoon::bench {

SimModel PaellaFigure2Job() {
  constexpr std::size_t kKernels = 8;
  SimModelKernel kernel;
  kernel.blocks = 1;
  kernel.time = kernel.block.time = std::chrono::microseconds(300);
  kernel.block.threads = 128;
  kernel.block.registers_per_thread = 9;
  SimModel job;
  job.statistics.device = "gtx1660s";
  job.statistics.model = "figure2";
  job.statistics.kernels = kKernels;
  job.statistics.time = kernel.time * kKernels;
  job.kernels.assign(kKernels, kernel);
  return job;
}

}  // namespace lagoon::bench

// A very small job program: one kernel of its own, launched as often as the request says.
//
//   input "x" FP32 [n], input "steps" INT64 [1]  ->  output "y" FP32 [n]: x times 2 to the "steps"

#include <algorithm>
#include <string>

#include "sched/programs/job_program.h"

namespace {

using lagoon::JobContext;
using lagoon::JobTask;

constexpr std::int64_t kMostSteps = 1000;
constexpr std::size_t kValuesPerBlock = 4096;

struct DoubleArgs {
  float* values;
  std::size_t count;
};

// Each block has values of its own and runs once. The body does not check whether it should leave:
// it takes less than the 20 us within which a body must check (docs/design/block-protocol.md).
bool DoubleBody(const void* args, std::uint32_t block, lagoon::BlockContext& /*ctx*/) {
  const auto& a = *static_cast<const DoubleArgs*>(args);
  const std::size_t first = block * kValuesPerBlock;
  const std::size_t last = std::min(a.count, first + kValuesPerBlock);
  for (std::size_t i = first; i < last; ++i) a.values[i] *= 2;
  return true;
}

class ScaleInSteps final : public lagoon::JobProgram {
 public:
  lagoon::Status Init(lagoon::JobSetup& setup) override {
    LAGOON_ASSIGN_OR_RETURN(double_, setup.LoadKernel("double", DoubleBody, {}));
    return {};
  }

  JobTask Run(JobContext& job) override {
    const std::int64_t steps = job.Input<std::int64_t>(1)[0];
    if (steps < 0 || steps > kMostSteps) {
      co_return lagoon::Fail(
          lagoon::ErrorCode::kInvalidArgument,
          "steps is " + std::to_string(steps) + ", it may be 0 to " + std::to_string(kMostSteps));
    }
    const std::size_t bytes = job.input(0).size();
    const lagoon::Result<std::byte*> memory = job.Allocate(bytes);
    if (!memory) co_return tl::unexpected<lagoon::Error>(memory.error());

    // The default stream runs these in order: no co_await is necessary in between.
    job.CopyToDevice(*memory, job.input(0).data(), bytes);
    const std::size_t count = bytes / sizeof(float);
    const DoubleArgs args{reinterpret_cast<float*>(*memory), count};
    const auto blocks = static_cast<std::uint32_t>((count + kValuesPerBlock - 1) / kValuesPerBlock);
    for (std::int64_t step = 0; step < steps; ++step) job.Launch(double_, args, blocks);
    co_await job.CopyToHost(job.output(0).data(), *memory, bytes);
    co_return lagoon::Status();
  }

 private:
  lagoon::KernelHandle double_{};
};

}  // namespace

LAGOON_JOB_PROGRAM(ScaleInSteps)

#include "program/testing/emulated_gpu.h"

#include <map>
#include <memory>
#include <vector>

#include "device/cuda/testing/emulated_runner.h"
#include "device/cuda/testing/fake_device.h"
#include "kernels/cuda/entries.cu"
#include "kernels/cuda/op_program.h"

namespace lagoon::testing {
namespace {

/// cuda::OpProgram() without a compiler: the runner knows the entries by their names.
class EmulatedOps final : public cuda::Program {
 public:
  const std::string& name() const override { return name_; }
  std::span<const cuda::EntryName> entries() const override { return entries_; }
  Result<std::string> ImageFor(const cuda::GpuInfo&) const override { return name_; }

 private:
  const std::string name_ = "emulated ops";
  const std::vector<cuda::EntryName> entries_ = cuda::OpSource().entries;
};

std::unique_ptr<cuda::fake::Runner> MakeRunner(int multiprocessors) {
  return std::make_unique<cuda::fake::EmulatedRunner>(
      multiprocessors, /*occupancy=*/1,
      std::map<std::string, cuda::fake::EntryFunction>{{"lagoon_light", lagoon_light},
                                                       {"lagoon_medium", lagoon_medium},
                                                       {"lagoon_heavy", lagoon_heavy}});
}

}  // namespace

DeviceChoice StartEmulatedGpu(int multiprocessors) {
  static const EmulatedOps program;
  cuda::fake::Settings settings;
  settings.multiprocessors = {multiprocessors};
  settings.parameter_bytes = sizeof(cuda::LaunchTable);
  settings.runner = MakeRunner;
  EmulatedDriver().Reset(settings);
  DeviceChoice choice;
  choice.name = "cuda:0";
  choice.cuda_driver = cuda::fake::FakeOptions().driver_library;
  choice.cuda_program = &program;
  return choice;
}

cuda::fake::FakeCuda& EmulatedDriver() { return cuda::fake::OpenFake(); }

}  // namespace lagoon::testing

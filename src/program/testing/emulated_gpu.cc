#include "program/testing/emulated_gpu.h"

#include <memory>
#include <utility>
#include <vector>

#include "device/cuda/testing/emulated_runner.h"
#include "device/cuda/testing/fake_device.h"
#include "kernels/cuda/bodies/entries.cu"
#include "kernels/cuda/op_program.h"

namespace lagoon::testing {

DeviceChoice StartEmulatedGpu(int multiprocessors, EmulatedEntries more) {
  static const EmulatedProgram program(cuda::OpSource().entries);
  EmulatedEntries entries = std::move(more);
#define LAGOON_EMULATED_ENTRY(name) entries.emplace("lagoon_" #name, lagoon_##name);
  LAGOON_BODIES(LAGOON_EMULATED_ENTRY)
#undef LAGOON_EMULATED_ENTRY
  cuda::fake::Settings settings;
  settings.multiprocessors = {multiprocessors};
  settings.parameter_bytes = sizeof(cuda::GridParams);
  settings.runner = [entries](int units) -> std::unique_ptr<cuda::fake::Runner> {
    return std::make_unique<cuda::fake::EmulatedRunner>(units, /*occupancy=*/1, entries);
  };
  EmulatedDriver().Reset(settings);
  DeviceChoice choice;
  choice.name = "cuda:0";
  choice.cuda_driver = cuda::fake::FakeOptions().driver_library;
  choice.cuda_program = &program;
  choice.cuda_silence = std::chrono::minutes(5);  // the emulator is slow
  return choice;
}

cuda::fake::FakeCuda& EmulatedDriver() { return cuda::fake::OpenFake(); }

}  // namespace lagoon::testing

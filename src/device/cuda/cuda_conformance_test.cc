// The GPU device passes the suite of all devices, over a fake driver and emulated blocks.

#include <cstddef>
#include <string>

#include "device/conformance/suite.h"
#include "device/cuda/testing/emulated_runner.h"
#include "device/cuda/testing/fake_device.h"
#include "device/cuda/testing/suite_program.h"

namespace lagoon::cuda::fake {
namespace {

template <typename Host, typename Gpu>
constexpr bool kSameSize = sizeof(Host) == sizeof(Gpu);
static_assert(kSameSize<conformance::CountArgs, suite::CountArgs>);
static_assert(kSameSize<conformance::GateArgs, suite::GateArgs>);
static_assert(kSameSize<conformance::LogArgs, suite::LogArgs>);
static_assert(kSameSize<conformance::MixArgs, suite::MixArgs>);
static_assert(offsetof(conformance::MixArgs, left) == offsetof(suite::MixArgs, left));
static_assert(offsetof(conformance::MixArgs, stop_at) == offsetof(suite::MixArgs, stop_at));

class SuiteProgram final : public Program {
 public:
  const std::string& name() const override { return name_; }
  std::span<const EntryName> entries() const override { return entries_; }
  Result<std::string> ImageFor(const GpuInfo&) const override { return std::string("suite"); }

 private:
  const std::string name_ = "suite";
  const std::vector<EntryName> entries_ = {{suite::kEntry, suite::Bodies::kThreads}};
};

}  // namespace

Settings EmulatedSettings(int multiprocessors) {
  Settings settings;
  settings.multiprocessors = {multiprocessors};
  settings.parameter_bytes = sizeof(GridParams);
  settings.runner = [](int units) {
    return std::make_unique<EmulatedRunner>(
        units, 1,
        std::map<std::string, EntryFunction>{{"lagoon_suite", lagoon_suite},
                                             {"lagoon_suite_heavy", lagoon_suite}});
  };
  return settings;
}

const CudaImage* SuiteImage(Body body) {
  static const SuiteProgram program;
  static const suite::SuiteImages images(program);
  return images.Of(body);
}

}  // namespace lagoon::cuda::fake

namespace lagoon::conformance {
namespace {

const DeviceUnderTest kCuda{
    "Cuda", [](const Needs& needs) {
      cuda::fake::OpenFake().Reset(cuda::fake::EmulatedSettings(static_cast<int>(needs.units)));
      cuda_form = cuda::fake::SuiteImage;
      await_guards = [] { cuda::fake::OpenFake().AwaitWords(); };
      CudaDeviceOptions options = cuda::fake::FakeOptions();
      options.memory_limit_bytes = needs.memory_limit_bytes;
      return CreateCudaDevice(options);
    }};

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, ::testing::Values(kCuda), DeviceName);

}  // namespace
}  // namespace lagoon::conformance

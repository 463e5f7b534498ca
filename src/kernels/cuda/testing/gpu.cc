// If $LAGOON_TEST_GPU is the number of a GPU, every tested body runs on that GPU too.

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "kernels/cuda/op_program.h"
#include "kernels/cuda/testing/body.h"
#include "kernels/cuda/testing/gpu_body.h"
#include "plan/element.h"

namespace lagoon::cuda::testing {
namespace {

/// Null if the variable is not set.
const char* NumberOfGpu() {
  return std::getenv("LAGOON_TEST_GPU");  // NOLINT(concurrency-mt-unsafe): never set
}

struct TestGpu {
  std::unique_ptr<Device> device;
  GuardId guard{};
};

const TestGpu* GpuUnderTest() {
  // Never destroyed: the driver may be unloaded before static objects are destroyed.
  static const TestGpu* const gpu = [] {
    const char* const number = NumberOfGpu();
    CudaDeviceOptions options;
    const char* const end = number + std::strlen(number);
    LAGOON_CHECK(std::from_chars(number, end, options.ordinal).ptr == end);
    Result<std::unique_ptr<Device>> device = CreateCudaDevice(options);
    if (!device) std::fprintf(stderr, "%s\n", device.error().message.c_str());
    LAGOON_CHECK(device.has_value());
    const auto guard = (*device)->CreateGuard();
    LAGOON_CHECK(guard.has_value());
    return new TestGpu{*std::move(device), *guard};
  }();
  return gpu;
}

/// Expects equal elements up to rounding: the GPU's tensor cores add in another order.
void ExpectSameElements(const Bytes& got, const Bytes& want, DataType type) {
  if (got == want) return;
  ASSERT_EQ(got.size(), want.size());
  ASSERT_TRUE(IsFloat(type)) << "an output that is not of floats has other bits";
  const double tolerance = type == DataType::kFloat32 ? 1e-4 : 1e-2;
  for (std::size_t i = 0; i < got.size() / SizeOf(type); ++i) {
    const double y = ElementAsDouble(type, got.data(), i);
    const double reference = ElementAsDouble(type, want.data(), i);
    if (y == reference || (std::isnan(y) && std::isnan(reference))) continue;
    ASSERT_NEAR(y, reference, tolerance * std::max(1.0, std::abs(reference))) << "element " << i;
  }
}

void ExpectSameOnGpu(const BoundBody& bound, const std::vector<Bytes>& whole) {
  const TestGpu& gpu = *GpuUnderTest();
  constexpr int kRuns = 5, kRevocations = 3;
  constexpr Nanoseconds kLongest = std::chrono::microseconds(100);
  std::vector<std::size_t> sizes;
  for (const Bytes& output : whole) sizes.push_back(output.size());
  GpuBody body(*gpu.device, gpu.guard, OpProgram(), bound.kernel(), bound.operands(), sizes);
  ASSERT_FALSE(::testing::Test::HasFailure());
  body.ExpectStaysOutWhenRevoked();
  const std::vector<Bytes> alone = body.Run();
  ASSERT_EQ(alone.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "on the GPU, output " << i);
    ASSERT_NO_FATAL_FAILURE(ExpectSameElements(alone[i], whole[i], bound.output_type()));
  }
  for (int run = 0; run < kRuns; ++run) {
    ASSERT_EQ(body.Run(kRevocations, kLongest), alone) << "resumed on the GPU, other bits";
  }
}

[[maybe_unused]] const bool chosen = [] {
  if (NumberOfGpu() != nullptr) also_expect = ExpectSameOnGpu;
  return true;
}();

}  // namespace
}  // namespace lagoon::cuda::testing

// Tests kernels/cuda/testing/gpu_body.h, which runs single bodies on a real GPU, on the emulated
// GPU.

#include "kernels/cuda/testing/gpu_body.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "program/testing/emulated_gpu.h"

namespace lagoon {
namespace {

using Bytes = cuda::testing::GpuBody::Bytes;

TEST(GpuBody, RunsWholeAndRevokedAndStaysOutUnderAGuard) {
  const DeviceChoice choice = testing::StartEmulatedGpu(2);
  const auto on = OpenDevice(choice);
  ASSERT_TRUE(on) << on.error().message;
  const auto guard = on->device->CreateGuard();
  ASSERT_TRUE(guard);

  std::vector<float> x(20'000), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 101) - 50;
  std::transform(x.begin(), x.end(), y.begin(), [](float value) { return std::max(value, 0.0f); });
  const auto kernel = cuda::MakeCudaUnary({.op = UnaryOp::kRelu, .count = x.size()});
  ASSERT_TRUE(kernel) << kernel.error().message;
  ASSERT_GT(kernel->blocks, 3u);
  const std::vector<std::span<const std::byte>> inputs = {std::as_bytes(std::span(x))};
  const std::vector<std::size_t> outputs = {y.size() * sizeof(float)};
  cuda::testing::GpuBody body(*on->device, *guard, *choice.cuda_program, *kernel, inputs, outputs);

  body.ExpectStaysOutWhenRevoked();
  for (const int revocations : {0, 1, 5}) {
    const std::vector<Bytes> got = body.Run(revocations, std::chrono::milliseconds(1));
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(std::memcmp(got[0].data(), y.data(), outputs[0]), 0) << revocations;
  }
}

}  // namespace
}  // namespace lagoon

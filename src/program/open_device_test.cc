#include "program/open_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/testing/emulated_gpu.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpenDevice, OpensTheCpuWithItsWorkers) {
  const Result<ComputeDevice> opened = OpenDevice({.workers = 2});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->device->info().name, "cpu");
  EXPECT_EQ(opened->device->info().units, 2u);
  EXPECT_EQ(opened->kernels, nullptr);
}

TEST(OpenDevice, OpensAGpuWithItsKernels) {
  const Result<ComputeDevice> opened = OpenDevice(testing::StartEmulatedGpu(3));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->device->info().name, "cuda:0");
  EXPECT_EQ(opened->device->info().units, 3u);
  const Result<Kernel> relu = opened->kernels->Unary({.op = UnaryOp::kRelu, .count = 4});
  ASSERT_TRUE(relu) << relu.error().message;
  EXPECT_NE(relu->cuda, nullptr);
}

TEST(OpenDevice, AnUnknownNameIsAnError) {
  for (const char* const name : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x",
                                 "cuda:99999999999", "CPU", "cpu:0"}) {
    const Result<ComputeDevice> opened = OpenDevice({.name = name});
    ASSERT_FALSE(opened.has_value()) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(opened.error().message,
                AllOf(HasSubstr(std::string("'") + name + "'"), HasSubstr("lagoon devices")));
  }
}

TEST(OpenDevice, WithoutADriverItSaysWhatToInstall) {
  const Result<ComputeDevice> opened =
      OpenDevice({.name = "cuda:0", .cuda_driver = "libno-such-driver.so.1"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(opened.error().message,
              AllOf(HasSubstr("cuda:0"), HasSubstr("libno-such-driver.so.1"),
                    HasSubstr("install NVIDIA's driver")));
}

TEST(OpenDevice, AGpuThatTheDriverDoesNotHaveIsAnError) {
  DeviceChoice choice = testing::StartEmulatedGpu(1);
  choice.name = "cuda:7";
  const Result<ComputeDevice> opened = OpenDevice(choice);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(opened.error().message, HasSubstr("there is no GPU 7: the driver has 1"));
}

}  // namespace
}  // namespace lagoon

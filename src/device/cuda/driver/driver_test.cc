#include "device/cuda/driver/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/paths.h"
#include "device/cuda/driver/session.h"
#include "device/cuda/testing/fake_device.h"

namespace lagoon::cuda {
namespace {

using fake::EmulatedSettings;
using fake::OpenFake;
using fake::Settings;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string LoadError(const std::string& library = FakeCudaLibrary()) {
  const Result<std::shared_ptr<const Driver>> driver = Driver::Load(library);
  if (driver) return "";
  EXPECT_EQ(driver.error().code, ErrorCode::kUnavailable) << driver.error().message;
  return driver.error().message;
}

TEST(CudaDriver, WithoutALibraryItSaysWhatToInstall) {
  EXPECT_THAT(LoadError("libno-such-driver.so.1"),
              AllOf(HasSubstr("libno-such-driver.so.1"), HasSubstr("install NVIDIA's driver")));
}

TEST(CudaDriver, ALibraryThatIsNoDriverIsTooOld) {
  EXPECT_THAT(LoadError("libm.so.6"), HasSubstr("too old"));
}

TEST(CudaDriver, AnOldDriverIsNamedWithItsVersion) {
  Settings settings = EmulatedSettings(1);
  settings.driver_version = 11040;
  OpenFake().Reset(settings);
  EXPECT_THAT(LoadError(), AllOf(HasSubstr("11.4"), HasSubstr("12.0")));
}

TEST(CudaDriver, ACallThatTheDriverLacksIsNamed) {
  Settings settings = EmulatedSettings(1);
  settings.missing = {"cuStreamWriteValue32"};
  OpenFake().Reset(settings);
  EXPECT_THAT(LoadError(), HasSubstr("cuStreamWriteValue32"));
}

TEST(CudaDriver, WithoutAGpuItSaysWhereToLook) {
  Settings settings = EmulatedSettings(1);
  settings.multiprocessors.clear();
  OpenFake().Reset(settings);
  EXPECT_THAT(LoadError(), AllOf(HasSubstr("CUDA_ERROR_NO_DEVICE"), HasSubstr("nvidia-smi")));
}

TEST(CudaDriver, DescribesEveryGpu) {
  Settings settings = EmulatedSettings(1);
  settings.multiprocessors = {3, 5};
  OpenFake().Reset(settings);
  const auto driver = Driver::Load(FakeCudaLibrary());
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  EXPECT_EQ(*CountGpus(**driver), 2);
  const Result<GpuInfo> gpu = DescribeGpu(**driver, 1);
  ASSERT_TRUE(gpu.has_value()) << gpu.error().message;
  EXPECT_EQ(gpu->name, "Fake GPU");
  EXPECT_EQ(gpu->multiprocessors, 5u);
  EXPECT_EQ(gpu->major, 9);
  EXPECT_EQ(gpu->memory_bytes, settings.memory_bytes);
  EXPECT_EQ(gpu->shared_bytes, settings.shared_bytes);
  const Result<GpuInfo> third = DescribeGpu(**driver, 2);
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(third.error().message, "there is no GPU 2: the driver has 2");
}

TEST(CudaDriver, AnErrorNamesTheCallAndTheCode) {
  OpenFake().Reset(EmulatedSettings(1));
  const auto driver = Driver::Load(FakeCudaLibrary());
  ASSERT_TRUE(driver.has_value());
  const Status failed = (*driver)->Check(700, "cuMemFree");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kInternal);
  EXPECT_EQ(failed.error().message,
            "cuMemFree: CUDA_ERROR_ILLEGAL_ADDRESS (made up by a test); from now on the driver "
            "refuses this process: restart it");
  EXPECT_EQ((*driver)->Check(1, "cuMemFree").error().message,
            "cuMemFree: CUDA_ERROR_UNKNOWN (made up by a test)");
  EXPECT_EQ((*driver)->Check(kOutOfMemory, "x").error().code, ErrorCode::kResourceExhausted);
}

// The fake is as strict as a real driver, or its tests would prove nothing.
TEST(FakeCudaDeathTest, DeviceMemoryFaultsOnTheHost) {
  fake::OpenFake().Reset(fake::EmulatedSettings(1));
  const auto driver = Driver::Load(FakeCudaLibrary());
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  const auto session = GpuSession::Open(*driver, 0);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const auto memory = OwnMemory::Create(*session, 64, OwnMemory::Where::kDevice);
  ASSERT_TRUE(memory.has_value()) << memory.error().message;
  const std::uint32_t word = 7;
  EXPECT_EQ((*driver)->write(memory->device(), &word, sizeof(word)), kSuccess);
  const auto* const on_gpu = reinterpret_cast<const volatile std::uint32_t*>(memory->device());
  EXPECT_DEATH(static_cast<void>(*on_gpu), "");
  // Neither is memory of the host a target of the driver's copies.
  std::uint32_t of_host = 0;
  EXPECT_NE((*driver)->write(reinterpret_cast<Address>(&of_host), &word, sizeof(word)), kSuccess);
}

TEST(FakeCuda, WhatASplitReturnedCannotBeSplitAgain) {
  fake::OpenFake().Reset(fake::EmulatedSettings(32));
  const auto driver = Driver::Load(FakeCudaLibrary());
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  const auto session = GpuSession::Open(*driver, 0);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  DeviceResource all, rest, first, second;
  unsigned one = 1;
  ASSERT_EQ((*driver)->device_resource(0, &all, kMultiprocessorResource), kSuccess);
  ASSERT_EQ((*driver)->split_resource(&first, &one, &all, &rest, 0, 8), kSuccess);
  EXPECT_EQ((*driver)->split_resource(&second, &one, &rest, &all, 0, 8), kInvalidResourceType);
}

// "False dependencies": the word in the third stream waits for the kernel in the first.
TEST(FakeCuda, StreamsBeyondTheConnectionsRunInTheOrderOfSubmission) {
  const fake::Connections connections("2");
  OpenFake().Reset(EmulatedSettings(1));
  const auto loaded = Driver::Load(FakeCudaLibrary());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const Driver& driver = **loaded;
  EXPECT_EQ(driver.connections(), 2u);
  const auto session = GpuSession::Open(*loaded, 0);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const auto words = OwnMemory::Create(*session, 64, OwnMemory::Where::kPinned);
  ASSERT_TRUE(words.has_value()) << words.error().message;
  Stream streams[3] = {};
  for (Stream& stream : streams) {
    ASSERT_EQ(driver.create_stream(&stream, kStreamNonBlocking, 0), kSuccess);
  }
  EXPECT_EQ(OpenFake().MostPerConnection(), 2u);
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(driver.load_module(&module, "suite"), kSuccess);
  ASSERT_EQ(driver.find_function(&function, module, "lagoon_suite"), kSuccess);
  std::vector<unsigned char> grid(EmulatedSettings(1).parameter_bytes);
  void* parameter = grid.data();
  OpenFake().HangKernels();
  ASSERT_EQ(driver.launch(function, 1, 1, 1, 32, 1, 1, 0, streams[0], &parameter, nullptr),
            kSuccess);
  for (const int stream : {1, 2}) {
    ASSERT_EQ(driver.write_value32(streams[stream], words->device() + 4 * stream, 7, 0), kSuccess);
  }
  OpenFake().AwaitWords();
  const auto* const seen = reinterpret_cast<const std::uint32_t*>(words->host());
  EXPECT_EQ(seen[1], 7u);
  EXPECT_EQ(seen[2], 0u);
  OpenFake().LoseContext(fake::kPassingFault);
}

}  // namespace
}  // namespace lagoon::cuda

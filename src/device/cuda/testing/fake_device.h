#pragma once

// A GpuDevice over the fake driver and the emulator, with the suite's bodies.

#include <dlfcn.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/testing/paths.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver/program.h"
#include "device/cuda/testing/fake_cuda.h"

namespace lagoon::cuda::fake {

/// The fake driver library's control object; the library stays open.
inline FakeCuda& OpenFake() {
  static FakeCuda* const fake = [] {
    void* const library = dlopen(FakeCudaLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
    LAGOON_CHECK(library != nullptr);
    const auto call = reinterpret_cast<FakeCudaCall>(dlsym(library, kFakeCudaSymbol));
    LAGOON_CHECK(call != nullptr);
    return call();
  }();
  return *fake;
}

/// Settings of one GPU of `multiprocessors`, with emulated kernels.
Settings EmulatedSettings(int multiprocessors);

/// The CUDA form of a body of the suite; null: it has none.
const CudaImage* SuiteImage(Body body);

/// Sets $CUDA_DEVICE_MAX_CONNECTIONS for its lifetime. Only while there is no device.
class Connections {
 public:
  explicit Connections(const char* number) { Set(number); }
  ~Connections() { Set("32"); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

 private:
  static void Set(const char* number) {
    // No other thread runs. NOLINTNEXTLINE(concurrency-mt-unsafe)
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", number, /*overwrite=*/1);
  }
};

/// Keeps the messages that the program logs during the lifetime of this object.
class LogText {
 public:
  LogText() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_)));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;
  std::string text() const { return out_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream out_;
};

inline CudaDeviceOptions FakeOptions() {
  CudaDeviceOptions options;
  options.driver_library = FakeCudaLibrary();
  options.silence = std::chrono::minutes(5);  // the emulator is slow
  return options;
}

}  // namespace lagoon::cuda::fake

#pragma once

// The state of the fake driver, and its calls, for the files that define them.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/driver/driver.h"
#include "device/cuda/testing/fake_cuda.h"
#include "device/cuda/testing/fake_gpu.h"

namespace lagoon::cuda::fake {

inline constexpr Code kInvalidValue = 1;
inline constexpr Code kInvalidContext = 201;
inline constexpr Code kNotFoundCode = 500;

struct FakeFunction {
  std::string entry;
};

struct FakeEvent {
  std::atomic<bool> pending{false};
  std::chrono::steady_clock::time_point at;
};

/// A graph, or an instance of one.
using FakeGraph = std::vector<Gpu::Operation>;

/// What is behind the calls of the fake driver. Each call is counted, may fail if the test asked
/// for that, and hands its work on.
class Driver final : public FakeCuda {
 public:
  void Reset(const Settings& settings) override;
  void FailCall(std::uint64_t nth, int code, const std::string& name) override;
  void RefuseCall(const std::string& name, int code) override {
    const std::lock_guard lock(mutex);
    refused_name_ = name;
    refused_code_ = code;
  }
  void LoseContext(int code) override {
    const std::lock_guard lock(gpu_mutex);
    if (gpu != nullptr) gpu->Lose(code, "the test's");
  }
  void HangKernels() override {
    const std::lock_guard lock(gpu_mutex);
    if (gpu != nullptr) gpu->Hang();
  }
  std::string failed() const override {
    const std::lock_guard lock(mutex);
    return failed_;
  }
  std::vector<Call> TakeLog() override {
    const std::lock_guard lock(mutex);
    return std::exchange(log_, {});
  }
  std::string fault() const override {
    const std::lock_guard lock(gpu_mutex);
    return gpu == nullptr ? "" : gpu->fault();
  }
  void AwaitWords() override {
    const std::lock_guard lock(gpu_mutex);
    if (gpu != nullptr) gpu->AwaitWords();
  }
  std::byte* OnHost(std::uint64_t address) const override {
    return device_memory->OnHost(reinterpret_cast<const void*>(address));
  }
  std::size_t MostPerConnection() const override {
    const std::lock_guard lock(gpu_mutex);
    return gpu == nullptr ? 0 : gpu->MostPerConnection();
  }
  std::size_t leaks() const override;

  /// Counts a call. Returns the code that it must return instead of working, or kSuccess.
  Code Enter(const char* name, bool needs_context);
  void Log(Call call) {
    const std::lock_guard lock(mutex);
    constexpr std::size_t kMost = 1 << 16;
    if (log_.size() < kMost) log_.push_back(std::move(call));
  }
  Code Push(Stream stream, Gpu::Operation operation, Call call);
  Code Allocate(void** memory, std::size_t bytes, bool device);
  Code Free(void* memory);
  /// Writes a word in a stream, some time after the call.
  Code PushWrite(Stream stream, Address to, std::uint32_t value, const char* name);
  /// Copies an aligned word of 4 bytes, whole, when the stream gets to it.
  Code PushWordCopy(Stream stream, Address to, const void* from, const char* name);
  /// Whether the driver may copy `bytes` from or to this address: device memory, or host memory of
  /// cuMemHostAlloc.
  bool IsMine(const void* address, std::size_t bytes);

  static inline thread_local bool has_context = false;  // cuCtxSetCurrent()
  mutable std::mutex mutex;
  Settings settings;
  // Held to create and destroy `gpu`, and by tests that look at `gpu` from their own threads.
  mutable std::mutex gpu_mutex;
  // The memory of all GPUs.
  std::unique_ptr<DeviceMemory> device_memory =
      std::make_unique<DeviceMemory>(Settings().memory_bytes);
  std::unique_ptr<Gpu> gpu;     // exists while its context is retained
  std::size_t connections = 0;  // 0 before cuInit()
  int retained = 0;
  Code process_fault = kSuccess;  // what a lost context leaves to those that come after it
  std::atomic<int> green_contexts{0};
  std::atomic<int> handles{0};                           // number of events and graphs
  std::map<void*, std::pair<std::size_t, bool>> memory;  // bytes; true: of the device
  std::size_t used_bytes = 0;
  std::set<Module> modules;
  std::map<Module, std::map<std::string, std::unique_ptr<FakeFunction>>> functions;

 private:
  std::uint64_t fail_at_ = 0;
  int fail_code_ = 0;
  int refused_code_ = 0;
  std::string fail_name_, refused_name_, failed_;
  std::vector<Call> log_;
};

/// The library's only one.
Driver& Fake();

/// Begins every call.
#define LAGOON_FAKE_ENTER(name, needs_context) \
  if (const Code failed = Fake().Enter(name, needs_context); failed != kSuccess) return failed

#define LAGOON_FAKE_DECLARE(member, name, parameters) Code call_##member parameters;
LAGOON_CUDA_DRIVER_CALLS(LAGOON_FAKE_DECLARE)
LAGOON_CUDA_GREEN_CALLS(LAGOON_FAKE_DECLARE)
#undef LAGOON_FAKE_DECLARE

}  // namespace lagoon::cuda::fake

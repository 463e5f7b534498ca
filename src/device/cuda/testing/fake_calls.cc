// The calls that every device makes.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cuda/testing/fake_driver.h"

namespace lagoon::cuda::fake {

Code call_init(unsigned) {
  LAGOON_FAKE_ENTER("cuInit", false);
  if (Fake().connections == 0) {
    // Tests change the environment before they start threads. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const int wanted = text == nullptr ? 0 : std::atoi(text);
    Fake().connections = static_cast<std::size_t>(wanted > 0 ? std::min(wanted, 32) : 8);
  }
  return Fake().settings.multiprocessors.empty() ? kNoDevice : kSuccess;
}
Code call_driver_version(int* version) {
  LAGOON_FAKE_ENTER("cuDriverGetVersion", false);
  *version = Fake().settings.driver_version;
  return kSuccess;
}
Code call_device_count(int* count) {
  LAGOON_FAKE_ENTER("cuDeviceGetCount", false);
  *count = static_cast<int>(Fake().settings.multiprocessors.size());
  return kSuccess;
}
Code call_device(Ordinal* device, int ordinal) {
  LAGOON_FAKE_ENTER("cuDeviceGet", false);
  *device = ordinal;
  return kSuccess;
}
Code call_device_name(char* name, int length, Ordinal) {
  LAGOON_FAKE_ENTER("cuDeviceGetName", false);
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return kSuccess;
}
Code call_device_memory(std::size_t* bytes, Ordinal) {
  LAGOON_FAKE_ENTER("cuDeviceTotalMem", false);
  *bytes = Fake().settings.memory_bytes;
  return kSuccess;
}
Code call_device_attribute(int* value, int attribute, Ordinal device) {
  LAGOON_FAKE_ENTER("cuDeviceGetAttribute", false);
  const Settings& settings = Fake().settings;
  switch (static_cast<DeviceAttribute>(attribute)) {
    case DeviceAttribute::kMultiprocessors:
      *value = settings.multiprocessors.at(static_cast<std::size_t>(device));
      return kSuccess;
    case DeviceAttribute::kMajor:
      *value = 9;
      return kSuccess;
    case DeviceAttribute::kMinor:
      *value = 0;
      return kSuccess;
    case DeviceAttribute::kUnifiedAddressing:
      *value = 1;
      return kSuccess;
    case DeviceAttribute::kSharedBytesOptin:
      *value = static_cast<int>(settings.shared_bytes);
      return kSuccess;
  }
  return kInvalidValue;
}
Code call_retain_context(Context* context, Ordinal device) {
  LAGOON_FAKE_ENTER("cuDevicePrimaryCtxRetain", false);
  Driver& fake = Fake();
  const std::lock_guard lock(fake.gpu_mutex);
  if (fake.process_fault != kSuccess) return fake.process_fault;
  if (fake.retained++ == 0) {
    const int units = fake.settings.multiprocessors.at(static_cast<std::size_t>(device));
    fake.gpu = std::make_unique<Gpu>([=, make = fake.settings.runner] { return make(units); },
                                     *fake.device_memory, fake.connections);
  }
  *context = reinterpret_cast<Context>(&fake);
  return kSuccess;
}
Code call_release_context(Ordinal) {
  LAGOON_FAKE_ENTER("cuDevicePrimaryCtxRelease", false);
  Driver& fake = Fake();
  const std::lock_guard lock(fake.gpu_mutex);
  if (--fake.retained > 0 || fake.gpu == nullptr) return kSuccess;
  const Code fault = fake.gpu->lost();
  if (NeedsNewProcess(fault)) fake.process_fault = fault;
  fake.gpu.reset();
  return kSuccess;
}
Code call_set_context(Context context) {
  LAGOON_FAKE_ENTER("cuCtxSetCurrent", false);
  Driver::has_context = context != nullptr;
  return kSuccess;
}
Code call_priority_range(int* least, int* greatest) {
  LAGOON_FAKE_ENTER("cuCtxGetStreamPriorityRange", true);
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
Code call_create_stream(Stream* stream, unsigned, int priority) {
  LAGOON_FAKE_ENTER("cuStreamCreateWithPriority", true);
  // The driver's numbers are smaller for better priorities.
  const std::uint64_t id = Fake().gpu->CreateStream(-priority);
  *stream = reinterpret_cast<Stream>(id);
  Fake().Log({.name = "cuStreamCreateWithPriority",
              .stream = id,
              .value = static_cast<std::uint64_t>(-priority)});
  return kSuccess;
}
Code call_destroy_stream(Stream stream) {
  LAGOON_FAKE_ENTER("cuStreamDestroy", false);
  if (Fake().gpu == nullptr) return kInvalidContext;
  return Fake().gpu->DestroyStream(reinterpret_cast<std::uint64_t>(stream)) ? kSuccess
                                                                            : kInvalidValue;
}
Code call_query_stream(Stream stream) {
  LAGOON_FAKE_ENTER("cuStreamQuery", true);
  return Fake().gpu->Idle(reinterpret_cast<std::uint64_t>(stream)) ? kSuccess : kNotReady;
}
Code call_synchronize() {
  LAGOON_FAKE_ENTER("cuCtxSynchronize", true);
  Fake().gpu->Synchronize();
  return Fake().gpu->lost();
}
Code call_synchronize_stream(Stream stream) {
  LAGOON_FAKE_ENTER("cuStreamSynchronize", true);
  // Only for the null stream, on which nothing takes time.
  return stream == nullptr ? kSuccess : kInvalidValue;
}
Code call_write_value32(Stream stream, Address to, std::uint32_t value, unsigned) {
  LAGOON_FAKE_ENTER("cuStreamWriteValue32", true);
  return Fake().PushWrite(stream, to, value, "cuStreamWriteValue32");
}
Code call_allocate(Address* address, std::size_t bytes) {
  LAGOON_FAKE_ENTER("cuMemAlloc", true);
  void* memory = nullptr;
  const Code code = Fake().Allocate(&memory, bytes, true);
  *address = reinterpret_cast<Address>(memory);
  return code;
}
Code call_free(Address address) {
  LAGOON_FAKE_ENTER("cuMemFree", false);
  // Waits, as the real drivers do: memory in use by the GPU stays until the work is done.
  if (Fake().gpu != nullptr) Fake().gpu->Synchronize();
  return Fake().Free(reinterpret_cast<void*>(address));
}
Code call_memory_info(std::size_t* free_bytes, std::size_t* total) {
  LAGOON_FAKE_ENTER("cuMemGetInfo", true);
  const std::lock_guard lock(Fake().mutex);
  *total = Fake().settings.memory_bytes;
  *free_bytes = *total - Fake().used_bytes;
  return kSuccess;
}
Code call_allocate_host(void** memory, std::size_t bytes, unsigned) {
  LAGOON_FAKE_ENTER("cuMemHostAlloc", true);
  return Fake().Allocate(memory, bytes, false);
}
Code call_free_host(void* memory) {
  LAGOON_FAKE_ENTER("cuMemFreeHost", false);
  if (Fake().gpu != nullptr) Fake().gpu->Synchronize();
  return Fake().Free(memory);
}
Code call_host_address(Address* address, void* memory, unsigned) {
  LAGOON_FAKE_ENTER("cuMemHostGetDevicePointer", true);
  *address = reinterpret_cast<Address>(memory);
  return kSuccess;
}
Code call_write(Address to, const void* from, std::size_t bytes) {
  LAGOON_FAKE_ENTER("cuMemcpyHtoD", true);
  auto* const target = reinterpret_cast<void*>(to);
  if (!Fake().IsMine(target, bytes)) return kInvalidValue;
  std::memcpy(Fake().device_memory->OnHost(target), from, bytes);
  Fake().Log({.name = "cuMemcpyHtoD", .value = bytes, .to = to});
  return kSuccess;
}
Code call_copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) {
  LAGOON_FAKE_ENTER("cuMemcpyHtoDAsync", true);
  if (!Fake().IsMine(reinterpret_cast<void*>(to), bytes)) return kInvalidValue;
  // A guard word, which its owner may raise again meanwhile.
  if (bytes == sizeof(std::uint32_t)) {
    return Fake().PushWordCopy(stream, to, from, "cuMemcpyHtoDAsync");
  }
  auto* const target = Fake().device_memory->OnHost(reinterpret_cast<void*>(to));
  return Fake().Push(stream, {.run = [=] { std::memcpy(target, from, bytes); }},
                     {.name = "cuMemcpyHtoDAsync", .value = bytes, .to = to});
}
Code call_copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) {
  LAGOON_FAKE_ENTER("cuMemcpyDtoHAsync", true);
  if (!Fake().IsMine(reinterpret_cast<void*>(from), bytes)) return kInvalidValue;
  const auto* const source = Fake().device_memory->OnHost(reinterpret_cast<void*>(from));
  return Fake().Push(stream, {.run = [=] { std::memcpy(to, source, bytes); }},
                     {.name = "cuMemcpyDtoHAsync", .value = bytes, .to = from});
}
Code call_fill(Address to, unsigned char value, std::size_t bytes) {
  LAGOON_FAKE_ENTER("cuMemsetD8", true);
  if (!Fake().IsMine(reinterpret_cast<void*>(to), bytes)) return kInvalidValue;
  std::memset(Fake().device_memory->OnHost(reinterpret_cast<void*>(to)), value, bytes);
  return kSuccess;
}
Code call_load_module(Module* module, const void*) {
  LAGOON_FAKE_ENTER("cuModuleLoadData", true);
  const std::lock_guard lock(Fake().mutex);
  static std::uint64_t next = 1;
  *module = reinterpret_cast<Module>(next++);
  Fake().modules.insert(*module);
  return kSuccess;
}
Code call_unload_module(Module module) {
  LAGOON_FAKE_ENTER("cuModuleUnload", false);
  const std::lock_guard lock(Fake().mutex);
  return Fake().modules.erase(module) == 1 ? kSuccess : kInvalidValue;
}
Code call_find_function(Function* function, Module module, const char* name) {
  LAGOON_FAKE_ENTER("cuModuleGetFunction", true);
  const std::lock_guard lock(Fake().mutex);
  if (!Fake().modules.contains(module)) return kInvalidValue;
  auto& found = Fake().functions[module][name];
  if (found == nullptr) found = std::make_unique<FakeFunction>(FakeFunction{name});
  *function = reinterpret_cast<Function>(found.get());
  return kSuccess;
}
Code call_set_function_attribute(Function, int, int value) {
  LAGOON_FAKE_ENTER("cuFuncSetAttribute", true);
  return static_cast<std::size_t>(value) <= Fake().settings.shared_bytes ? kSuccess : kInvalidValue;
}
Code call_occupancy(int* blocks, Function, int, std::size_t) {
  LAGOON_FAKE_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", true);
  *blocks = Fake().settings.occupancy;
  return kSuccess;
}
Code call_launch(Function function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned,
                 unsigned, unsigned shared_bytes, Stream stream, void** parameters, void**) {
  LAGOON_FAKE_ENTER("cuLaunchKernel", true);
  if (grid_x == 0 || shared_bytes > Fake().settings.shared_bytes) return kInvalidValue;
  const std::string& entry = reinterpret_cast<FakeFunction*>(function)->entry;
  const auto* const bytes = static_cast<const unsigned char*>(parameters[0]);
  std::vector<unsigned char> parameter(bytes, bytes + Fake().settings.parameter_bytes);
  KernelLaunch kernel;
  kernel.entry = entry;
  kernel.grid = grid_x;
  kernel.threads = block_x;
  kernel.shared_bytes = shared_bytes;
  Call call{.name = "cuLaunchKernel", .value = grid_x, .entry = entry, .parameter = parameter};
  return Fake().Push(stream, {.kernel = std::move(kernel), .parameter = std::move(parameter)},
                     std::move(call));
}
Code call_error_name(Code code, const char** text) {
  *text = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == kNoDevice  ? "CUDA_ERROR_NO_DEVICE"
          : code == 700        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == 719        ? "CUDA_ERROR_LAUNCH_FAILED"
                               : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}
Code call_error_text(Code code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory" : "made up by a test";
  return kSuccess;
}

}  // namespace lagoon::cuda::fake

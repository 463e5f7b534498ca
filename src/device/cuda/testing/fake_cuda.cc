// The calls of the fake driver. Each call is counted, may fail if the test asked for that, and
// hands its work on.

#include "device/cuda/testing/fake_cuda.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "device/cuda/driver/driver.h"
#include "device/cuda/testing/fake_gpu.h"

namespace lagoon::cuda::fake {
namespace {

constexpr Code kInvalidValue = 1;
constexpr Code kInvalidContext = 201;
constexpr Code kNotFoundCode = 500;
constexpr std::size_t kAlignment = 256;

struct FakeFunction {
  std::string entry;
};

struct FakeEvent {
  std::atomic<bool> pending{false};
  std::chrono::steady_clock::time_point at;
};

using FakeGraph = std::vector<Gpu::Operation>;

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

  mutable std::mutex mutex;
  Settings settings;
  // Held to create and destroy `gpu`, and by tests that look at `gpu` from their own threads.
  mutable std::mutex gpu_mutex;
  std::unique_ptr<Gpu> gpu;  // exists while its context is retained
  int retained = 0;
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

Driver& Fake() {
  static Driver driver;
  return driver;
}

thread_local bool has_context = false;

void Driver::Reset(const Settings& fresh) {
  gpu.reset();
  const std::lock_guard lock(mutex);
  settings = fresh;
  retained = 0;
  green_contexts = handles = 0;
  for (const auto& [address, block] : memory) std::free(address);
  memory.clear();
  used_bytes = 0;
  modules.clear();
  functions.clear();
  fail_at_ = 0;
  refused_name_.clear();
  failed_.clear();
  log_.clear();
}

void Driver::FailCall(std::uint64_t nth, int code, const std::string& name) {
  const std::lock_guard lock(mutex);
  fail_at_ = nth;
  fail_code_ = code;
  fail_name_ = name;
}

std::size_t Driver::leaks() const {
  return memory.size() + modules.size() +
         static_cast<std::size_t>(retained + green_contexts + handles) +
         (gpu == nullptr ? 0 : gpu->streams());
}

Code Driver::Enter(const char* name, bool needs_context) {
  const std::lock_guard lock(mutex);
  if (fail_at_ != 0 && (fail_name_.empty() || fail_name_ == name) && --fail_at_ == 0) {
    failed_ = name;
    return fail_code_;
  }
  if (name == refused_name_) return refused_code_;
  if (!needs_context) return kSuccess;
  if (gpu == nullptr || !has_context) return kInvalidContext;
  return gpu->lost();
}

Code Driver::Push(Stream stream, Gpu::Operation operation, Call call) {
  call.stream = reinterpret_cast<std::uint64_t>(stream);
  // The log must have the order of the streams: one caller at a time.
  static std::mutex order;
  const std::lock_guard lock(order);
  const std::uint64_t id = call.stream;
  Log(std::move(call));
  return gpu->Push(id, std::move(operation)) ? kSuccess : kInvalidValue;
}

Code Driver::Allocate(void** to, std::size_t bytes, bool device) {
  const std::lock_guard lock(mutex);
  if (bytes == 0) return kInvalidValue;
  if (device && bytes > settings.memory_bytes - used_bytes) return kOutOfMemory;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *to = std::aligned_alloc(kAlignment, rounded);
  if (*to == nullptr) return kOutOfMemory;
  std::memset(*to, 0xcd, rounded);
  memory[*to] = {bytes, device};
  if (device) used_bytes += bytes;
  return kSuccess;
}

Code Driver::Free(void* address) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(address);
  if (found == memory.end()) return kInvalidValue;
  if (found->second.second) used_bytes -= found->second.first;
  memory.erase(found);
  std::free(address);
  return kSuccess;
}

#define LAGOON_FAKE_ENTER(name, needs_context) \
  if (const Code failed = Fake().Enter(name, needs_context); failed != kSuccess) return failed

Code call_init(unsigned) {
  LAGOON_FAKE_ENTER("cuInit", false);
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
  if (fake.retained++ == 0) {
    const int units = fake.settings.multiprocessors.at(static_cast<std::size_t>(device));
    fake.gpu = std::make_unique<Gpu>([=, make = fake.settings.runner] { return make(units); });
  }
  *context = reinterpret_cast<Context>(&fake);
  return kSuccess;
}
Code call_release_context(Ordinal) {
  LAGOON_FAKE_ENTER("cuDevicePrimaryCtxRelease", false);
  const std::lock_guard lock(Fake().gpu_mutex);
  if (--Fake().retained == 0) Fake().gpu.reset();
  return kSuccess;
}
Code call_set_context(Context context) {
  LAGOON_FAKE_ENTER("cuCtxSetCurrent", false);
  has_context = context != nullptr;
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
  auto* const word = reinterpret_cast<std::uint32_t*>(to);
  return Fake().Push(stream, {.run = [=] { __atomic_store_n(word, value, __ATOMIC_RELEASE); }},
                     {.name = "cuStreamWriteValue32", .value = value, .to = to});
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
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  Fake().Log({.name = "cuMemcpyHtoD", .value = bytes, .to = to});
  return kSuccess;
}
Code call_copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) {
  LAGOON_FAKE_ENTER("cuMemcpyHtoDAsync", true);
  auto* const target = reinterpret_cast<void*>(to);
  return Fake().Push(stream, {.run = [=] { std::memcpy(target, from, bytes); }},
                     {.name = "cuMemcpyHtoDAsync", .value = bytes, .to = to});
}
Code call_copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) {
  LAGOON_FAKE_ENTER("cuMemcpyDtoHAsync", true);
  const auto* const source = reinterpret_cast<const void*>(from);
  return Fake().Push(stream, {.run = [=] { std::memcpy(to, source, bytes); }},
                     {.name = "cuMemcpyDtoHAsync", .value = bytes, .to = from});
}
Code call_fill(Address to, unsigned char value, std::size_t bytes) {
  LAGOON_FAKE_ENTER("cuMemsetD8", true);
  std::memset(reinterpret_cast<void*>(to), value, bytes);
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
Code call_batch_write(Stream stream, unsigned count, BatchWrite* writes, unsigned) {
  LAGOON_FAKE_ENTER("cuStreamBatchMemOp", true);
  for (unsigned i = 0; i < count; ++i) {
    if (writes[i].operation != BatchWrite{}.operation) return kInvalidValue;
    auto* const word = reinterpret_cast<std::uint32_t*>(writes[i].to);
    const auto value = static_cast<std::uint32_t>(writes[i].value);
    const Code code =
        Fake().Push(stream, {.run = [=] { __atomic_store_n(word, value, __ATOMIC_RELEASE); }},
                    {.name = "cuStreamBatchMemOp", .value = value, .to = writes[i].to});
    if (code != kSuccess) return code;
  }
  return kSuccess;
}
Code call_create_event(Event* event, unsigned) {
  LAGOON_FAKE_ENTER("cuEventCreate", true);
  *event = reinterpret_cast<Event>(new FakeEvent);
  ++Fake().handles;
  return kSuccess;
}
Code call_destroy_event(Event event) {
  LAGOON_FAKE_ENTER("cuEventDestroy", false);
  delete reinterpret_cast<FakeEvent*>(event);
  --Fake().handles;
  return kSuccess;
}
Code call_record_event(Event event, Stream stream) {
  LAGOON_FAKE_ENTER("cuEventRecord", true);
  auto* const fake = reinterpret_cast<FakeEvent*>(event);
  fake->pending = true;
  return Fake().Push(stream,
                     {.run =
                          [=] {
                            fake->at = std::chrono::steady_clock::now();
                            fake->pending = false;
                          }},
                     {.name = "cuEventRecord"});
}
Code call_synchronize_event(Event event) {
  LAGOON_FAKE_ENTER("cuEventSynchronize", true);
  while (reinterpret_cast<FakeEvent*>(event)->pending && Fake().gpu->lost() == 0) {
    std::this_thread::yield();
  }
  return Fake().gpu->lost();
}
Code call_elapsed(float* milliseconds, Event begin, Event end) {
  LAGOON_FAKE_ENTER("cuEventElapsedTime", true);
  const std::chrono::duration<float, std::milli> passed =
      reinterpret_cast<FakeEvent*>(end)->at - reinterpret_cast<FakeEvent*>(begin)->at;
  *milliseconds = passed.count();
  return kSuccess;
}
Code call_begin_capture(Stream stream, int) {
  LAGOON_FAKE_ENTER("cuStreamBeginCapture", true);
  return Fake().gpu->BeginCapture(reinterpret_cast<std::uint64_t>(stream)) ? kSuccess
                                                                           : kInvalidValue;
}
Code call_end_capture(Stream stream, Graph* graph) {
  LAGOON_FAKE_ENTER("cuStreamEndCapture", true);
  auto captured = Fake().gpu->EndCapture(reinterpret_cast<std::uint64_t>(stream));
  if (!captured) return kInvalidValue;
  *graph = reinterpret_cast<Graph>(new FakeGraph(*std::move(captured)));
  ++Fake().handles;
  return kSuccess;
}
Code call_instantiate_graph(GraphExec* instance, Graph graph, std::uint64_t) {
  LAGOON_FAKE_ENTER("cuGraphInstantiateWithFlags", true);
  *instance =
      reinterpret_cast<GraphExec>(new FakeGraph(*reinterpret_cast<const FakeGraph*>(graph)));
  ++Fake().handles;
  return kSuccess;
}
Code call_launch_graph(GraphExec graph, Stream stream) {
  LAGOON_FAKE_ENTER("cuGraphLaunch", true);
  for (const Gpu::Operation& operation : *reinterpret_cast<const FakeGraph*>(graph)) {
    const Code code = Fake().Push(stream, operation, {.name = "cuGraphLaunch"});
    if (code != kSuccess) return code;
  }
  return kSuccess;
}
Code call_destroy_graph_instance(GraphExec graph) {
  LAGOON_FAKE_ENTER("cuGraphExecDestroy", false);
  delete reinterpret_cast<FakeGraph*>(graph);
  --Fake().handles;
  return kSuccess;
}
Code call_destroy_graph(Graph graph) {
  LAGOON_FAKE_ENTER("cuGraphDestroy", false);
  delete reinterpret_cast<FakeGraph*>(graph);
  --Fake().handles;
  return kSuccess;
}

constexpr unsigned kGranule = 8;  // multiprocessors, as on Hopper

Code call_device_resource(Ordinal device, DeviceResource* resource, int type) {
  LAGOON_FAKE_ENTER("cuDeviceGetDevResource", true);
  if (type != kMultiprocessorResource) return kInvalidValue;
  resource->type = type;
  resource->multiprocessors =
      static_cast<unsigned>(Fake().settings.multiprocessors.at(static_cast<std::size_t>(device)));
  return kSuccess;
}
Code call_split_resource(DeviceResource* groups, unsigned* count, const DeviceResource* from,
                         DeviceResource* rest, unsigned, unsigned least) {
  LAGOON_FAKE_ENTER("cuDevSmResourceSplitByCount", true);
  const unsigned size = std::max(kGranule, (least + kGranule - 1) / kGranule * kGranule);
  if (from->type != kMultiprocessorResource || *count != 1) return kInvalidValue;
  *count = size <= from->multiprocessors ? 1 : 0;
  if (*count == 0) return kSuccess;
  *groups = *rest = *from;
  groups->multiprocessors = size;
  rest->multiprocessors -= size;
  return kSuccess;
}
// In this fake, a description or context is only the number of its multiprocessors.
Code call_describe_resource(ResourceDesc* description, DeviceResource* resources, unsigned count) {
  LAGOON_FAKE_ENTER("cuDevResourceGenerateDesc", true);
  if (count != 1) return kInvalidValue;
  *description =
      reinterpret_cast<ResourceDesc>(static_cast<std::uintptr_t>(resources->multiprocessors));
  return kSuccess;
}
Code call_create_green_context(GreenContext* context, ResourceDesc description, Ordinal,
                               unsigned flags) {
  LAGOON_FAKE_ENTER("cuGreenCtxCreate", true);
  if (flags != kGreenDefaultStream || description == nullptr) return kInvalidValue;
  *context = reinterpret_cast<GreenContext>(description);
  ++Fake().green_contexts;
  return kSuccess;
}
Code call_destroy_green_context(GreenContext) {
  LAGOON_FAKE_ENTER("cuGreenCtxDestroy", false);
  return Fake().green_contexts-- > 0 ? kSuccess : kInvalidValue;
}
Code call_create_green_stream(Stream* stream, GreenContext context, unsigned flags, int priority) {
  LAGOON_FAKE_ENTER("cuGreenCtxStreamCreate", true);
  if (flags != kStreamNonBlocking) return kInvalidValue;
  const std::uint64_t id = Fake().gpu->CreateStream(-priority);
  *stream = reinterpret_cast<Stream>(id);
  Fake().Log({.name = "cuGreenCtxStreamCreate",
              .stream = id,
              .value = reinterpret_cast<std::uint64_t>(context)});
  return kSuccess;
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

/// The call with this name, or null.
void* Find(const std::string& name) {
  const std::vector<std::string>& missing = Fake().settings.missing;
  if (std::find(missing.begin(), missing.end(), name) != missing.end()) return nullptr;
#define LAGOON_FAKE_FIND(member, call_name, parameters) \
  if (name == (call_name)) {                            \
    Code(*const call) parameters = call_##member;       \
    return reinterpret_cast<void*>(call);               \
  }
  LAGOON_CUDA_DRIVER_CALLS(LAGOON_FAKE_FIND)
  LAGOON_CUDA_GREEN_CALLS(LAGOON_FAKE_FIND)
#undef LAGOON_FAKE_FIND
  return nullptr;
}

}  // namespace
}  // namespace lagoon::cuda::fake

extern "C" {

__attribute__((visibility("default"))) lagoon::cuda::fake::FakeCuda* lagoon_fake_cuda() {
  return &lagoon::cuda::fake::Fake();
}

__attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* symbol, void** call, int,
                                                               std::uint64_t, int* status) {
  *call = lagoon::cuda::fake::Find(symbol);
  *status = *call == nullptr ? 1 : 0;
  return *call == nullptr ? lagoon::cuda::fake::kNotFoundCode : lagoon::cuda::kSuccess;
}

}  // extern "C"

// The fake driver's control object, and the two symbols of its library.

#include "device/cuda/testing/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cuda/testing/fake_driver.h"

namespace lagoon::cuda::fake {
namespace {

constexpr std::size_t kAlignment = 256;

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

Driver& Fake() {
  static Driver driver;
  return driver;
}

void Driver::Reset(const Settings& fresh) {
  gpu.reset();
  const std::lock_guard lock(mutex);
  settings = fresh;
  retained = 0;
  connections = 0;
  process_fault = kSuccess;
  green_contexts = handles = 0;
  for (const auto& [address, block] : memory) {
    if (!block.second) std::free(address);
  }
  memory.clear();
  device_memory = std::make_unique<DeviceMemory>(settings.memory_bytes);
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
  *to = device ? device_memory->Allocate(bytes) : std::aligned_alloc(kAlignment, rounded);
  if (*to == nullptr) return kOutOfMemory;
  std::memset(device_memory->OnHost(*to), 0xcd, bytes);
  memory[*to] = {bytes, device};
  if (device) used_bytes += bytes;
  return kSuccess;
}

Code Driver::Free(void* address) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(address);
  if (found == memory.end()) return kInvalidValue;
  const auto [bytes, device] = found->second;
  memory.erase(found);
  if (device) {
    used_bytes -= bytes;
    device_memory->Free(address);
  } else {
    std::free(address);
  }
  return kSuccess;
}

// Steps of kernels until a written or copied word is there; on a real GPU 4 us.
constexpr int kLate = 8;

Code Driver::PushWrite(Stream stream, Address to, std::uint32_t value, const char* name) {
  auto* const word =
      reinterpret_cast<std::uint32_t*>(device_memory->OnHost(reinterpret_cast<void*>(to)));
  return Push(stream,
              {.run = [=] { __atomic_store_n(word, value, __ATOMIC_RELEASE); }, .delay = kLate},
              {.name = name, .value = value, .to = to});
}

Code Driver::PushWordCopy(Stream stream, Address to, const void* from, const char* name) {
  auto* const word =
      reinterpret_cast<std::uint32_t*>(device_memory->OnHost(reinterpret_cast<void*>(to)));
  const auto* const source = static_cast<const std::uint32_t*>(from);
  const auto copy = [=] {
    __atomic_store_n(word, __atomic_load_n(source, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
  };
  return Push(stream, {.run = copy, .delay = kLate},
              {.name = name, .value = __atomic_load_n(source, __ATOMIC_RELAXED), .to = to});
}

bool Driver::IsMine(const void* address, std::size_t bytes) {
  if (bytes == 0) return true;
  const std::lock_guard lock(mutex);
  auto after = memory.upper_bound(const_cast<void*>(address));
  if (after == memory.begin()) return false;
  const auto& [first, block] = *--after;
  const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) -
                                           static_cast<const std::byte*>(first));
  return at <= block.first && bytes <= block.first - at;
}

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

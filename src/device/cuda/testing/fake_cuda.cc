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

// The allocations of the program: scheduling points, counted, and some fail.

#include "world/allocations.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "world/threads.h"

namespace lagoon::world {
namespace {

std::atomic<std::int64_t> live{0};
// Touched only by the thread of the world that has the turn.
std::int64_t until_failure = 0;  // 0: none fails
std::int64_t failures_left = 0;
std::uint64_t failures = 0;
[[gnu::tls_model("initial-exec")]] thread_local bool spared = false;

/// Code that is not made for it: a round of the scheduler would leave tables half changed, and
/// Protocol Buffers do not bear exceptions.
bool MayNotFail() {
  std::array<void*, 128> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  return std::any_of(frames.begin(), frames.begin() + count, [](void* frame) {
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || info.dli_sname == nullptr) return false;
    const std::string_view name = info.dli_sname;
    const auto has = [&](const char* part) { return name.find(part) != name.npos; };
    return has("10Dispatcher4Step") || has("9Mechanism") || has("6google8protobuf");
  });
}

bool Fails() {
  if (failures_left == 0 || spared || !InWorld()) return false;
  if (until_failure > 1) {
    --until_failure;
    return false;
  }
  if (MayNotFail()) return false;
  --failures_left;
  ++failures;
  return true;
}

void* Allocate(std::size_t bytes) {
  OnAllocation();
  if (Fails()) return nullptr;
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void Free(void* data) {
  if (data != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(data);
}

}  // namespace

std::int64_t LiveAllocations() { return live.load(); }

void LetAllocationsFail(std::int64_t nth, std::int64_t count) {
  until_failure = nth;
  failures_left = count;
}

std::uint64_t FailedAllocations() { return failures; }

Spared::Spared(bool on) : before_(spared) { spared = on; }
Spared::~Spared() { spared = before_; }

}  // namespace lagoon::world

// Not inlined: gcc warns where it sees free() on one side of a pair and new on the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const data = lagoon::world::Allocate(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return lagoon::world::Allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* data) noexcept { lagoon::world::Free(data); }
[[gnu::noinline]] void operator delete(void* data, const std::nothrow_t&) noexcept {
  lagoon::world::Free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  lagoon::world::Free(data);
}
// Those of arrays as well: a sanitizer's own ones would not come here.
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept {
  return operator new(bytes, none);
}
void operator delete[](void* data) noexcept { operator delete(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { operator delete(data); }
void operator delete[](void* data, std::size_t) noexcept { operator delete(data); }

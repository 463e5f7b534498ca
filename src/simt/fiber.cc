#include "simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <utility>
#include <vector>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define LAGOON_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LAGOON_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define LAGOON_TSAN 1
#endif
#endif
#ifdef LAGOON_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LAGOON_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace lagoon::simt {
namespace {

namespace context = boost::context::detail;

std::size_t PageBytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t StackBytes(std::size_t usable) { return PageBytes() + usable; }

/// Stacks of destroyed fibers, kept for new ones: mapping a stack costs more than a short kernel.
class StackPool {
 public:
  explicit StackPool(std::size_t usable) : usable_(usable) {}
  ~StackPool() {
    for (std::byte* stack : free_) munmap(stack, StackBytes(usable_));
  }
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  std::byte* Take() {
    if (!free_.empty()) {
      std::byte* const stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* memory = mmap(nullptr, StackBytes(usable_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LAGOON_CHECK(memory != MAP_FAILED);
    LAGOON_CHECK(mprotect(memory, PageBytes(), PROT_NONE) == 0);
    return static_cast<std::byte*>(memory);
  }

  void Return(std::byte* stack) {
    if (free_.size() < kMostFree) return free_.push_back(stack);
    munmap(stack, StackBytes(usable_));
  }

 private:
  static constexpr std::size_t kMostFree = 4096;

  std::size_t usable_;
  std::vector<std::byte*> free_;
};

// AddressSanitizer keeps track of the stack that is in use. Empty without it.
void BeginSwitch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack,
                 [[maybe_unused]] std::size_t bytes) {
#ifdef LAGOON_ASAN
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
}

void EndSwitch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
               [[maybe_unused]] std::size_t* bytes) {
#ifdef LAGOON_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#endif
}

// ThreadSanitizer follows a fiber as a thread that is ordered with its resumer.
void* NewTracked() {
#ifdef LAGOON_TSAN
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

void* Tracked() {
#ifdef LAGOON_TSAN
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void Track([[maybe_unused]] void* tracked) {
#ifdef LAGOON_TSAN
  __tsan_switch_to_fiber(tracked, 0);
#endif
}

void EndTracked([[maybe_unused]] void* tracked) {
#ifdef LAGOON_TSAN
  if (tracked != nullptr) __tsan_destroy_fiber(tracked);
#endif
}

// Enough for deep bodies under a sanitizer.
constexpr std::size_t kStackBytes = std::size_t{128} << 10;

StackPool& Pool() {
  thread_local StackPool pool(kStackBytes);
  return pool;
}

}  // namespace

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  Drop();
  Pool().Return(memory_);
}

void Fiber::Start(Job job, void* argument) {
  LAGOON_CHECK(job_ == nullptr);
  job_ = job;
  argument_ = argument;
  if (context_ == nullptr) Create();
}

void Fiber::Create() {
  if (memory_ == nullptr) memory_ = Pool().Take();
  tracked_ = NewTracked();
  std::byte* top = memory_ + PageBytes() + kStackBytes;
  context_ = context::make_fcontext(top, kStackBytes, [](context::transfer_t from) {
    auto* self = static_cast<Fiber*>(from.data);
    self->resumer_ = from.fctx;
    Main(self);
  });
}

// Never returns: an idle fiber waits here for its next job.
void Fiber::Main(void* self) {
  auto& fiber = *static_cast<Fiber*>(self);
  EndSwitch(nullptr, &fiber.outer_stack_, &fiber.outer_bytes_);
  for (;;) {
    fiber.job_(fiber.argument_);
    fiber.job_ = nullptr;
    fiber.Pause();
  }
}

void Fiber::Resume() {
  BeginSwitch(&outer_fake_stack_, memory_ + PageBytes(), kStackBytes);
  outer_tracked_ = Tracked();
  Track(tracked_);
  context_ = context::jump_fcontext(context_, this).fctx;
  EndSwitch(outer_fake_stack_, nullptr, nullptr);
}

void Fiber::Pause() {
  BeginSwitch(&own_fake_stack_, outer_stack_, outer_bytes_);
  Track(outer_tracked_);
  resumer_ = context::jump_fcontext(resumer_, this).fctx;
  EndSwitch(own_fake_stack_, &outer_stack_, &outer_bytes_);
}

void Fiber::Drop() {
  job_ = nullptr;
  context_ = nullptr;
  EndTracked(std::exchange(tracked_, nullptr));
#ifdef LAGOON_ASAN
  // Frames that never return leave their red zones behind.
  if (memory_ != nullptr) ASAN_UNPOISON_MEMORY_REGION(memory_ + PageBytes(), kStackBytes);
#endif
}

}  // namespace lagoon::simt

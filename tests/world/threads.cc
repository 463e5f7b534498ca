#include "world/threads.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "world/allocations.h"

namespace lagoon::world {
namespace {

constexpr std::int64_t kForever = INT64_MAX;
constexpr std::int64_t kBegin = 1'000'000'000'000;  // of virtual time, in ns

// ---- System calls past the replaced functions

long Raw(long number, long a, long b, long c, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
  long result = 0;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#else
#error "virtual time needs x86-64"
#endif
}

long RawFutex(std::atomic<int>* word, int operation, int value) {
  return Raw(SYS_futex, reinterpret_cast<long>(word), operation, value);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// ---- The threads

struct Thread {
  enum class State { kRunnable, kMutex, kCondition, kFutex, kSleep, kJoin, kDone };

  std::uint32_t id = 0;
  State state = State::kRunnable;
  const void* on = nullptr;  // mutex, condition, futex or thread that it waits for
  int expected = 0;          // kFutex: waits while the word has this value
  std::int64_t until = kForever;
  bool timed_out = false;
  bool slow = false;
  std::atomic<int> go{0};  // 1: has the turn
  pthread_t handle{};
  void* (*function)(void*) = nullptr;
  void* argument = nullptr;
};

struct World {
  ThreadOptions options;
  std::function<void(const std::string&)> stuck;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Thread*> candidates;
  std::int64_t now = kBegin;
  std::uint64_t random = 1;
  std::uint64_t until_switch = 1;
  std::uint64_t until_allocation = 1;
  ThreadReport report;
};

World* world = nullptr;  // touched only by the thread that has the turn
[[gnu::tls_model("initial-exec")]] thread_local Thread* self = nullptr;

std::uint64_t Draw() {  // splitmix64
  std::uint64_t z = (world->random += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
std::uint64_t DrawBelow(std::uint64_t bound) { return bound < 2 ? 0 : Draw() % bound; }

void Mix(std::uint64_t value) {
  std::uint64_t& hash = world->report.hash;
  hash = (hash ^ value) * 0x100000001b3ULL;
  hash ^= hash >> 29;
}

bool MayRun(const Thread& thread) {
  switch (thread.state) {
    case Thread::State::kRunnable:
      return true;
    case Thread::State::kDone:
      return false;
    case Thread::State::kFutex:
      if (reinterpret_cast<const std::atomic<int>*>(thread.on)->load() != thread.expected)
        return true;
      break;
    default:
      break;
  }
  return thread.until <= world->now;
}

std::string Describe() {
  static constexpr std::array kWaits = {"nothing",   "a mutex",  "a condition",
                                        "an atomic", "its time", "the end of a thread"};
  std::string text;
  for (const auto& thread : world->threads) {
    if (thread->state == Thread::State::kDone) continue;
    text += "\n  thread " + std::to_string(thread->id) + " waits for ";
    text += kWaits.at(static_cast<std::size_t>(thread->state));
    if (thread.get() == self) text += " (the last one that ran)";
  }
  return text;
}

[[noreturn]] void Stuck(const std::string& why) {
  const std::string text = why + Describe();
  self = nullptr;  // from now on, the real functions
  world->stuck(text);
  std::abort();
}

// The thread whose turn is next. Time goes on to the next deadline if no thread may run.
Thread* Pick() {
  std::vector<Thread*>& candidates = world->candidates;
  while (true) {
    candidates.clear();
    std::int64_t next = kForever;
    for (const auto& thread : world->threads) {
      if (MayRun(*thread)) {
        candidates.push_back(thread.get());
      } else if (thread->state != Thread::State::kDone) {
        next = std::min(next, thread->until);
      }
    }
    if (!candidates.empty()) break;
    if (next == kForever) Stuck("every thread waits for ever:");
    world->now = std::max(world->now, next);
  }
  for (int tries = 0; tries < 8; ++tries) {
    Thread* const thread = candidates[DrawBelow(candidates.size())];
    if (!thread->slow) return thread;
  }
  return candidates[DrawBelow(candidates.size())];
}

void AwaitTurn(Thread& thread) {
  while (thread.go.load(std::memory_order_acquire) == 0)
    RawFutex(&thread.go, FUTEX_WAIT_PRIVATE, 0);
  thread.go.store(0, std::memory_order_relaxed);
}

void GiveTurn(Thread& thread) {
  thread.go.store(1, std::memory_order_release);
  RawFutex(&thread.go, FUTEX_WAKE_PRIVATE, 1);
}

void Resume(Thread& thread) {
  thread.timed_out =
      thread.state != Thread::State::kRunnable && thread.state != Thread::State::kFutex;
  thread.state = Thread::State::kRunnable;
  thread.until = kForever;
  thread.on = nullptr;
}

/// Another thread may go on. Returns when it is this thread's turn again.
void Switch() {
  Thread* const me = self;
  const std::uint32_t stalls = world->options.switches_per_stall;
  if (stalls != 0 && me->state == Thread::State::kRunnable && DrawBelow(stalls) == 0) {
    me->state = Thread::State::kSleep;
    me->until = world->now + static_cast<std::int64_t>(DrawBelow(kLongestStallNs));
  }
  world->until_switch = 1 + DrawBelow(2 * world->options.points_per_switch);
  Thread* const next = Pick();
  ++world->report.switches;
  Mix(next->id * 1'000'003ULL + static_cast<std::uint64_t>(world->now));
  if (next != me) {
    const bool ended = me->state == Thread::State::kDone;
    if (ended) self = nullptr;
    GiveTurn(*next);
    if (ended) return;
    AwaitTurn(*me);
  }
  Resume(*me);
}

void Point() {
  World& w = *world;
  if (++w.report.points > w.options.most_points) Stuck("no end is near:");
  w.now += 1 + static_cast<std::int64_t>(DrawBelow(2 * w.options.ns_per_point));
  if (--w.until_switch == 0) Switch();
}

/// The calling thread waits for `on`, at most until `until`. True: in vain.
bool Block(Thread::State state, const void* on, std::int64_t until = kForever) {
  self->state = state;
  self->on = on;
  self->until = until;
  Switch();
  return self->timed_out;
}

void WakeAll(Thread::State state, const void* on) {
  for (const auto& thread : world->threads) {
    if (thread->state == state && thread->on == on) {
      thread->state = Thread::State::kRunnable;
      thread->timed_out = false;
    }
  }
}

void WakeOne(Thread::State state, const void* on) {
  std::vector<Thread*>& found = world->candidates;
  found.clear();
  for (const auto& thread : world->threads) {
    if (thread->state == state && thread->on == on) found.push_back(thread.get());
  }
  if (!found.empty()) found[DrawBelow(found.size())]->state = Thread::State::kRunnable;
}

Thread& AddThread() {
  const Spared spared;
  Thread& thread = *world->threads.emplace_back(std::make_unique<Thread>());
  thread.id = static_cast<std::uint32_t>(world->threads.size() - 1);
  const std::uint32_t slow = world->options.slow_threads;
  thread.slow = slow != 0 && thread.id != 0 && DrawBelow(slow) == 0;
  return thread;
}

void* Enter(void* pointer) {
  Thread& thread = *static_cast<Thread*>(pointer);
  AwaitTurn(thread);
  self = &thread;
  void* const result = thread.function(thread.argument);
  thread.state = Thread::State::kDone;
  WakeAll(Thread::State::kJoin, &thread);
  Switch();  // does not come back
  return result;
}

void LeaveInChild() { self = nullptr; }  // of fork(): it has one thread

timespec ToTimespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}
std::int64_t ToNs(const timespec& time) {
  if (time.tv_sec >= kForever / 1'000'000'000 - 1) return kForever;
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void Lock(pthread_mutex_t* mutex) {
  static auto* const real = Next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  while (real(mutex) != 0) Block(Thread::State::kMutex, mutex);
}
void Unlock(pthread_mutex_t* mutex) {
  static auto* const real = Next<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  real(mutex);
  WakeAll(Thread::State::kMutex, mutex);
}

int WaitOn(pthread_cond_t* condition, pthread_mutex_t* mutex, std::int64_t until) {
  Unlock(mutex);
  const bool timed_out = Block(Thread::State::kCondition, condition, until);
  Lock(mutex);
  return timed_out ? ETIMEDOUT : 0;
}

}  // namespace

ThreadReport RunInVirtualTime(const ThreadOptions& options, const std::function<void()>& body,
                              std::function<void(const std::string&)> stuck) {
  // Looked up before they are needed, as this allocates.
  Next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  pthread_atfork(nullptr, nullptr, LeaveInChild);
  World here;
  here.options = options;
  here.stuck = std::move(stuck);
  here.threads.reserve(4096);
  here.candidates.reserve(4096);
  here.random = options.seed;
  world = &here;
  here.until_allocation = 1 + DrawBelow(2 * options.allocations_per_switch);
  self = &AddThread();
  body();
  const auto ended = [](const auto& thread) {
    return thread.get() == self || thread->state == Thread::State::kDone;
  };
  if (!std::ranges::all_of(here.threads, ended)) Stuck("threads are left:");
  self = nullptr;
  world = nullptr;
  return here.report;
}

void SleepFor(std::uint64_t ns) {
  Block(Thread::State::kSleep, nullptr, world->now + static_cast<std::int64_t>(ns));
}

void Note(std::uint64_t value) { Mix(value); }

bool InWorld() { return self != nullptr; }

std::size_t ThreadsSoFar() { return world->threads.size(); }

void OnAllocation() {
  if (self == nullptr || --world->until_allocation != 0) return;
  world->until_allocation = 1 + DrawBelow(2 * world->options.allocations_per_switch);
  world->now += 1 + static_cast<std::int64_t>(DrawBelow(2 * world->options.ns_per_point));
  Switch();
}

}  // namespace lagoon::world

// ---- The replaced functions

using lagoon::world::self;
namespace lw = lagoon::world;

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = lw::Next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (self == nullptr) return real(mutex);
  lw::Point();
  lw::Lock(mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = lw::Next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  if (self == nullptr) return real(mutex);
  lw::Point();
  const int result = real(mutex);
  if (result != 0) lw::Switch();  // who tries again and again must not keep the turn
  return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = lw::Next<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  if (self == nullptr) return real(mutex);
  lw::Unlock(mutex);
  lw::Point();
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const real = lw::Next<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  if (self == nullptr) return real(condition, mutex);
  return lw::WaitOn(condition, mutex, lw::kForever);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static auto* const real =
      lw::Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  if (self == nullptr) return real(condition, mutex, until);
  return lw::WaitOn(condition, mutex, lw::ToNs(*until));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const real =
      lw::Next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
          "pthread_cond_clockwait");
  if (self == nullptr) return real(condition, mutex, clock, until);
  return lw::WaitOn(condition, mutex, lw::ToNs(*until));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  static auto* const real = lw::Next<int(pthread_cond_t*)>("pthread_cond_signal");
  if (self == nullptr) return real(condition);
  lw::WakeOne(lw::Thread::State::kCondition, condition);
  lw::Point();
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  static auto* const real = lw::Next<int(pthread_cond_t*)>("pthread_cond_broadcast");
  if (self == nullptr) return real(condition);
  lw::WakeAll(lw::Thread::State::kCondition, condition);
  lw::Point();
  return 0;
}

using CreateFunction = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
CreateFunction __interceptor_pthread_create __attribute__((weak));  // of a sanitizer

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  static auto* const real = __interceptor_pthread_create != nullptr
                                ? __interceptor_pthread_create
                                : lw::Next<CreateFunction>("pthread_create");
  if (self == nullptr) return real(handle, attributes, function, argument);
  lw::Thread& thread = lw::AddThread();
  thread.function = function;
  thread.argument = argument;
  const int result = real(handle, attributes, lw::Enter, &thread);
  if (result != 0) {
    thread.state = lw::Thread::State::kDone;
    return result;
  }
  thread.handle = *handle;
  lw::Point();
  return 0;
}

int pthread_join(pthread_t handle, void** result) {
  static auto* const real = lw::Next<int(pthread_t, void**)>("pthread_join");
  if (self == nullptr) return real(handle, result);
  auto& threads = lw::world->threads;
  // The last one: handles of threads that have ended are used again.
  const auto found = std::find_if(threads.rbegin(), threads.rend(),
                                  [&](const auto& thread) { return thread->handle == handle; });
  if (found != threads.rend()) {
    while ((*found)->state != lw::Thread::State::kDone) {
      lw::Block(lw::Thread::State::kJoin, found->get());
    }
  }
  return real(handle, result);
}

int sched_yield() noexcept {
  if (self == nullptr) return static_cast<int>(lw::Raw(SYS_sched_yield, 0, 0, 0));
  lw::Point();
  lw::Switch();
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = lw::Next<int(clockid_t, timespec*)>("clock_gettime");
  if (self == nullptr) return real(clock, time);
  lw::Point();
  *time = lw::ToTimespec(lw::world->now);
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  static auto* const real = lw::Next<int(const timespec*, timespec*)>("nanosleep");
  if (self == nullptr) return real(time, left);
  lw::SleepFor(static_cast<std::uint64_t>(lw::ToNs(*time)));
  return 0;
}

// The end of a child process is an event of real time: a thread that polls for it waits at once.
int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  static auto* const real = lw::Next<int(idtype_t, id_t, siginfo_t*, int)>("waitid");
  return real(type, id, info, self == nullptr ? options : options & ~WNOHANG);
}

// std::atomic::wait and initialisation of static variables. Reads six words, of which the caller
// may have passed fewer.
__attribute__((no_sanitize_address)) long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && self != nullptr) {
    const long operation = words[1] & FUTEX_CMD_MASK;
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
      lw::Point();
      return 0;  // a thread that waits looks at the word itself
    }
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) {
      const auto* until = reinterpret_cast<const timespec*>(words[3]);
      std::int64_t end = lw::kForever;
      if (until != nullptr) {
        end = lw::ToNs(*until) + (operation == FUTEX_WAIT ? lw::world->now : 0);
      }
      self->expected = static_cast<int>(words[2]);
      lw::Block(lw::Thread::State::kFutex, reinterpret_cast<const void*>(words[0]), end);
      return 0;
    }
  }
  const long result = lw::Raw(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"

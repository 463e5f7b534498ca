#pragma once

// Threads one at a time, in virtual time. This program replaces the calls of the system that start
// threads, block them and tell the time. Within RunInVirtualTime() a thread runs until it calls one
// of them; then a number drawn from the seed decides which thread goes on. So real code with real
// threads runs the same way whenever the seed is the same, time passes only in this clock, and a
// thread that waits for ever is found at once.
//
// Scheduling points are: locks, condition variables, std::atomic::wait, yields, sleeps, readings of
// the clock, starts and ends of threads, and allocations. Threads that were started outside of
// RunInVirtualTime() are not touched.

#include <cstdint>
#include <functional>
#include <string>

namespace lagoon::world {

struct ThreadOptions {
  std::uint64_t seed = 1;
  /// After so many scheduling points, on average, another thread goes on. At least 1.
  std::uint32_t points_per_switch = 20;
  /// The same for allocations, which are many.
  std::uint32_t allocations_per_switch = 200;
  /// Mean cost of a scheduling point.
  std::uint32_t ns_per_point = 200;
  /// One thread in so many is slow, as if its nice value were high: others go first. 0: none.
  std::uint32_t slow_threads = 4;
  /// After so many switches, on average, the thread that gives its turn away does not run for up to
  /// kLongestStallNs. 0: never.
  std::uint32_t switches_per_stall = 0;
  std::uint64_t most_points = 30'000'000;
};

inline constexpr std::uint64_t kLongestStallNs = 1'500'000'000;

struct ThreadReport {
  std::uint64_t points = 0;
  std::uint64_t switches = 0;
  std::uint64_t hash = 0;  // of all switches: which thread, and when
};

/// Runs `body` and the threads that it starts, which must have ended when it returns. If all
/// threads wait for ever, or none comes to an end, `stuck` is called with the reason and must not
/// return. Only one call per process.
ThreadReport RunInVirtualTime(const ThreadOptions& options, const std::function<void()>& body,
                              std::function<void(const std::string&)> stuck);

/// Lets the virtual time pass for the calling thread.
void SleepFor(std::uint64_t ns);

/// Mixes `value` into the hash.
void Note(std::uint64_t value);

/// Whether the calling thread is one of the world.
bool InWorld();

/// How many threads were ever started.
std::size_t ThreadsSoFar();

/// A scheduling point, called by operator new.
void OnAllocation();

}  // namespace lagoon::world

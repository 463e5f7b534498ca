#pragma once

// The allocations of the program, and memory that runs out.

#include <cstdint>

namespace lagoon::world {

/// Allocations of the program that are not freed.
std::int64_t LiveAllocations();

/// The `nth` allocation from now on and those behind it throw std::bad_alloc, `count` in all. Only
/// those of threads of the world count, except where they are spared.
void LetAllocationsFail(std::int64_t nth, std::int64_t count);

/// How many have failed so far.
std::uint64_t FailedAllocations();

/// While it lives, no allocation of the calling thread fails: the test's own code. `on` is false
/// where this code calls the server.
class Spared {
 public:
  explicit Spared(bool on = true);
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const bool before_;
};

}  // namespace lagoon::world

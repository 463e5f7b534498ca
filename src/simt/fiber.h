#pragma once

// A fiber has a stack of its own and runs until it pauses. Fibers and the code that resumes them
// share one OS thread.

#include <cstddef>
#include <cstdint>

namespace lagoon::simt {

/// Runs jobs one after the other on a stack with a guard page below. All calls come from
/// the thread that made it.
class Fiber {
 public:
  using Job = void (*)(void* argument);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Sets the job that the next Resume() begins. The fiber must be idle: new, finished or dropped.
  void Start(Job job, void* argument);

  /// Runs the job until it pauses or ends. Called from outside of the fiber.
  void Resume();

  /// Returns from Resume(). Called by the job, on the fiber.
  void Pause();

  /// Forgets a paused job. Nothing on its stack is destroyed.
  void Drop();

 private:
  static void Main(void* self);
  void Create();

  std::byte* memory_ = nullptr;  // guard page, then the stack; allocated at the first use
  void* context_ = nullptr;      // of the paused fiber; null: its stack is empty
  void* resumer_ = nullptr;
  Job job_ = nullptr;
  void* argument_ = nullptr;
  // ThreadSanitizer's view of the two sides.
  void* tracked_ = nullptr;
  void* outer_tracked_ = nullptr;
  // AddressSanitizer's view of the two stacks.
  void* own_fake_stack_ = nullptr;
  void* outer_fake_stack_ = nullptr;
  const void* outer_stack_ = nullptr;
  std::size_t outer_bytes_ = 0;
};

}  // namespace lagoon::simt

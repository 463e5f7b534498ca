#pragma once

#include <atomic>
#include <cstdint>

#include "device/block.h"
#include "device/device.h"

namespace lagoon {

/// Holds the listener of a device. One thread may call the listener while another takes it away.
///
/// Tell() takes no lock: it costs two atomic additions. Templated on its atomics, so that a test
/// explores all interleavings. The slot must outlive the threads that call Tell().
template <typename Atomics>
class BasicListenerSlot {
 public:
  /// After Set() no call of the former listener runs and none will begin. While Set() waits for
  /// calls under way, Tell() calls no listener.
  ///
  /// Any thread, one at a time. Inside a call by this slot Set() does not wait, as it would wait
  /// for itself: calls under way go on, and the next Set() from outside waits for them.
  /// Set(nullptr) inside a call may run beside a Set() of another thread.
  void Set(DeviceListener* listener) {
    listener_.store(nullptr, std::memory_order_seq_cst);
    for (std::uint32_t calls; !IsInside() && (calls = Calls()) != 0;) {
      calls_.wait(calls, std::memory_order_seq_cst);
    }
    listener_.store(listener, std::memory_order_release);
  }

  /// Any thread, holding no lock that a listener may need: see DeviceListener::OnDeviceNews().
  void Tell() {
    // relaxed: only a guess. Without a listener the counting is saved.
    if (listener_.load(std::memory_order_relaxed) == nullptr) return;
    const Call call(*this);
    // seq_cst, here and in Set(): either Set() sees this call counted and waits for it, or this
    // thread sees the null that Set() has stored.
    calls_.fetch_add(1, std::memory_order_seq_cst);
    DeviceListener* const listener = listener_.load(std::memory_order_seq_cst);
    if (listener != nullptr) listener->OnDeviceNews();
    // release: all that the listener did comes before the end of a Set() that waits for it.
    if (calls_.fetch_sub(1, std::memory_order_release) == 1) calls_.notify_all();
  }

 private:
  // A Tell() under way on this thread.
  class Call {
   public:
    explicit Call(const BasicListenerSlot& slot) : slot_(&slot), outer_(innermost_) {
      innermost_ = this;
    }
    ~Call() { innermost_ = outer_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    const BasicListenerSlot* slot() const { return slot_; }
    const Call* outer() const { return outer_; }

   private:
    const BasicListenerSlot* slot_;
    const Call* outer_;
  };

  std::uint32_t Calls() const { return calls_.load(std::memory_order_seq_cst); }

  bool IsInside() const {
    for (const Call* call = innermost_; call != nullptr; call = call->outer()) {
      if (call->slot() == this) return true;
    }
    return false;
  }

  static inline constinit thread_local const Call* innermost_ = nullptr;

  typename Atomics::template Atomic<DeviceListener*> listener_{nullptr};
  typename Atomics::template Atomic<std::uint32_t> calls_{0};  // calls under way or just beginning
};

using ListenerSlot = BasicListenerSlot<StdAtomics>;

}  // namespace lagoon

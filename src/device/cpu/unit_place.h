#pragma once

#include <atomic>
#include <cstdint>

#include "device/block.h"

namespace lagoon {

/// Who works on a compute unit: its worker, or a thread that has borrowed the unit while the worker
/// had no work (Device::BorrowUnit). Never both.
///
///   at work -> idle -> at work               the worker found no work, then some came
///              idle -> asleep -> at work     none came for a while; Wake() ended the sleep
///              idle, asleep -> lent -> asleep
///
/// No wake-up is lost. Whoever makes work ready advances an epoch first, and then wakes those who
/// are asleep. Whoever is asleep, a worker that has gone to sleep or a unit that was given back,
/// looks at the epoch (or for work) after that. All of these accesses are seq_cst, so one of the
/// two sides sees the other.
///
/// To lend and to give back costs no wake-up: the worker sleeps on meanwhile. Templated on its
/// atomics, so that a test explores all interleavings.
template <typename Atomics>
class BasicUnitPlace {
 public:
  using Count = typename Atomics::template Atomic<std::uint32_t>;

  /// `sleepers`: the number of places that are asleep, or about to be; shared by all places.
  explicit BasicUnitPlace(Count& sleepers) : sleepers_(sleepers) {}

  // ---- The worker

  /// From now on the unit may be borrowed. release: the thread that borrows it sees what the worker
  /// left.
  void BeginIdle() { state_.store(kIdle, std::memory_order_release); }
  /// While idle: whether the unit is not lent. A guess.
  bool idle() const { return state_.load(std::memory_order_relaxed) == kIdle; }
  /// The worker goes on. False: the unit was lent, and AwaitTurn() must follow.
  bool EndIdle() { return Change(kIdle, kAtWork); }
  /// The worker is about to sleep. Then it looks for news and for work, and calls WakeItself() if
  /// there is some, else AwaitTurn(). False: the unit was lent; only AwaitTurn() must follow.
  bool FallAsleep() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (Change(kIdle, kAsleep)) return true;
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return false;
  }
  /// True: the worker goes on. False: AwaitTurn() must follow.
  bool WakeItself() { return LeaveSleep(kAtWork); }
  /// Sleeps until Wake().
  void AwaitTurn() {
    for (;;) {
      const std::uint32_t state = state_.load(std::memory_order_acquire);
      if (state == kAtWork) return;
      state_.wait(state, std::memory_order_acquire);
    }
  }

  // ---- Other threads

  /// At the end of all: whatever the worker does, it goes on. An epoch was advanced before.
  void End() {
    state_.store(kAtWork, std::memory_order_seq_cst);
    state_.notify_all();
  }

  /// Ends the worker's sleep. False: it is not asleep.
  bool Wake() {
    if (!LeaveSleep(kAtWork)) return false;
    state_.notify_all();
    return true;
  }
  /// Takes the place of a worker that is idle, or that is asleep if `asleep`. False: it is not.
  bool Borrow(bool asleep) { return asleep ? LeaveSleep(kLent) : Change(kIdle, kLent); }
  /// The worker counts as asleep from now on: look for work after this.
  void GiveBack() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    state_.store(kAsleep, std::memory_order_seq_cst);
  }

 private:
  static constexpr std::uint32_t kAtWork = 0, kIdle = 1, kAsleep = 2, kLent = 3;

  bool Change(std::uint32_t from, std::uint32_t to) {
    return state_.compare_exchange_strong(from, to, std::memory_order_seq_cst);
  }
  bool LeaveSleep(std::uint32_t to) {
    if (!Change(kAsleep, to)) return false;
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return true;
  }

  Count& sleepers_;
  Count state_{kAtWork};
};

using UnitPlace = BasicUnitPlace<StdAtomics>;

}  // namespace lagoon

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/cpu/launch_table.h"
#include "device/cpu/mailbox.h"
#include "device/cpu/unit_clock.h"
#include "device/cpu/unit_place.h"
#include "device/cpu/watchers.h"
#include "device/device.h"
#include "device/host/busy_lock.h"
#include "device/host/guard_words.h"
#include "device/host/shares.h"

namespace lagoon {

/// Worker threads and the table of their launches. One lock protects the table. A worker holds the
/// lock to return what it finished and to take the best work; it runs blocks without the lock.
/// Every change that makes something runnable happens under the lock and increments `epoch_`, so no
/// worker sleeps or goes on past it.
///
/// The workers of a background pool are of the operating system's idle class: any of them may lose
/// its core for a long time, at any instruction. So nobody else may wait for them. A caller does
/// not take the pool's lock but sends letters (mailbox.h), which the workers read under the lock;
/// events come back through a ring without a lock; and workers sleep on atomic words.
class WorkerPool {
 public:
  struct Options {
    std::string name;  // the threads are NAME-0, NAME-1, ...
    std::uint32_t workers = 0;
    std::uint32_t first_unit = 0;  // an observer sees worker i as unit first_unit + i
    bool background = false;
    bool gives_way = false;  // the threads are of the system's idle class
    CheckProbe* probe = nullptr;
    const WorkerPool* below = nullptr;  // a unit is idle if its worker there is idle, too
  };

  /// `guards`, `shares`: the device's; borrowed. `on_news`: called by workers, which hold no lock,
  /// when pending() has news: see DeviceListener::OnDeviceNews().
  WorkerPool(Options options, const GuardWords& guards, const Shares& shares,
             std::function<void()> on_news);
  /// Lets running blocks end. Launches in flight are dropped without events.
  ~WorkerPool();

  /// Call once. `cores`: worker i is bound to cores[i]. Empty: no worker is bound.
  Status Start(std::span<const int> cores);

  // One caller at a time: DeviceQueue's.
  SubmitResult Submit(const Launch& launch, Body body);
  SubmitResult Submit(const Copy& copy);
  /// A guard's word was changed.
  void OnGuardRaised();
  /// A share was moved.
  void OnShareMoved();
  /// Launches outside of this pool have retired, of whose blocks launches here may count the done
  /// ones.
  void OnOthersRetired();
  std::size_t Poll(std::span<DeviceEvent> events);
  /// DeviceQueue::HurryBackground().
  void Hurry(bool hurry);

  // Any thread. Not of a background pool. Device::BorrowUnit() and Device::Help().
  BorrowedUnit Borrow(ShareId share);
  void Help(BorrowedUnit unit, const HelpUntil& until);

  /// Number of events to poll. Any thread.
  std::size_t pending() const { return table_events_.size(); }
  /// Number of launches whose retirement is to be polled. Any thread.
  std::size_t retired() const { return table_events_.retired(); }
  /// True if there are events, and no more will come before another call. Any thread. `on_news` is
  /// called when this becomes true.
  bool HasLastEvents() const {
    return pending() != 0 && sleepers_.load(std::memory_order_seq_cst) == workers_.size();
  }
  /// Gives worker i `scratch[i]`, which is larger than what it has, before its next kernel. Call it
  /// from one thread at a time. Keeps what the workers had: twice the largest at most, if sizes
  /// double.
  void SetScratch(std::vector<Buffer> scratch);
  void SetWorkHeld(bool held);
  void SetObserver(DeviceObserver* observer) { observer_ = observer; }
  UnitTimes Times() const;

  static constexpr LaunchTable::Limits kLimits{};
  /// A background pool keeps launches that were revoked until its workers get a core.
  static constexpr std::uint32_t kBackgroundLaunches = 2 * kLimits.launches;

 private:
  using Assignment = LaunchTable::Assignment;

  // How long a worker without work keeps looking before it sleeps. At a kernel's tail one worker
  // waits for the other's last block, up to one block (20-100 us). If the worker slept then, almost
  // every kernel would cost a futex wake-up (5-50 us). Longer spinning would take the core from the
  // threads that bring requests: with two cores there is no other.
  static constexpr Nanoseconds kIdleSpin = std::chrono::microseconds(100);

  struct Worker {
    Worker(std::uint32_t unit_in, bool idle_in, UnitPlace::Count& sleepers)
        : unit(unit_in), place(sleepers), idle(idle_in) {}

    const std::uint32_t unit;
    UnitPlace place;
    // Used by the thread that has the unit: its worker, or one that has borrowed it.
    const HelpUntil* until = nullptr;  // of a thread that has borrowed the unit
    std::optional<Assignment> work;
    Leave why = Leave::kExhausted;  // how `work` ended
    TimePoint left_at;              // when its last block ended
    TimePoint deferred_at;          // when it began to defer news
    std::uint32_t seen_epoch = 0;
    bool news_deferred = false;
    bool tells = false;     // a kProgress is due for the block that was committed last
    bool few_left = false;  // the table has no more launches than workers

    std::atomic<pid_t> thread_id{0};              // the system's; 0: not begun
    std::atomic<const Buffer*> scratch{nullptr};  // one of `scratch_`
    std::atomic<bool> idle;                       // written under the pool's lock
    BusyClock busy;                               // read by Times()
    std::jthread thread;
  };

  // The worker's loop (worker_loop.cc).
  void RunWorker(Worker& worker);
  bool NextWork(Worker& worker);
  bool TakeWork(Worker& worker, const Assignment* last);
  void RunWork(Worker& worker);
  bool ShouldYield(Worker& worker);
  bool MayDefer(const Worker& worker, const Assignment& last) const;
  void AwaitChange(Worker& worker);
  template <typename Stop>
  bool SpinForChange(std::uint32_t seen_epoch, Stop stop) const;
  // Of threads that help (worker_help.cc).
  void FinishWork(Worker& worker);
  void GiveBack(Worker& worker);
  static bool Over(const HelpUntil& until, TimePoint now);
  static std::uint8_t LevelOf(const Worker& worker) {
    return worker.until == nullptr ? LaunchTable::kAnyLevel : worker.until->level;
  }
  std::int64_t IdleUnits() const;

  // After any change of the table: makes it visible to workers, and updates the copies of the
  // table's state that are read without the lock.
  void Publish(bool may_run) REQUIRES(mutex_);
  /// How many sleeping workers to wake for `tiles` tiles. While a launch has a share, the worker
  /// that wakes may not be allowed to take a tile; so all wake. (The one worker would wake all when
  /// it finds nothing, but that takes one wake-up longer.)
  std::uint64_t Wanted(std::uint64_t tiles) const REQUIRES(mutex_);
  /// Wakes up to `count` of the workers that sleep; `sleepers` is their number. Call without the
  /// lock.
  void WakeWorkers(std::uint64_t count, std::uint32_t sleepers);
  template <typename Work, typename... Code>
  SubmitResult Add(const Work& work, std::uint64_t tiles, Code... code);
  SubmitResult Send(const Letter& letter, std::uint64_t tiles);
  void Announce(std::uint64_t wanted);
  void ReadLetters() REQUIRES(mutex_);
  bool HasLetters() const;
  void SettleAll();
  void TellProgress(const Assignment& work);
  void DeliverNews();

  const Options options_;
  const Shares& shares_;
  const std::function<void()> on_news_;
  DeviceObserver* observer_ = nullptr;  // changed only while nothing runs
  std::deque<Buffer> scratch_;          // used by SetScratch() only; all that workers had

  mutable Mutex mutex_;
  LaunchTable table_ GUARDED_BY(mutex_);
  EventRing& table_events_;  // the table's; popped without the lock
  mutable IdleClock idle_ GUARDED_BY(mutex_);
  bool held_ = false;  // used only by the caller of SetWorkHeld()

  // Used by a background pool only.
  std::unique_ptr<Mailbox> mailbox_;
  std::atomic<bool> settle_{false};  // a letter that says: a guard's word or a count has changed
  std::uint32_t in_flight_ = 0;      // used only by the caller: submitted, retirement not polled

  // Written under the lock, read without it.
  // Incremented when something may have become runnable. Workers look at it before they sleep.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> sleepers_{0};  // UnitPlace's; not under the lock
  std::atomic<Rank> best_rank_{~Rank{0}};   // best rank in the table; read after epoch_
  std::atomic<bool> any_bound_{false};      // LaunchTable::any_bound()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> undelivered_news_{false};  // the worker that clears it delivers
  alignas(64) Watchers watchers_;

  // Last: the threads are joined before the other members are destroyed.
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// Returns true when the epoch is not `seen_epoch` any more, when there is news to deliver, or when
/// `stop`, called with the time now and then, says so. False: none came for kIdleSpin.
template <typename Stop>
bool WorkerPool::SpinForChange(std::uint32_t seen_epoch, Stop stop) const {
  constexpr int kPausesPerClock = 16;
  const TimePoint until = lagoon::Now() + kIdleSpin;
  for (TimePoint now; (now = lagoon::Now()) < until;) {
    if (stop(now)) return true;
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (epoch_.load(std::memory_order_relaxed) != seen_epoch) return true;
      if (undelivered_news_.load(std::memory_order_relaxed)) return true;
      CpuPause();
    }
  }
  return false;
}

}  // namespace lagoon

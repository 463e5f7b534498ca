#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/launch_table.h"
#include "device/cpu/unit_clock.h"
#include "device/cpu/watchers.h"
#include "device/device.h"
#include "device/host/guard_words.h"
#include "device/host/host_memory.h"
#include "device/host/kernel_table.h"
#include "device/host/listener_slot.h"
#include "device/host/shares.h"

namespace lagoon {

/// The Device contract on worker threads. One lock protects the table of launches. A worker holds
/// the lock to return what it finished and to take the best work; it runs blocks without the lock.
/// Every change that makes something runnable happens under the lock and increments `epoch_`, so no
/// worker sleeps or goes on past it.
class WorkerDevice final : public Device {
 public:
  WorkerDevice(std::uint32_t workers, const CpuDeviceOptions& options);
  /// Lets running blocks end. Launches in flight are dropped without events.
  ~WorkerDevice() override;

  /// Call once. `cores`: worker i is bound to cores[i]. Empty: no worker is bound.
  Status Start(std::span<const int> cores);

  // DeviceControl
  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) override;
  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override;
  std::uint32_t LoadedKernels() const override;
  Result<StreamId> CreateStream(const StreamOptions& options) override;
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override;
  Status PrepareUnits(UnitRange units) override;
  Result<GuardId> CreateGuard() override;
  const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const override {
    return &guards_.word(guard);
  }

  // DeviceQueue
  TimePoint Now() const override { return lagoon::Now(); }
  SubmitResult Submit(const Launch& launch) override;
  SubmitResult Transfer(const Copy& copy) override;
  SubmitResult Raise(GuardId guard, std::uint32_t value) override;
  Status MoveShare(ShareId share, UnitRange units) override;
  std::size_t Poll(std::span<DeviceEvent> events) override;
  void SetListener(DeviceListener* listener) override { listener_.Set(listener); }
  void Wait(TimePoint until) override;
  void Wake() override;

  UnitTimes Times() const override;
  void SetWorkHeld(bool held) override;
  void SetObserver(DeviceObserver* observer) override { observer_ = observer; }

 private:
  using Assignment = LaunchTable::Assignment;

  struct Worker {
    explicit Worker(std::uint32_t unit_in) : unit(unit_in) {}

    const std::uint32_t unit;
    // Used by the worker's thread only.
    std::optional<Assignment> work;
    Leave why = Leave::kExhausted;  // how `work` ended
    TimePoint left_at;              // when `work` ended
    std::uint32_t seen_epoch = 0;
    bool idle = false;
    bool news_deferred = false;
    Buffer scratch;

    Buffer next_scratch;  // larger; swapped in at the next pick; under the device's lock
    BusyClock busy;       // read by Times()
    std::jthread thread;
  };

  // The worker's loop (worker_loop.cc).
  void RunWorker(Worker& worker);
  bool NextWork(Worker& worker);
  bool TakeWork(Worker& worker, const Assignment* last);
  void RunWork(Worker& worker);
  bool ShouldYield(Worker& worker);
  void AwaitChange(Worker& worker);
  bool SpinForChange(const Worker& worker) const;

  // After any change of the table: makes it visible to workers, and updates the copies of the
  // table's state that are read without the lock.
  void Publish(bool may_run) REQUIRES(mutex_);
  /// How many sleeping workers to wake for `tiles` tiles. While a launch has a share, the worker
  /// that wakes may not be allowed to take a tile; so all wake. (The one worker would wake all when
  /// it finds nothing, but that takes one wake-up longer.)
  std::uint64_t Wanted(std::uint64_t tiles) const REQUIRES(mutex_);
  /// Wakes up to `count` of `sleepers`. Call without the lock.
  void WakeWorkers(std::uint64_t count, std::uint32_t sleepers);
  template <typename Work>
  SubmitResult Add(const Work& work, std::uint64_t tiles);
  void SettleAll();
  void NotifyWaiters();
  void DeliverNews();

  DeviceInfo info_;
  CheckProbe* const probe_;
  DeviceObserver* observer_ = nullptr;  // changed only while nothing runs
  const std::shared_ptr<HostMemory> memory_;
  GuardWords guards_;
  Shares shares_;  // changed under the lock
  ListenerSlot listener_;

  mutable Mutex mutex_;
  LaunchTable table_ GUARDED_BY(mutex_);
  KernelTable<Body> bodies_ GUARDED_BY(mutex_);
  std::size_t scratch_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint32_t streams_ GUARDED_BY(mutex_) = 0;
  IdleClock idle_ GUARDED_BY(mutex_);
  bool held_ = false;  // used only by the caller of SetWorkHeld()

  CondVar work_;  // wakes sleeping workers
  std::uint32_t sleepers_ GUARDED_BY(mutex_) = 0;
  CondVar news_;  // wakes callers of Wait()
  bool woken_ GUARDED_BY(mutex_) = false;
  std::atomic<std::uint32_t> waiters_{0};  // changed under the lock

  // Written under the lock, read without it.
  // Incremented when something may have become runnable.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<Rank> best_rank_{~Rank{0}};  // best rank in the table; read after epoch_
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> pending_events_{0};
  std::atomic<bool> undelivered_news_{false};  // the worker that clears it delivers
  alignas(64) Watchers watchers_;

  // Last: the threads are joined before the other members are destroyed.
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lagoon

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/worker_pool.h"
#include "device/device.h"
#include "device/host/guard_words.h"
#include "device/host/host_memory.h"
#include "device/host/kernel_table.h"
#include "device/host/listener_slot.h"
#include "device/host/shares.h"

namespace lagoon {

/// The Device contract on worker threads: two pools, with one thread of each for a compute unit.
/// Launches of the background run on threads of the operating system's idle class. So the system
/// itself takes the core from them for other launches, for the server's edges and for clients.
/// Nothing that other threads wait for is ever held by a background thread: see WorkerPool.
class WorkerDevice final : public Device {
 public:
  WorkerDevice(std::uint32_t workers, const CpuDeviceOptions& options);
  /// Lets running blocks end. Launches in flight are dropped without events.
  ~WorkerDevice() override;

  /// Call once. `cores`: the threads of unit i are bound to cores[i]. Empty: none is bound.
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
  void HurryBackground(bool hurry) override { background_.Hurry(hurry); }
  std::size_t Poll(std::span<DeviceEvent> events) override;
  void SetListener(DeviceListener* listener) override { listener_.Set(listener); }
  void Wait(TimePoint until) override { WaitForRetired(until, 0); }
  void WaitForMany(TimePoint until, std::size_t launches) override {
    WaitForRetired(until, launches);
  }
  void Wake() override;

  BorrowedUnit BorrowUnit(ShareId share) override {
    return all_background_ ? kNoUnit : front_.Borrow(share);
  }
  void Help(BorrowedUnit unit, const HelpUntil& until) override;
  UnitTimes Times() const override;
  void SetWorkHeld(bool held) override { PoolOf(/*background=*/false).SetWorkHeld(held); }
  void SetObserver(DeviceObserver* observer) override;

 private:
  WorkerPool& PoolOf(bool background) {
    return background || all_background_ ? background_ : front_;
  }
  Status GrowScratch(const CodeImage& image, std::size_t bytes);
  void OnFrontNews();
  void CarryNews();
  /// Sleeps until there are events, and `launches` of them are retirements or all workers sleep, or
  /// as Wait() says. Only retirements count: of a launch that is under way the caller may have
  /// polled the other events before.
  void WaitForRetired(TimePoint until, std::size_t launches);
  bool HasRetired(std::size_t launches) const;
  void NotifyWaiters();

  DeviceInfo info_;
  const bool all_background_;
  const std::shared_ptr<HostMemory> memory_;
  GuardWords guards_;
  Shares shares_;
  ListenerSlot listener_;

  mutable Mutex mutex_;  // set-up, and a look at `bodies_` for each launch
  KernelTable<Body> bodies_ GUARDED_BY(mutex_);
  std::size_t scratch_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint32_t streams_ GUARDED_BY(mutex_) = 0;

  Mutex wait_mutex_;
  CondVar news_;  // wakes callers of Wait()
  bool woken_ GUARDED_BY(wait_mutex_) = false;
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::size_t> wanted_{0};  // retirements; the least that a caller of Wait() awaits

  // Incremented by background workers that have news, and by the end. `carrier_` sleeps on it and
  // calls the listener, at normal priority.
  std::atomic<std::uint32_t> background_news_{0};
  std::atomic<bool> stopping_{false};

  // Last: their threads are joined before the other members are destroyed.
  WorkerPool background_;
  WorkerPool front_;
  std::jthread carrier_;
};

}  // namespace lagoon

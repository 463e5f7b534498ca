#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "device/host/guard_words.h"
#include "device/host/host_memory.h"
#include "device/host/kernel_table.h"
#include "device/host/listener_slot.h"
#include "device/host/shares.h"
#include "sim/device/engine.h"
#include "sim/device/gpu_model.h"

namespace lagoon {

struct SimDeviceOptions {
  GpuModel gpu;
  SimAbort abort = SimAbort::kCheck;
  /// REEF 5.1 launches a kernel together with its padding. True: what depends on a kernel does not
  /// begin while padding of that kernel runs. A launch is padding of the kernel whose done count is
  /// its guard.
  bool joined_padding = false;
  std::uint64_t seed = 1;  // of block times; equal seeds and calls give equal runs
  std::uint32_t max_launches = 4096;
  std::size_t memory_limit_bytes = 0;  // 0: the GPU model's memory
  /// The device takes launches with Launch::background, and runs them as it runs all others.
  /// GpuModel::background says so, too.
  bool background = false;
};

/// A GPU in virtual time: the contract of Device without computing anything. A kernel takes the
/// time and resources in KernelSpec::block. Bodies are not called, and copies move no bytes.
///
/// Time moves in Wait(), to the next event or to `until`. Each Submit, Transfer, Raise and polled
/// event also moves time, by its cost on the host. So does a move of a share, which costs as much
/// as a submission. The same calls in the same order give the same
/// events at the same times, on any machine.
///
/// Any thread may call anything, as DeviceControl and DeviceQueue say. Wait() beside another
/// thread's submissions is safe, but not deterministic. The listener is called from within Wait()
/// only.
class SimDevice final : public Device {
 public:
  /// kInvalidArgument names the GPU model and the constant that is wrong.
  static Result<std::unique_ptr<SimDevice>> Create(const SimDeviceOptions& options);

  const GpuModel& gpu() const { return gpu_; }
  /// Blocks and copy chunks that ended since the start, committed or not.
  std::uint64_t blocks_ended() const;
  /// Time that the host spent on submissions, revocations, moves and events since the start.
  Nanoseconds host_time() const;

  // DeviceControl
  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) override;
  /// kInvalidArgument names the limit that a block exceeds.
  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override;
  std::uint32_t LoadedKernels() const override;
  std::uint32_t Occupancy(KernelHandle kernel) const override;
  UnitNeed NeedOf(KernelHandle kernel) const override;
  Result<StreamId> CreateStream(const StreamOptions& options) override;
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override;
  Status PrepareUnits(UnitRange units) override;
  Result<GuardId> CreateGuard() override;
  const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const override {
    return &guards_.word(guard);
  }

  // DeviceQueue
  TimePoint Now() const override;
  SubmitResult Submit(const Launch& launch) override;
  SubmitResult Transfer(const Copy& copy) override;
  SubmitResult Raise(GuardId guard, std::uint32_t value) override;
  Status MoveShare(ShareId share, UnitRange units) override;
  std::size_t Poll(std::span<DeviceEvent> events) override;
  void SetListener(DeviceListener* listener) override { listener_.Set(listener); }
  /// Ends at the first news for which no Wait() has ended yet. If `until` is kNoDeadline and
  /// nothing can happen, only Wake() ends it.
  void Wait(TimePoint until) override;
  void Wake() override;

  UnitTimes Times() const override;
  void SetWorkHeld(bool held) override;
  void SetObserver(DeviceObserver* observer) override;

 private:
  explicit SimDevice(const SimDeviceOptions& options);

  Status CheckDemand(const std::string& kernel, const BlockDemand& demand) const;
  void Spend(std::int64_t host_ns) REQUIRES(mutex_);
  void RunUntil(TimePoint until) REQUIRES(mutex_);
  bool WaitForNews(TimePoint until) REQUIRES(mutex_);

  const GpuModel gpu_;
  const SimConstants& constants_;
  DeviceInfo info_;
  const std::shared_ptr<HostMemory> memory_;
  GuardWords guards_;
  Shares shares_;  // changed under the lock

  mutable Mutex mutex_;
  SimEngine engine_ GUARDED_BY(mutex_);
  TimePoint now_ GUARDED_BY(mutex_);
  KernelTable<SimKernel::Key, SimKernel> kernels_ GUARDED_BY(mutex_);
  std::uint32_t streams_ GUARDED_BY(mutex_) = 0;
  ListenerSlot listener_;
  bool held_ GUARDED_BY(mutex_) = false;
  Nanoseconds idle_while_held_ GUARDED_BY(mutex_){0};
  Nanoseconds host_time_ GUARDED_BY(mutex_){0};
  bool woken_ GUARDED_BY(mutex_) = false;
  CondVar wake_;
};

/// Creates the device that benchmarks call "sim:GPU". `gpu`: as LoadGpuModel() takes it.
/// The other options stay as given.
Result<std::unique_ptr<SimDevice>> CreateSimDevice(const std::string& gpu,
                                                   SimDeviceOptions options = {});

}  // namespace lagoon

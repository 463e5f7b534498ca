#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/cuda/copies.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver/gpu_memory.h"
#include "device/cuda/grid_issuer.h"
#include "device/cuda/watchdog.h"
#include "device/cuda/work.h"
#include "device/device.h"
#include "device/host/event_ring.h"
#include "device/host/guard_words.h"
#include "device/host/in_flight.h"
#include "device/host/kernel_table.h"
#include "device/host/listener_slot.h"
#include "device/host/shares.h"

namespace lagoon::cuda {

/// The Device contract on an NVIDIA GPU (docs/design/cuda.md). One lock protects the table of what
/// is in flight. Every thread that submits, raises or brings news decides under the lock what the
/// GPU gets next; the GridIssuer puts it into CUDA streams. The device's own thread reads the GPU's
/// notes, copies through pinned memory and calls the listener.
class GpuDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> Create(std::shared_ptr<const GpuSession> session,
                                                const CudaDeviceOptions& options);
  /// Lets running blocks end, if they do so within CudaDeviceOptions::silence. Launches in flight
  /// are dropped without events.
  ~GpuDevice() override;

  // DeviceControl
  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) override;
  Status Upload(void* to, std::span<const std::byte> from) override;
  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override;
  std::uint32_t LoadedKernels() const override;
  std::uint32_t Occupancy(KernelHandle kernel) const override;
  Result<StreamId> CreateStream(const StreamOptions& options) override;
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override;
  Status PrepareUnits(UnitRange units) override { return Prepare("a share", units); }
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
  void SetObserver(DeviceObserver*) override {}  // DeviceInfo::blocks_on_host is false

  /// Once the device is lost: the driver's call that failed, and how. Else empty. Any thread.
  std::string lost_because() const;

 private:
  static constexpr std::size_t kGuardStride = 32;  // bytes: each word has its own sector

  GpuDevice(std::shared_ptr<const GpuSession> session, const CudaDeviceOptions& options);
  Status Prepare();
  Status Prepare(const std::string& share, UnitRange units) EXCLUDES(mutex_);
  Status CreateStreams(int priority) REQUIRES(mutex_);
  void WarnOfConnections() REQUIRES(mutex_);
  Result<std::vector<Function>> LoadProgram(const Program& program) REQUIRES(load_mutex_);
  const Driver& driver() const { return session_->driver(); }

  // Launches and copies in flight (gpu_queue.cc).
  std::uint32_t IndexOf(const Work& work) const REQUIRES(mutex_) { return works_.IndexOf(work); }
  void Insert(Work& work) REQUIRES(mutex_);
  void Advance() REQUIRES(mutex_);
  void SettleAll() REQUIRES(mutex_);
  bool Settle(Work& work) REQUIRES(mutex_);
  bool NeedsFetch(DeviceRecord& record) REQUIRES(mutex_);
  void Retire(Work& work) REQUIRES(mutex_);
  void Report(Work& work, DeviceEvent::Kind kind) REQUIRES(mutex_);
  void ReportPlaced(Work& work) REQUIRES(mutex_);
  void ReportComplete(Work& work) REQUIRES(mutex_);
  bool Enter() REQUIRES(mutex_);
  Code SendGuard(GuardId guard, std::uint32_t value) REQUIRES(mutex_);
  bool Accept(const CallResult& result) REQUIRES(mutex_);
  void Lose(const std::string& why) REQUIRES(mutex_);
  /// Threads that a call must wake after it has given the lock up.
  struct Sleepers {
    bool thread = false;   // the device's thread sleeps
    bool waiters = false;  // there are events for callers of Wait()
  };
  Sleepers AdvanceForCall() REQUIRES(mutex_);
  void WakeUp(Sleepers sleepers) EXCLUDES(mutex_);

  // Issuing work to the GPU, and reading its reports (gpu_issue.cc).
  void IssueAll() REQUIRES(mutex_);
  void TryIssue(Work& work) REQUIRES(mutex_);
  bool WaitsOf(const Work& work, Waits& waits) REQUIRES(mutex_);
  GuardRef RefOf(const Guard& guard) REQUIRES(mutex_);
  bool TakeNotes() REQUIRES(mutex_);
  void OnNote(const GridNote& note) REQUIRES(mutex_);
  bool CheckFetches() REQUIRES(mutex_);
  void MeterUnits() REQUIRES(mutex_);

  // The device's thread (gpu_thread.cc).
  void RunThread();
  void Rest(bool nap) EXCLUDES(mutex_);
  bool Pump() EXCLUDES(mutex_);
  bool PumpCopies() EXCLUDES(mutex_);
  bool TellLoss() EXCLUDES(mutex_);
  void Tell() EXCLUDES(mutex_);
  void CheckContext() EXCLUDES(mutex_);
  void CheckSilence() EXCLUDES(mutex_);
  bool AwaitKernels() EXCLUDES(mutex_);
  std::string WhySilent() const REQUIRES(mutex_);

  const std::shared_ptr<const GpuSession> session_;
  const CudaDeviceOptions options_;
  DeviceInfo info_;
  ListenerSlot listener_;
  GuardWords guards_;
  OwnMemory device_guards_;  // kGuardStride bytes apart
  OwnMemory guard_sources_;  // what guard words are copied from: one u32 each
  const std::shared_ptr<GpuMemory> memory_;

  Mutex load_mutex_;
  std::map<const Program*, LoadedProgram> programs_ GUARDED_BY(load_mutex_);

  // Shares. A green context and its streams take long to create, so the lock is not held meanwhile.
  Mutex runs_mutex_;                        // held while a run is prepared; before mutex_
  std::unique_ptr<UnitGranules> granules_;  // null: no shares
  Error no_shares_;                         // why

  mutable Mutex mutex_;
  Shares shares_ GUARDED_BY(mutex_);
  bool warned_of_connections_ GUARDED_BY(mutex_) = false;
  std::vector<std::uint32_t> share_runs_ GUARDED_BY(mutex_){0};  // by ShareId: run of KernelStreams
  KernelTable<GpuKernel::Key, GpuKernel> kernels_ GUARDED_BY(mutex_);
  InFlightSlots<Work> works_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> order_ GUARDED_BY(mutex_);  // live works, by rank and sequence
  std::uint32_t streams_used_ GUARDED_BY(mutex_) = 0;
  EventRing events_ GUARDED_BY(mutex_);
  bool news_ GUARDED_BY(mutex_) = false;  // there are events that the listener must hear of
  bool lost_ GUARDED_BY(mutex_) = false;
  std::string lost_because_ GUARDED_BY(mutex_);
  UnitMeter meter_ GUARDED_BY(mutex_);
  Watchdog watchdog_ GUARDED_BY(mutex_);

  std::unique_ptr<RecordPool> records_ GUARDED_BY(mutex_);
  std::unique_ptr<GridIssuer> issuer_ GUARDED_BY(mutex_);
  const KernelStreams* streams_ = nullptr;  // the issuer's, for Prepare() without the lock
  const NoteRing* notes_ = nullptr;         // the issuer's, for Waiting() without the lock
  OwnMemory marks_;                         // mark words of the streams below
  std::unique_ptr<MarkedStream> control_;   // for guard words
  std::unique_ptr<MarkedStream> fetch_;
  std::unique_ptr<MarkedStream> to_device_, to_host_;  // used by copies_
  struct PendingFetch {
    DeviceRecord* record;
    std::uint32_t mark;
  };
  std::vector<PendingFetch> fetches_ GUARDED_BY(mutex_);
  std::unique_ptr<CopyPipeline> copies_;                      // used by the device's thread only
  std::vector<std::uint32_t> copy_queue_ GUARDED_BY(mutex_);  // works whose bytes may be copied now

  CondVar waiters_;
  bool woken_ GUARDED_BY(mutex_) = false;
  CondVar work_;  // wakes the device's thread
  bool asleep_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

}  // namespace lagoon::cuda

#include "device/cpu/worker_device.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"
#include "device/host/busy_lock.h"
#include "device/host/machine.h"

namespace lagoon {
namespace {

constexpr LaunchTable::Limits kLimits;
constexpr std::uint32_t kMaxGuards = 8192;  // two per instance and one per dispatcher
constexpr std::size_t kMinScratchBytes = 4096;

}  // namespace

WorkerDevice::WorkerDevice(std::uint32_t workers, const CpuDeviceOptions& options)
    : probe_(options.probe),
      memory_(std::make_shared<HostMemory>(options.memory_limit_bytes)),
      guards_(kMaxGuards),
      shares_(info_),
      table_(kLimits, guards_, shares_) {
  info_.name = "cpu";
  info_.description = ProcessorName();
  info_.units = workers;
  info_.memory_bytes = memory_->limit_bytes();
  info_.max_launches = kLimits.launches;
  info_.max_streams = kLimits.streams;
  info_.max_guards = kMaxGuards;
  info_.share_granule = 1;
  info_.max_shares = Shares::kMost;
  info_.lends_units = true;
  for (std::uint32_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<Worker>(i));
}

WorkerDevice::~WorkerDevice() {
  {
    MutexLock lock(mutex_);
    stopping_.store(true, std::memory_order_relaxed);
    Publish(/*may_run=*/true);
  }
  work_.NotifyAll();
  workers_.clear();
}

Status WorkerDevice::Start(std::span<const int> cores) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = *workers_[i];
    worker.thread = std::jthread([this, &worker, i] {
      NameThisThread("lagoon-cpu-" + std::to_string(i));
      RunWorker(worker);
    });
    if (!cores.empty()) LAGOON_RETURN_IF_ERROR(PinThread(worker.thread, cores[i]));
  }
  return {};
}

Result<Buffer> WorkerDevice::Allocate(std::size_t bytes, MemoryKind) {
  return memory_->Allocate(bytes);
}

Result<KernelHandle> WorkerDevice::Load(const CodeImage& image, const KernelSpec& spec) {
  if (image.body == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "device 'cpu': kernel '" + image.name + "' has no body");
  }
  std::size_t needed = 0;
  {
    MutexLock lock(mutex_);
    if (spec.scratch_bytes > scratch_bytes_) needed = std::bit_ceil(spec.scratch_bytes);
  }
  std::vector<Buffer> grown;
  needed = needed == 0 ? 0 : std::max(needed, kMinScratchBytes);
  for (std::size_t i = 0; needed != 0 && i < workers_.size(); ++i) {
    Result<Buffer> buffer = memory_->Allocate(needed);
    if (!buffer) return Annotate("kernel '" + image.name + "'", std::move(buffer).error());
    grown.push_back(*std::move(buffer));
  }
  MutexLock lock(mutex_);
  LAGOON_ASSIGN_OR_RETURN(
      const KernelHandle kernel,
      bodies_.FindOrAdd(image.body, image.body,
                        "device 'cpu': cannot load kernel '" + image.name + "'"));
  // Meanwhile another Load() may have grown the scratch memory further.
  if (needed > scratch_bytes_) {
    scratch_bytes_ = needed;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      std::swap(workers_[i]->next_scratch, grown[i]);
    }
  }
  return kernel;
}

std::uint32_t WorkerDevice::LoadedKernels() const {
  MutexLock lock(mutex_);
  return bodies_.size();
}

Result<StreamId> WorkerDevice::CreateStream(const StreamOptions& options) {
  MutexLock lock(mutex_);
  if (streams_ == info_.max_streams) {
    return Fail(ErrorCode::kResourceExhausted,
                "device 'cpu': cannot create stream '" + options.name + "': all " +
                    std::to_string(info_.max_streams) + " are in use");
  }
  return StreamId(++streams_);
}

Result<ShareId> WorkerDevice::CreateShare(const std::string& name, UnitRange units) {
  MutexLock lock(mutex_);
  return shares_.Create(name, units);
}

Status WorkerDevice::PrepareUnits(UnitRange units) { return shares_.CheckBounds("a share", units); }

Result<GuardId> WorkerDevice::CreateGuard() {
  MutexLock lock(mutex_);
  return guards_.Create(info_.name);
}

template <typename Work>
SubmitResult WorkerDevice::Add(const Work& work, std::uint64_t tiles) {
  std::uint32_t wake = 0;
  std::uint64_t wanted = 0;
  {
    BusyLock lock(mutex_);
    SubmitResult result;
    LAGOON_CHECK(Raw(work.stream) <= streams_);
    if constexpr (std::is_same_v<Work, Launch>) {
      result = table_.Add(work, bodies_);
    } else {
      result = table_.Add(work);
    }
    if (result != SubmitResult::kOk) return result;
    watchers_.Enter(table_);
    table_.TakeNews();  // whoever submits polls
    Publish(/*may_run=*/true);
    if (sleepers_ != 0 && table_.NewestMayRun()) wake = sleepers_;
    wanted = Wanted(tiles);
  }
  WakeWorkers(wanted, wake);
  NotifyWaiters();
  return SubmitResult::kOk;
}

SubmitResult WorkerDevice::Submit(const Launch& launch) {
  return Add(launch, launch.progress->blocks());
}

SubmitResult WorkerDevice::Transfer(const Copy& copy) { return Add(copy, CopyBlocks(copy.bytes)); }

SubmitResult WorkerDevice::Raise(GuardId guard, std::uint32_t value) {
  if (!guards_.IsLater(guard, value)) return SubmitResult::kOk;
  // Before taking the lock, so that running blocks see it at once. The lock below makes it visible
  // to every later pick.
  guards_.Set(guard, value);
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    table_.SettleAll();
    table_.TakeNews();  // the caller of Raise() polls
    Publish(/*may_run=*/true);
    if (sleepers_ != 0 && table_.HasRunnable()) wake = sleepers_;
  }
  WakeWorkers(wake, wake);
  NotifyWaiters();
  return SubmitResult::kOk;
}

// A worker that has begun a tile reads the range again before its next claim, because the epoch has
// changed (ShouldYield).
Status WorkerDevice::MoveShare(ShareId share, UnitRange units) {
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    LAGOON_RETURN_IF_ERROR(shares_.CheckMove(share, units));
    shares_.Move(share, units);
    Publish(/*may_run=*/true);
    if (sleepers_ != 0 && table_.HasRunnable()) wake = sleepers_;
  }
  WakeWorkers(wake, wake);
  return {};
}

std::size_t WorkerDevice::Poll(std::span<DeviceEvent> events) {
  if (pending_events_.load(std::memory_order_acquire) == 0) return 0;
  BusyLock lock(mutex_);
  const std::size_t count = table_.events().Pop(events);
  pending_events_.store(table_.events().size(), std::memory_order_release);
  return count;
}

void WorkerDevice::Wait(TimePoint until) {
  MutexLock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_relaxed);
  while (table_.events().size() == 0 && !woken_ && lagoon::Now() < until) {
    news_.WaitUntil(mutex_, until);
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  woken_ = false;
}

void WorkerDevice::Wake() {
  {
    MutexLock lock(mutex_);
    woken_ = true;
  }
  news_.NotifyAll();
}

UnitTimes WorkerDevice::Times() const {
  UnitTimes times;
  for (const auto& worker : workers_) times.busy += worker->busy.Total();
  BusyLock lock(mutex_);
  IdleClock now = idle_;
  now.Advance(lagoon::Now());
  times.idle = now.idle();
  times.idle_while_ready = now.idle_while_held();
  return times;
}

void WorkerDevice::SetWorkHeld(bool held) {
  if (held == held_) return;
  held_ = held;
  BusyLock lock(mutex_);
  idle_.SetHeld(held, lagoon::Now());
}

void WorkerDevice::Publish(bool may_run) {
  best_rank_.store(table_.best_rank(), std::memory_order_relaxed);
  pending_events_.store(table_.events().size(), std::memory_order_release);
  watchers_.Publish(table_.watchers());
  if (table_.TakeNews()) undelivered_news_.store(true, std::memory_order_release);
  // release: a thread that sees the new epoch also sees the rank that belongs to it.
  if (may_run) epoch_.fetch_add(1, std::memory_order_release);
}

std::uint64_t WorkerDevice::Wanted(std::uint64_t tiles) const {
  return table_.any_bound() ? sleepers_ : tiles;
}

void WorkerDevice::WakeWorkers(std::uint64_t count, std::uint32_t sleepers) {
  if (sleepers == 0) return;
  if (count >= sleepers) return work_.NotifyAll();
  for (; count > 0; --count) work_.NotifyOne();
}

void WorkerDevice::NotifyWaiters() {
  // The events were added under the lock. A waiter that is not counted yet will see them.
  if (waiters_.load(std::memory_order_relaxed) != 0 &&
      pending_events_.load(std::memory_order_acquire) != 0) {
    news_.NotifyAll();
  }
}

}  // namespace lagoon

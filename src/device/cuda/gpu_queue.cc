// Launches and copies in flight, from Submit() to their last event.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/cuda/gpu_device.h"

namespace lagoon::cuda {

SubmitResult GpuDevice::Submit(const lagoon::Launch& launch) {
  Sleepers sleepers;
  {
    MutexLock lock(mutex_);
    if (lost_ || !Enter()) return SubmitResult::kLost;
    LAGOON_CHECK(kernels_.Has(launch.kernel) && Raw(launch.stream) <= streams_used_ &&
                 shares_.Exists(launch.share));
    Work* const work = works_.Take(launch, events_);
    if (work == nullptr) return SubmitResult::kFull;
    work->kernel = launch.kernel;
    // A complete Progress needs no record.
    if (!work->Complete() && (work->record = records_->Attach(*work->progress)) == nullptr) {
      works_.Free(*work, events_);
      return SubmitResult::kFull;
    }
    Insert(*work);
    sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return SubmitResult::kOk;
}

SubmitResult GpuDevice::Transfer(const Copy& copy) {
  Sleepers sleepers;
  {
    MutexLock lock(mutex_);
    if (lost_ || !Enter()) return SubmitResult::kLost;
    LAGOON_CHECK(Raw(copy.stream) <= streams_used_);
    Work* const work = works_.Take(copy, events_);
    if (work == nullptr) return SubmitResult::kFull;
    Insert(*work);
    sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return SubmitResult::kOk;
}

SubmitResult GpuDevice::Raise(GuardId guard, std::uint32_t value) {
  Sleepers sleepers;
  {
    MutexLock lock(mutex_);
    if (lost_ || !Enter()) return SubmitResult::kLost;
    if (!guards_.IsLater(guard, value)) return SubmitResult::kOk;
    guards_.Set(guard, value);
    if (!Accept({SendGuard(guard, value), "cuMemcpyHtoDAsync"})) return SubmitResult::kLost;
    sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return SubmitResult::kOk;
}

// Always in the same stream, and from a source that only grows, so that a word never goes back; and
// never behind a kernel. A copy reaches blocks of a GPU with busy memory three times sooner than
// cuStreamWriteValue32, which waits for what was written before it (`lagoon bench guards`).
Code GpuDevice::SendGuard(GuardId guard, std::uint32_t value) {
  u32* const source = reinterpret_cast<u32*>(guard_sources_.host()) + Raw(guard);
  __atomic_store_n(source, value, __ATOMIC_RELEASE);
  const Address at = device_guards_.device() + Raw(guard) * kGuardStride;
  return driver().copy_to_device(at, source, sizeof(*source), control_->handle());
}

std::size_t GpuDevice::Poll(std::span<DeviceEvent> events) {
  MutexLock lock(mutex_);
  if (!lost_ && TakeNotes() && Enter()) Advance();
  return events_.Pop(events);
}

void GpuDevice::Wait(TimePoint until) {
  MutexLock lock(mutex_);
  while (events_.size() == 0 && !woken_ && lagoon::Now() < until) {
    waiters_.WaitUntil(mutex_, until);
  }
  woken_ = false;
}

void GpuDevice::Wake() {
  {
    MutexLock lock(mutex_);
    woken_ = true;
  }
  waiters_.NotifyAll();
}

// The device's thread may be asleep, and callers of Wait() may wait for events of this call.
GpuDevice::Sleepers GpuDevice::AdvanceForCall() {
  Advance();
  return {.thread = asleep_, .waiters = events_.size() > 0};
}

void GpuDevice::WakeUp(Sleepers sleepers) {
  if (sleepers.thread) work_.NotifyAll();
  if (sleepers.waiters) waiters_.NotifyAll();
}

void GpuDevice::Insert(Work& work) {
  works_.Link(work);
  if (work.stream != kUnordered) works_.LinkStream(work);
  const auto before = [this](std::uint32_t a, std::uint32_t b) REQUIRES(mutex_) {
    const Work& left = works_[a];
    const Work& right = works_[b];
    return left.rank != right.rank ? left.rank < right.rank : left.sequence < right.sequence;
  };
  const std::uint32_t index = IndexOf(work);
  order_.insert(std::upper_bound(order_.begin(), order_.end(), index, before), index);
}

void GpuDevice::Advance() {
  if (lost_) return;
  SettleAll();
  IssueAll();
}

void GpuDevice::SettleAll() {
  for (std::size_t i = 0; i < order_.size();) {
    Work& work = works_[order_[i]];
    if (Settle(work)) {
      Retire(work);  // the next work is at this place now
    } else {
      ++i;
    }
  }
}

// True if the work is over. The last launch that names a record waits until the Progress holds all
// of the record's state.
bool GpuDevice::Settle(Work& work) {
  if (work.issue != nullptr || work.copying || !work.Over()) return false;
  if (work.record == nullptr || work.record->users > 1) return true;
  return !NeedsFetch(*work.record);
}

bool GpuDevice::NeedsFetch(DeviceRecord& record) {
  if (record.fetching) return true;
  if (!record.dirty || record.progress->Complete() || record.progress->done() == 0) return false;
  Code code = records_->Fetch(record, driver(), fetch_->handle());
  if (!Accept({code, "cuMemcpyDtoHAsync"})) return true;
  const std::uint32_t mark = fetch_->Mark(code);
  if (!Accept({code, "cuStreamWriteValue32"})) return true;
  record.fetching = true;
  fetches_.push_back({&record, mark});
  return true;
}

void GpuDevice::Retire(Work& work) {
  Report(work, DeviceEvent::Kind::kRetired);
  order_.erase(std::find(order_.begin(), order_.end(), IndexOf(work)));
  if (work.in_order) works_.UnlinkStream(work);
  if (work.record != nullptr) records_->Detach(*work.record);
  works_.Free(work, events_);
}

void GpuDevice::Report(Work& work, DeviceEvent::Kind kind) {
  works_.UseCredit(work);
  events_.Push({kind, work.id, lagoon::Now()});
  if (kind != DeviceEvent::Kind::kPlaced) news_ = true;
}

void GpuDevice::ReportPlaced(Work& work) {
  if (!std::exchange(work.started, true)) Report(work, DeviceEvent::Kind::kPlaced);
}

void GpuDevice::ReportComplete(Work& work) {
  ReportPlaced(work);
  if (!std::exchange(work.complete, true)) Report(work, DeviceEvent::Kind::kComplete);
}

bool GpuDevice::Enter() {
  const Status entered = session_->Enter();
  if (!entered) Lose(entered.error().message);
  return entered.has_value();
}

bool GpuDevice::Accept(const CallResult& result) {
  if (result.code == kSuccess) return true;
  Lose(std::string(result.call) + ": " + driver().Describe(result.code));
  return false;
}

// From now on notes are ignored and nothing is sent. The device's thread reports the loss once it
// has stopped touching the callers' memory.
void GpuDevice::Lose(const std::string& why) {
  if (std::exchange(lost_, true)) return;
  lost_because_ = why;
  meter_.SetBlocks(0, lagoon::Now());
  work_.NotifyAll();
}

std::string GpuDevice::lost_because() const {
  MutexLock lock(mutex_);
  return lost_because_;
}

}  // namespace lagoon::cuda

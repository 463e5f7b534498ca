// What is in flight, from Submit() to the last event.

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
    const auto count = static_cast<std::uint32_t>(launch.segments.size());
    LAGOON_CHECK(count > 0 && count <= kMaxSegments);
    Work* const work = Reserve(launch.id, launch.stream, launch.rank, 2 * count + 1);
    if (work == nullptr) return SubmitResult::kFull;
    work->segment_count = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Segment& from = launch.segments[i];
      LAGOON_CHECK(Raw(from.kernel) < kernels_.size() && from.progress != nullptr);
      WorkSegment& to = work->segments[i];
      to = {.kernel = from.kernel,
            .args = from.args,
            .progress = from.progress,
            .max_claimants = from.max_claimants,
            .deps = from.deps};
      std::copy(std::begin(from.guards), std::end(from.guards), to.guards.begin());
    }
    if (!AttachAll(*work)) {
      Release(*work);
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
    LAGOON_CHECK(copy.progress != nullptr);
    LAGOON_CHECK(copy.progress->blocks() == CopyBlocks(copy.bytes));
    Work* const work = Reserve(copy.id, copy.stream, copy.rank, 3);
    if (work == nullptr) return SubmitResult::kFull;
    work->copy = copy;
    Insert(*work);
    sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return SubmitResult::kOk;
}

SubmitResult GpuDevice::Raise(GuardId guard, std::uint32_t value) {
  LAGOON_CHECK(Raw(guard) < guard_count_.load(std::memory_order_acquire));
  Sleepers sleepers;
  {
    MutexLock lock(mutex_);
    if (lost_ || !Enter()) return SubmitResult::kLost;
    std::atomic<std::uint32_t>& word = guards_.word(Raw(guard));
    const std::uint32_t before = word.load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(value - before) <= 0) return SubmitResult::kOk;
    word.store(value, std::memory_order_relaxed);
    // In the stream that the next urgent launch takes: before that launch, and never behind a
    // kernel.
    const std::uint32_t idle = FreeStream(0, 0);
    const Stream stream =
        idle == kNone ? control_->handle() : kernel_streams_[idle].stream->handle();
    const Address at = device_guards_.device() + Raw(guard) * kGuardStride;
    if (!Accept(driver().write_value32(stream, at, value, 0), "cuStreamWriteValue32")) {
      return SubmitResult::kLost;
    }
    sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return SubmitResult::kOk;
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

Work* GpuDevice::Reserve(LaunchId id, StreamId stream, Rank rank, std::uint32_t credits) {
  LAGOON_CHECK(Raw(stream) <= streams_used_);
  if (free_works_.empty() || !events_.Reserve(credits)) return nullptr;
  Work& work = works_[free_works_.back()];
  free_works_.pop_back();
  work.id = id;
  work.stream = stream;
  work.rank = rank;
  work.sequence = next_sequence_++;
  work.previous_in_stream = work.next_in_stream = kNone;
  work.segment_count = 0;
  work.credits = credits;
  work.issue = kNone;
  work.started = work.copying = false;
  return &work;
}

void GpuDevice::Release(Work& work) {
  for (WorkSegment& segment : work.all()) {
    if (segment.record != nullptr) records_->Detach(*segment.record);
    segment.record = nullptr;
  }
  events_.Release(work.credits);
  free_works_.push_back(IndexOf(work));
}

// A complete Progress needs no record.
bool GpuDevice::AttachAll(Work& work) {
  for (WorkSegment& segment : work.all()) {
    if (segment.progress->Complete()) continue;
    segment.record = records_->Attach(*segment.progress);
    if (segment.record == nullptr) return false;
  }
  return true;
}

void GpuDevice::Insert(Work& work) {
  const std::uint32_t index = IndexOf(work);
  const auto before = [works = std::span<const Work>(works_)](std::uint32_t a, std::uint32_t b) {
    const Work& left = works[a];
    const Work& right = works[b];
    return left.rank != right.rank ? left.rank < right.rank : left.sequence < right.sequence;
  };
  order_.insert(std::upper_bound(order_.begin(), order_.end(), index, before), index);
  if (work.stream == kUnordered) return;
  std::uint32_t& last = last_in_stream_[Raw(work.stream) - 1];
  work.previous_in_stream = last;
  if (last != kNone) works_[last].next_in_stream = index;
  last = index;
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
  if (work.issue != kNone || work.copying) return false;
  if (work.is_copy()) {
    return work.copy.progress->Complete() ||
           Revoked(std::span<const Guard>(work.copy.guards), false);
  }
  for (const WorkSegment& segment : work.all()) {
    const bool over = segment.progress->Complete() ||
                      Revoked(std::span<const Guard>(segment.guards), work.started);
    if (!over) return false;
  }
  bool may_go = true;
  for (const WorkSegment& segment : work.all()) {
    if (segment.record == nullptr || segment.record->users > 1) continue;
    may_go = !NeedsFetch(*segment.record) && may_go;
  }
  return may_go;
}

bool GpuDevice::NeedsFetch(DeviceRecord& record) {
  if (record.fetching) return true;
  if (!record.dirty || record.progress->Complete() || record.progress->done() == 0) return false;
  Code code = records_->Fetch(record, driver(), fetch_->handle());
  if (!Accept(code, "cuMemcpyDtoHAsync")) return true;
  const std::uint32_t mark = fetch_->Mark(code);
  if (!Accept(code, "cuStreamWriteValue32")) return true;
  record.fetching = true;
  fetches_.push_back({&record, mark});
  return true;
}

void GpuDevice::Retire(Work& work) {
  const std::uint32_t index = IndexOf(work);
  Report(work, DeviceEvent::Kind::kRetired, 0);
  order_.erase(std::find(order_.begin(), order_.end(), index));
  if (work.stream != kUnordered) {
    const std::uint32_t previous = work.previous_in_stream, next = work.next_in_stream;
    if (previous != kNone) works_[previous].next_in_stream = next;
    (next == kNone ? last_in_stream_[Raw(work.stream) - 1] : works_[next].previous_in_stream) =
        previous;
  }
  Release(work);
}

void GpuDevice::Report(Work& work, DeviceEvent::Kind kind, std::uint32_t segment) {
  LAGOON_CHECK(work.credits > 0);
  --work.credits;
  events_.Push({kind, segment, work.id, lagoon::Now()});
  if (kind != DeviceEvent::Kind::kPlaced) news_ = true;
}

void GpuDevice::ReportPlaced(Work& work, std::uint32_t segment) {
  work.started = true;
  if (std::exchange(work.segments[segment].placed, true)) return;
  Report(work, DeviceEvent::Kind::kPlaced, segment);
}

void GpuDevice::ReportComplete(Work& work, std::uint32_t segment) {
  ReportPlaced(work, segment);
  if (std::exchange(work.segments[segment].complete, true)) return;
  Report(work, DeviceEvent::Kind::kComplete, segment);
}

bool GpuDevice::Enter() {
  const Status entered = session_->Enter();
  if (!entered) Lose(entered.error().message);
  return entered.has_value();
}

bool GpuDevice::Accept(Code code, const char* call) {
  if (code == kSuccess) return true;
  Lose(std::string(call) + ": " + driver().Describe(code));
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

// The device's own thread: reads the GPU's notes, copies, and calls the listener and waiters.

#include <fmt/format.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "device/cuda/gpu_device.h"
#include "device/host/busy_lock.h"

namespace lagoon::cuda {
namespace {

constexpr int kLooks = 64;  // a microsecond or two
constexpr Nanoseconds kNap = std::chrono::microseconds(20);
constexpr Nanoseconds kIdleCheck = std::chrono::milliseconds(100);
constexpr Nanoseconds kContextCheck = std::chrono::milliseconds(1);

}  // namespace

void GpuDevice::RunThread() {
  prctl(PR_SET_TIMERSLACK, 1);  // ns; naps would be 50 us longer
  {
    MutexLock lock(mutex_);
    Enter();
  }
  TimePoint last_news = lagoon::Now();
  TimePoint last_check = last_news;
  while (!stopping_.load()) {
    if (TellLoss()) break;
    const bool moved = Pump();
    const TimePoint now = lagoon::Now();
    if (moved) last_news = now;
    if (now - last_check > kContextCheck) {
      last_check = now;
      CheckContext();
      CheckSilence();
    }
    if (!moved) Rest(now - last_news > options_.spin);
  }
}

// After news, more news is likely: the thread looks only at the ring and leaves the lock to
// callers. Later it naps between looks. With nothing in flight it sleeps until a call wakes it, and
// wakes in between only to check that the context still lives.
void GpuDevice::Rest(bool nap) {
  if (!nap) {
    for (int i = 0; i < kLooks && !notes_->Waiting(); ++i) CpuPause();
    return;
  }
  MutexLock lock(mutex_);
  asleep_ = true;
  if (!lost_ && !stopping_.load()) {
    work_.WaitUntil(mutex_, lagoon::Now() + (order_.empty() ? kIdleCheck : kNap));
  }
  asleep_ = false;
}

// Reports a loss. Runs between two rounds of the thread, when no copy moves: after the event all
// memory belongs to the callers.
bool GpuDevice::TellLoss() {
  std::string why;
  {
    MutexLock lock(mutex_);
    if (!lost_) return false;
    events_.Push({DeviceEvent::Kind::kLost, LaunchId{}, lagoon::Now()});
    why = lost_because_;
  }
  spdlog::error("device '{}' is lost: {}", info_.name, why);
  Tell();
  return true;
}

bool GpuDevice::Pump() {
  bool moved = false;
  bool news = false;
  {
    MutexLock lock(mutex_);
    if (lost_) return true;
    news_ = false;
    moved = TakeNotes();
    moved = CheckFetches() || moved;
    if (issuer_->refused()) Advance();
    for (const std::uint32_t index : copy_queue_) {
      const Copy& copy = works_[index].copy;
      const CopyPipeline::Way way = memory_->OnGpu(copy.from) ? CopyPipeline::Way::kToHost
                                    : memory_->OnGpu(copy.to) ? CopyPipeline::Way::kToDevice
                                                              : CopyPipeline::Way::kOnHost;
      copies_->Add(index, copy, way);
    }
    moved = !copy_queue_.empty() || moved;
    copy_queue_.clear();
    if (moved) Advance();
    news = news_;
  }
  if (news) Tell();
  return PumpCopies() || moved;
}

// The bytes move without the lock. The Work of a copy stays until its last piece has arrived.
bool GpuDevice::PumpCopies() {
  CallResult result;
  bool moved = copies_->Step(result);
  bool news = false;
  std::uint32_t key = 0;
  {
    MutexLock lock(mutex_);
    if (lost_ || !Accept(result)) return true;
    if (moved) watchdog_.Hear();
    news_ = false;
    while (copies_->TakeFinished(key)) {
      Work& work = works_[key];
      work.copy.progress->Mirror(work.copy.progress->blocks());
      ReportComplete(work);
      work.copying = false;
      moved = true;
    }
    if (moved) Advance();
    news = news_;
  }
  if (news) Tell();
  return moved;
}

void GpuDevice::Tell() {
  waiters_.NotifyAll();
  listener_.Tell();
}

// A fault in a kernel shows as an error of the next call, whatever that call is.
void GpuDevice::CheckContext() {
  MutexLock lock(mutex_);
  if (lost_) return;
  const Code code = driver().query_stream(control_->handle());
  if (code != kNotReady) Accept({code, "cuStreamQuery"});
}

// A grid that never ends is no error for the driver. Calls that wait for the GPU would never
// return, so nothing is given back.
void GpuDevice::CheckSilence() {
  MutexLock lock(mutex_);
  if (lost_) return;
  const bool busy = issuer_->grids() > 0 || !fetches_.empty() || copies_->busy();
  if (!watchdog_.Look(busy, lagoon::Now())) return;
  session_->Abandon(WhySilent());
  Lose(WhySilent());
}

std::string GpuDevice::WhySilent() const {
  return fmt::format(
      "the GPU has work and has reported nothing for {} s (grids in flight: {}); it is given up, "
      "and only a new process can use it again: restart this one",
      std::chrono::duration<double>(options_.silence).count(), issuer_->grids());
}

// Waits until the GPU has run all kernels or reports an error. False: they do not end, and the GPU
// is given up. cuCtxSynchronize has no limit, so the streams are asked. No note is read: the
// callers' records may be gone.
bool GpuDevice::AwaitKernels() {
  constexpr Nanoseconds kPause = std::chrono::microseconds(100);
  MutexLock lock(mutex_);
  if (issuer_ == nullptr) return true;
  Watchdog watchdog(options_.silence, lagoon::Now());
  while (issuer_->streams().Query() == kNotReady) {
    if (watchdog.Look(true, lagoon::Now())) {
      session_->Abandon(WhySilent());
      spdlog::error("device '{}': {}", info_.name, WhySilent());
      return false;
    }
    work_.WaitUntil(mutex_, lagoon::Now() + kPause);
  }
  return true;
}

}  // namespace lagoon::cuda

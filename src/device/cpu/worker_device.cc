#include "device/cpu/worker_device.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread.h"
#include "device/host/busy_lock.h"
#include "device/host/float_control.h"
#include "device/host/machine.h"

namespace lagoon {
namespace {

constexpr std::uint32_t kMaxGuards = 8192;  // two per instance and one per dispatcher
constexpr std::size_t kMinScratchBytes = 4096;

}  // namespace

WorkerDevice::WorkerDevice(std::uint32_t workers, const CpuDeviceOptions& options)
    : all_background_(options.all_background),
      memory_(std::make_shared<HostMemory>(options.memory_limit_bytes)),
      guards_(kMaxGuards),
      shares_(info_),
      background_({.name = "lagoon-idle",
                   .workers = workers,
                   .first_unit = options.all_background ? 0 : workers,
                   .background = true,
                   .gives_way = !options.all_background,
                   .probe = options.probe},
                  guards_, shares_,
                  [this] {
                    background_news_.fetch_add(1, std::memory_order_release);
                    background_news_.notify_one();
                  }),
      front_(
          {.name = "lagoon-cpu", .workers = workers, .probe = options.probe, .below = &background_},
          guards_, shares_, [this] { OnFrontNews(); }) {
  info_.name = "cpu";
  info_.description = ProcessorName();
  info_.units = workers;
  info_.observed_units = 2 * workers;
  info_.memory_bytes = memory_->limit_bytes();
  info_.max_launches =
      all_background_ ? WorkerPool::kBackgroundLaunches : WorkerPool::kLimits.launches;
  info_.max_background_launches = WorkerPool::kBackgroundLaunches;
  info_.max_streams = WorkerPool::kLimits.streams;
  info_.max_guards = kMaxGuards;
  info_.share_granule = 1;
  info_.max_shares = Shares::kMost;
  info_.lends_units = true;
  info_.tells_blocks = !options.all_background;
  info_.takes_help = !options.all_background;
}

WorkerDevice::~WorkerDevice() {
  stopping_.store(true, std::memory_order_relaxed);
  background_news_.fetch_add(1, std::memory_order_release);
  background_news_.notify_one();
}

Status WorkerDevice::Start(std::span<const int> cores) {
  LAGOON_RETURN_IF_ERROR(front_.Start(cores));
  LAGOON_RETURN_IF_ERROR(background_.Start(cores));
  carrier_ = std::jthread([this] {
    NameThisThread("lagoon-news");
    CarryNews();
  });
  return {};
}

Result<Buffer> WorkerDevice::Allocate(std::size_t bytes, MemoryKind) {
  return memory_->Allocate(bytes);
}

// Gives every worker that much scratch memory.
Status WorkerDevice::GrowScratch(const CodeImage& image, std::size_t bytes) {
  std::vector<Buffer> grown[2];
  for (std::vector<Buffer>& buffers : grown) {
    for (std::uint32_t i = 0; i < info_.units; ++i) {
      Result<Buffer> buffer = memory_->Allocate(bytes);
      if (!buffer) return Annotate("kernel '" + image.name + "'", std::move(buffer).error());
      buffers.push_back(*std::move(buffer));
    }
  }
  MutexLock lock(mutex_);
  // Meanwhile another Load() may have grown the scratch memory further.
  if (bytes <= scratch_bytes_) return {};
  scratch_bytes_ = bytes;
  front_.SetScratch(std::move(grown[0]));
  background_.SetScratch(std::move(grown[1]));
  return {};
}

Result<KernelHandle> WorkerDevice::Load(const CodeImage& image, const KernelSpec& spec) {
  if (image.body == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "device 'cpu': kernel '" + image.name + "' has no body");
  }
  bool grow = false;
  {
    MutexLock lock(mutex_);
    grow = spec.scratch_bytes > scratch_bytes_;
  }
  if (grow) {
    LAGOON_RETURN_IF_ERROR(
        GrowScratch(image, std::max(std::bit_ceil(spec.scratch_bytes), kMinScratchBytes)));
  }
  MutexLock lock(mutex_);
  return bodies_.FindOrAdd(image.body, image.body,
                           "device 'cpu': cannot load kernel '" + image.name + "'");
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

SubmitResult WorkerDevice::Submit(const Launch& launch) {
  Body body = nullptr;
  {
    BusyLock lock(mutex_);
    LAGOON_CHECK(Raw(launch.stream) <= streams_ && shares_.Exists(launch.share));
    body = bodies_[launch.kernel];
  }
  const SubmitResult result = PoolOf(launch.background).Submit(launch, body);
  NotifyWaiters();
  return result;
}

SubmitResult WorkerDevice::Transfer(const Copy& copy) {
  const SubmitResult result = PoolOf(copy.background).Submit(copy);
  NotifyWaiters();
  return result;
}

SubmitResult WorkerDevice::Raise(GuardId guard, std::uint32_t value) {
  if (!guards_.IsLater(guard, value)) return SubmitResult::kOk;
  // Before the pools' locks, so that running blocks see it at once.
  guards_.Set(guard, value);
  front_.OnGuardRaised();
  background_.OnGuardRaised();
  NotifyWaiters();
  return SubmitResult::kOk;
}

Status WorkerDevice::MoveShare(ShareId share, UnitRange units) {
  {
    BusyLock lock(mutex_);
    LAGOON_RETURN_IF_ERROR(shares_.CheckMove(share, units));
    shares_.Move(share, units);
  }
  front_.OnShareMoved();
  background_.OnShareMoved();
  return {};
}

std::size_t WorkerDevice::Poll(std::span<DeviceEvent> events) {
  const std::size_t count = front_.Poll(events);
  return count + background_.Poll(events.subspan(count));
}

void WorkerDevice::WaitForRetired(TimePoint until, std::size_t launches) {
  MutexLock lock(wait_mutex_);
  const bool alone = waiters_.load(std::memory_order_relaxed) == 0;
  if (alone || launches < wanted_.load(std::memory_order_relaxed)) {
    wanted_.store(launches, std::memory_order_relaxed);
  }
  waiters_.fetch_add(1, std::memory_order_acq_rel);  // pairs with NotifyWaiters()
  while (!HasRetired(launches) && !woken_ && lagoon::Now() < until) {
    news_.WaitUntil(wait_mutex_, until);
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  woken_ = false;
}

bool WorkerDevice::HasRetired(std::size_t launches) const {
  if (front_.HasLastEvents() || background_.HasLastEvents()) return true;
  if (front_.pending() + background_.pending() == 0) return false;
  return front_.retired() + background_.retired() >= launches;
}

void WorkerDevice::Wake() {
  {
    MutexLock lock(wait_mutex_);
    woken_ = true;
  }
  news_.NotifyAll();
}

// Both sides change `waiters_`, so one comes first: this one, then the waiter sees the events that
// were pushed before, and the workers that went to sleep; or the waiter, then it is seen here.
void WorkerDevice::NotifyWaiters() {
  if (waiters_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  if (!HasRetired(wanted_.load(std::memory_order_relaxed))) return;
  { MutexLock lock(wait_mutex_); }  // the waiter sleeps by now
  news_.NotifyAll();
}

void WorkerDevice::OnFrontNews() {
  background_.OnOthersRetired();
  listener_.Tell();
  NotifyWaiters();
}

void WorkerDevice::CarryNews() {
  for (std::uint32_t seen = 0;;) {
    background_news_.wait(seen, std::memory_order_acquire);
    seen = background_news_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    listener_.Tell();
    NotifyWaiters();
  }
}

void WorkerDevice::Help(BorrowedUnit unit, const HelpUntil& until) {
  if (unit == kNoUnit) return;
  const FloatControl control;
  front_.Help(unit, until);
}

UnitTimes WorkerDevice::Times() const {
  UnitTimes times = (all_background_ ? background_ : front_).Times();
  if (!all_background_) times.busy += background_.Times().busy;
  return times;
}

void WorkerDevice::SetObserver(DeviceObserver* observer) {
  front_.SetObserver(observer);
  background_.SetObserver(observer);
}

}  // namespace lagoon

#include "sim/device/sim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

// A CUDA process may have more streams than the device has queues (Paella 2.1).
constexpr std::uint32_t kMaxStreams = 1024;
constexpr std::uint32_t kMaxGuards = 2048;
constexpr std::uint32_t kLeastLaunches = 16, kMostLaunches = 1 << 16;
constexpr Nanoseconds kMostBlockTime = std::chrono::hours(1);
// Not zero, which is the value of a default-constructed TimePoint.
constexpr TimePoint kStart{std::chrono::seconds(1)};

// Blocks of a kernel that a unit holds at once.
// What a block uses of its unit and of the device's bandwidth. The other demands are set already.
void SetSpeeds(const SimConstants& constants, const BlockDemand& demand, SimKernel& kernel) {
  const std::int64_t bandwidth = constants.memory_bytes_per_us;
  // One block cannot move more than the device. The bounds keep the products within 64 bits.
  const auto bytes = static_cast<std::int64_t>(
      std::min<std::uint64_t>(demand.memory_bytes, 1'000'000'000'000'000));
  kernel.traffic = std::min(bytes * 1000 / demand.time.count(), bandwidth);
  const std::int64_t use = demand.use_permille > 0 ? std::int64_t{demand.use_permille}
                                                   : 1000 / OccupancyOf(constants, kernel);
  kernel.use = constants.unit_use_permille * use / (1'000'000 / kFullSpeed);
  const std::int64_t share = std::max<std::int64_t>(1, bandwidth / constants.units);
  kernel.bound_permille = std::min<std::int64_t>(1000, kernel.traffic * 1'000'000 / (use * share));
}

}  // namespace

Result<std::unique_ptr<SimDevice>> SimDevice::Create(const SimDeviceOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckSimConstants(options.gpu.constants, options.gpu.name));
  if (options.max_launches < kLeastLaunches || options.max_launches > kMostLaunches) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("device 'sim:{}': {} launches in flight asked, it must be from {} to {}",
                    options.gpu.name, options.max_launches, kLeastLaunches, kMostLaunches));
  }
  return std::unique_ptr<SimDevice>(new SimDevice(options));
}

SimDevice::SimDevice(const SimDeviceOptions& options)
    : gpu_(options.gpu),
      constants_(gpu_.constants),
      memory_(std::make_shared<HostMemory>(
          options.memory_limit_bytes != 0 ? options.memory_limit_bytes
                                          : static_cast<std::size_t>(constants_.memory_mib) << 20,
          "sim:" + gpu_.name)),
      guards_(kMaxGuards),
      shares_(info_),
      engine_({.constants = constants_,
               .abort = options.abort,
               .joined_padding = options.joined_padding,
               .seed = options.seed,
               .launches = options.max_launches,
               .streams = kMaxStreams},
              guards_, shares_, kStart),
      now_(kStart) {
  info_.name = "sim:" + gpu_.name;
  info_.description = gpu_.description;
  info_.units = static_cast<std::uint32_t>(constants_.units);
  info_.memory_bytes = memory_->limit_bytes();
  info_.max_launches = options.max_launches;
  const bool background = options.background || gpu_.background;
  info_.max_background_launches = background ? options.max_launches : 0;
  info_.max_streams = kMaxStreams;
  info_.max_guards = kMaxGuards;
  info_.share_granule = static_cast<std::uint32_t>(constants_.share_granule);
  info_.max_shares = Shares::kMost;
  info_.lends_units = true;
  info_.tells_blocks = true;
  info_.slices_kernels = true;
  info_.virtual_time = true;
  info_.computes = false;
}

std::uint64_t SimDevice::blocks_ended() const {
  const MutexLock lock(mutex_);
  return engine_.blocks_ended();
}

Nanoseconds SimDevice::host_time() const {
  const MutexLock lock(mutex_);
  return host_time_;
}

Result<Buffer> SimDevice::Allocate(std::size_t bytes, MemoryKind) {
  return memory_->Allocate(bytes);
}

Status SimDevice::CheckDemand(const std::string& kernel, const BlockDemand& demand) const {
  const auto wrong = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("device '{}': kernel '{}' {}", info_.name, kernel, what));
  };
  if (demand.time <= Nanoseconds(0) || demand.time > kMostBlockTime) {
    return wrong(fmt::format("has a block time of {} ns, it must be from 1 ns to an hour",
                             demand.time.count()));
  }
  if (!(demand.time_spread >= 0 && demand.time_spread < 1)) {
    return wrong(
        fmt::format("has a spread of block times of {}, it must be in [0, 1)", demand.time_spread));
  }
  if (demand.check_interval < Nanoseconds(0)) {
    return wrong(fmt::format("has a check interval of {} ns", demand.check_interval.count()));
  }
  if (demand.use_permille > 1000) {
    return wrong(
        fmt::format("has a use of {} permille of what its kernel uses of a unit, it must "
                    "be at most 1000",
                    demand.use_permille));
  }
  struct Limit {
    const char* what;
    std::uint64_t asked;
    std::int64_t limit;
  };
  const std::uint64_t registers = std::uint64_t{demand.threads} * demand.registers_per_thread;
  for (const Limit& limit :
       {Limit{"threads", demand.threads, constants_.threads_per_unit},
        Limit{"registers", registers, constants_.registers_per_unit},
        Limit{"bytes of shared memory", demand.shared_bytes, constants_.shared_bytes_per_unit}}) {
    if (limit.asked > static_cast<std::uint64_t>(limit.limit)) {
      return wrong(
          fmt::format("does not fit into a compute unit: a block needs {} {}, a unit has {}",
                      limit.asked, limit.what, limit.limit));
    }
  }
  return {};
}

Result<KernelHandle> SimDevice::Load(const CodeImage& image, const KernelSpec& spec) {
  const BlockDemand& demand = spec.block;
  LAGOON_RETURN_IF_ERROR(CheckDemand(image.name, demand));
  SimKernel kernel;
  kernel.body = image.body;
  kernel.time = demand.time;
  kernel.time_spread = demand.time_spread;
  // An interval longer than a block can be means the same as any other one.
  kernel.check_interval = demand.check_interval > Nanoseconds(0)
                              ? std::min(demand.check_interval, 2 * kMostBlockTime)
                              : Nanoseconds(constants_.check_interval_ns);
  const bool whole = demand.threads == 0;
  kernel.threads = whole ? static_cast<std::uint32_t>(constants_.threads_per_unit) : demand.threads;
  kernel.registers = whole ? 0 : demand.threads * demand.registers_per_thread;
  kernel.shared_bytes = whole ? 0 : demand.shared_bytes;
  SetSpeeds(constants_, demand, kernel);
  const MutexLock lock(mutex_);
  return kernels_.FindOrAdd(
      kernel.key(), kernel,
      fmt::format("device '{}': cannot load kernel '{}'", info_.name, image.name));
}

std::uint32_t SimDevice::LoadedKernels() const {
  const MutexLock lock(mutex_);
  return kernels_.size();
}

std::uint32_t SimDevice::Occupancy(KernelHandle kernel) const {
  const MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(OccupancyOf(constants_, kernels_[kernel]));
}

// The resource that bounds the kernel's blocks on a unit counts with what they leave of the unit.
UnitNeed SimDevice::NeedOf(KernelHandle handle) const {
  const MutexLock lock(mutex_);
  const SimKernel& kernel = kernels_[handle];
  const std::int64_t at_once = OccupancyOf(constants_, kernel);
  const auto part = [&](std::int64_t of_block, std::int64_t of_unit) {
    const bool scarcest = of_block > 0 && of_unit / of_block == at_once;
    const std::int64_t whole = kWholeUnit;
    if (scarcest) return static_cast<std::uint32_t>(whole / at_once);
    return static_cast<std::uint32_t>(of_unit == 0 ? 0 : of_block * whole / of_unit);
  };
  return {.blocks = part(1, constants_.blocks_per_unit),
          .threads = part(kernel.threads, constants_.threads_per_unit),
          .registers = part(kernel.registers, constants_.registers_per_unit),
          .shared_bytes = part(kernel.shared_bytes, constants_.shared_bytes_per_unit)};
}

Result<StreamId> SimDevice::CreateStream(const StreamOptions& options) {
  const MutexLock lock(mutex_);
  if (streams_ == kMaxStreams) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("device '{}': cannot create stream '{}': all {} are in use", info_.name,
                            options.name, kMaxStreams));
  }
  return StreamId(++streams_);
}

Result<ShareId> SimDevice::CreateShare(const std::string& name, UnitRange units) {
  const MutexLock lock(mutex_);
  return shares_.Create(name, units);
}

Status SimDevice::PrepareUnits(UnitRange units) { return shares_.CheckBounds("a share", units); }

Result<GuardId> SimDevice::CreateGuard() {
  const MutexLock lock(mutex_);
  return guards_.Create(info_.name);
}

TimePoint SimDevice::Now() const {
  const MutexLock lock(mutex_);
  return now_;
}

void SimDevice::RunUntil(TimePoint until) {
  if (!held_) return engine_.RunUntil(until);
  const Nanoseconds busy = engine_.busy();
  engine_.RunUntil(until);
  idle_while_held_ += (until - now_) * constants_.units - (engine_.busy() - busy);
}

// The host spends this time while the device goes on.
void SimDevice::Spend(std::int64_t host_ns) {
  host_time_ += Nanoseconds(host_ns);
  const TimePoint until = now_ + Nanoseconds(host_ns);
  RunUntil(until);
  now_ = until;
}

SubmitResult SimDevice::Submit(const Launch& launch) {
  const MutexLock lock(mutex_);
  LAGOON_CHECK(Raw(launch.stream) <= streams_);
  LAGOON_CHECK(shares_.Exists(launch.share));
  Spend(constants_.host_submit_ns);
  return engine_.Add(launch, kernels_[launch.kernel]);
}

SubmitResult SimDevice::Transfer(const Copy& copy) {
  const MutexLock lock(mutex_);
  LAGOON_CHECK(Raw(copy.stream) <= streams_);
  Spend(constants_.host_submit_ns);
  return engine_.Add(copy);
}

Status SimDevice::MoveShare(ShareId share, UnitRange units) {
  const MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(shares_.CheckMove(share, units));
  Spend(constants_.host_submit_ns);
  shares_.Move(share, units);
  engine_.OnShareMoved();
  return {};
}

SubmitResult SimDevice::Raise(GuardId guard, std::uint32_t value) {
  const MutexLock lock(mutex_);
  if (!guards_.IsLater(guard, value)) return SubmitResult::kOk;
  Spend(constants_.host_raise_ns);
  guards_.Set(guard, value);
  engine_.Revoke(now_ + Nanoseconds(constants_.raise_latency_ns));
  return SubmitResult::kOk;
}

std::size_t SimDevice::Poll(std::span<DeviceEvent> events) {
  const MutexLock lock(mutex_);
  const std::size_t count = engine_.events().Pop(events, now_);
  Spend(static_cast<std::int64_t>(count) * constants_.host_event_ns);
  return count;
}

void SimDevice::Wait(TimePoint until) {
  bool news = false;
  {
    const MutexLock lock(mutex_);
    const TimePoint before = now_;
    // The listener's deadlines are in virtual time, so every advance is news.
    news = WaitForNews(until) || now_ != before;
  }
  if (news) listener_.Tell();
}

// Moves time on to the first news not reported yet. False: none until `until`, or Wake() was
// called.
bool SimDevice::WaitForNews(TimePoint until) {
  for (;;) {
    if (std::exchange(woken_, false)) return false;
    Notifications& events = engine_.events();
    if (events.next_news() <= now_) {
      events.Tell(now_);
      return true;
    }
    if (now_ >= until) return false;
    const TimePoint next = std::min({events.next_news(), engine_.next(), until});
    if (next == kNoDeadline) {
      wake_.Wait(mutex_);
      continue;
    }
    RunUntil(std::max(next, now_));
    now_ = std::max(next, now_);
  }
}

void SimDevice::Wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  wake_.NotifyAll();
}

UnitTimes SimDevice::Times() const {
  const MutexLock lock(mutex_);
  UnitTimes times;
  times.busy = engine_.busy();
  times.idle = (now_ - kStart) * constants_.units - times.busy;
  times.idle_while_ready = idle_while_held_;
  return times;
}

void SimDevice::SetObserver(DeviceObserver* observer) {
  const MutexLock lock(mutex_);
  engine_.SetObserver(observer);
}

void SimDevice::SetWorkHeld(bool held) {
  const MutexLock lock(mutex_);
  held_ = held;
}

Result<std::unique_ptr<SimDevice>> CreateSimDevice(const std::string& gpu,
                                                   SimDeviceOptions options) {
  LAGOON_ASSIGN_OR_RETURN(options.gpu, LoadGpuModel(gpu));
  return SimDevice::Create(options);
}

}  // namespace lagoon

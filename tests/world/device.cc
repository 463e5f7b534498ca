#include "world/device.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "device/host/listener_slot.h"
#include "world/allocations.h"
#include "world/models.h"
#include "world/threads.h"

namespace lagoon::world {

/// Memory of devices. Whether a buffer lies where an earlier one was depends on the order of calls
/// only: engines keep what they have bound to addresses, and malloc() gives others from run to run.
class DeviceMemory final : public MemoryOwner {
 public:
  DeviceMemory() {
    void* const begin = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LAGOON_CHECK(begin != MAP_FAILED);
    begin_ = next_ = static_cast<std::byte*>(begin);
  }
  ~DeviceMemory() override {
    ASAN_UNPOISON_MEMORY_REGION(begin_, static_cast<std::size_t>(next_ - begin_));
    munmap(begin_, kRoom);
  }

  void* Allocate(std::size_t bytes) {
    const MutexLock lock(mutex_);
    ++buffers_;
    auto& freed = freed_[bytes];
    if (!freed.empty()) {
      std::byte* const data = freed.front();
      freed.pop_front();
      ASAN_UNPOISON_MEMORY_REGION(data, bytes);
      return data;
    }
    std::byte* const data = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
    LAGOON_CHECK(next_ <= begin_ + kRoom);
    ASAN_POISON_MEMORY_REGION(data + bytes, static_cast<std::size_t>(next_ - data) - bytes);
    return data;
  }
  void Free(void* data, std::size_t bytes) override {
    const Spared spared;
    const MutexLock lock(mutex_);
    --buffers_;
    ASAN_POISON_MEMORY_REGION(data, bytes);
    freed_[bytes].push_back(static_cast<std::byte*>(data));
  }
  std::int64_t buffers() const { return buffers_.load(); }

 private:
  static constexpr std::size_t kRoom = std::size_t{4} << 30;  // of addresses
  static constexpr std::size_t kAlignment = 64;

  std::byte* begin_ = nullptr;
  std::atomic<std::int64_t> buffers_{0};
  Mutex mutex_;
  std::byte* next_ GUARDED_BY(mutex_) = nullptr;
  std::map<std::size_t, std::deque<std::byte*>> freed_ GUARDED_BY(mutex_);  // by size
};

/// Forwards to CPU workers until it is lost. A call that is under way then ends first.
class LosableDevice final : public Device {
 public:
  LosableDevice(Devices& devices, std::shared_ptr<Device> workers)
      : devices_(devices), info_(workers->info()), workers_(std::move(workers)) {}
  ~LosableDevice() override {
    const MutexLock lock(devices_.mutex_);
    std::erase(devices_.devices_, this);
  }

  bool serves() const { return serves_.load(); }
  void Retire() { serves_.store(false); }
  std::vector<UnitRange> Shares() {
    const MutexLock lock(mutex_);
    std::vector<UnitRange> shares;
    for (const auto& [share, range] : ranges_) shares.push_back(range);
    return shares;
  }

  void Lose() {
    std::shared_ptr<Device> workers;
    {
      const MutexLock lock(mutex_);
      workers.swap(workers_);
    }
    if (workers == nullptr) return;
    while (workers.use_count() > 1) SleepFor(1000);
    times_ = workers->Times();
    workers.reset();  // the blocks that run end first
    {
      const MutexLock lock(mutex_);
      tell_loss_ = true;
    }
    listener_.Tell();
  }

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    if (bytes == 0) return Buffer();
    const Spared spared;
    return Buffer(devices_.memory_->Allocate(bytes), bytes, devices_.memory_);
  }
  Status Upload(void* to, std::span<const std::byte> from) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    return workers->Upload(to, from);
  }
  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    // Loading takes time, as compiling does, so that requests leave meanwhile.
    Dice dice(devices_.seed_ + devices_.loads_++);
    if (dice.OneIn(4)) SleepFor(static_cast<std::uint64_t>(dice.Below(20'000'000)));
    Result<KernelHandle> handle = workers->Load(image, spec);
    if (!handle) return handle;
    const Spared spared;
    const MutexLock lock(mutex_);
    const bool new_body = bodies_.insert({image.body, spec.scratch_bytes}).second;
    const bool new_handle = handles_.insert(*handle).second;
    if (new_handle && !new_body) ++devices_.surplus_;
    return handle;
  }
  std::uint32_t Occupancy(KernelHandle kernel) const override {
    const auto workers = Workers();
    return workers == nullptr ? 1 : workers->Occupancy(kernel);
  }
  Result<StreamId> CreateStream(const StreamOptions& options) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    ++devices_.created_;
    return workers->CreateStream(options);
  }
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    Result<ShareId> share = workers->CreateShare(name, units);
    if (!share) return share;
    ++devices_.created_;
    const Spared spared;
    const MutexLock lock(mutex_);
    ranges_[*share] = units;
    return share;
  }
  Status PrepareUnits(UnitRange units) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    return workers->PrepareUnits(units);
  }
  Result<GuardId> CreateGuard() override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    ++devices_.created_;
    return workers->CreateGuard();
  }
  const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const override {
    const auto workers = Workers();
    return workers == nullptr ? &no_guard_ : workers->GuardWord(guard);
  }
  TimePoint Now() const override { return lagoon::Now(); }
  SubmitResult Submit(const Launch& launch) override {
    const auto workers = Workers();
    return workers == nullptr ? SubmitResult::kLost : workers->Submit(launch);
  }
  SubmitResult Transfer(const Copy& copy) override {
    const auto workers = Workers();
    return workers == nullptr ? SubmitResult::kLost : workers->Transfer(copy);
  }
  SubmitResult Raise(GuardId guard, std::uint32_t value) override {
    const auto workers = Workers();
    return workers == nullptr ? SubmitResult::kLost : workers->Raise(guard, value);
  }
  Status MoveShare(ShareId share, UnitRange units) override {
    const auto workers = Workers();
    if (workers == nullptr) return Gone();
    LAGOON_RETURN_IF_ERROR(workers->MoveShare(share, units));
    const Spared spared;
    const MutexLock lock(mutex_);
    ranges_[share] = units;
    return {};
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    if (const auto workers = Workers(); workers != nullptr) return workers->Poll(events);
    const MutexLock lock(mutex_);
    if (events.empty() || !std::exchange(tell_loss_, false)) return 0;
    events[0] = {DeviceEvent::Kind::kLost, LaunchId{}, lagoon::Now()};
    return 1;
  }
  void SetListener(DeviceListener* listener) override {
    if (listener != nullptr) serves_.store(true);
    listener_.Set(listener);
    if (const auto workers = Workers(); workers != nullptr) workers->SetListener(listener);
  }
  void Wait(TimePoint until) override {
    if (const auto workers = Workers(); workers != nullptr) workers->Wait(until);
  }
  void Wake() override {
    if (const auto workers = Workers(); workers != nullptr) workers->Wake();
  }
  BorrowedUnit BorrowUnit(ShareId share) override {
    const auto workers = Workers();
    return workers == nullptr ? kNoUnit : workers->BorrowUnit(share);
  }
  void Help(BorrowedUnit unit, const HelpUntil& until) override {
    if (const auto workers = Workers(); workers != nullptr) workers->Help(unit, until);
  }
  UnitTimes Times() const override {
    const auto workers = Workers();
    return workers == nullptr ? times_ : workers->Times();
  }
  void SetWorkHeld(bool held) override {
    if (const auto workers = Workers(); workers != nullptr) workers->SetWorkHeld(held);
  }
  void SetObserver(DeviceObserver* observer) override {
    if (const auto workers = Workers(); workers != nullptr) workers->SetObserver(observer);
  }

 private:
  std::shared_ptr<Device> Workers() const {
    const MutexLock lock(mutex_);
    return workers_;
  }
  static tl::unexpected<Error> Gone() {
    return Fail(ErrorCode::kUnavailable, "the device of the world was lost");
  }

  Devices& devices_;
  const DeviceInfo info_;
  const std::atomic<std::uint32_t> no_guard_{0};
  std::atomic<bool> serves_{false};
  ListenerSlot listener_;
  UnitTimes times_;
  mutable Mutex mutex_;
  std::shared_ptr<Device> workers_ GUARDED_BY(mutex_);
  bool tell_loss_ GUARDED_BY(mutex_) = false;
  std::set<std::pair<Body, std::size_t>> bodies_ GUARDED_BY(mutex_);
  std::set<KernelHandle> handles_ GUARDED_BY(mutex_);
  std::map<ShareId, UnitRange> ranges_ GUARDED_BY(mutex_);
};

Devices::Devices(std::uint32_t workers, std::uint64_t seed)
    : workers_(workers), seed_(seed), memory_(std::make_shared<DeviceMemory>()) {}

std::int64_t Devices::Buffers() const { return memory_->buffers(); }

Result<ComputeDevice> Devices::Open() {
  const Spared spared;
  {
    const MutexLock lock(mutex_);
    if (failures_ > 0) {
      --failures_;
      return Fail(ErrorCode::kUnavailable, "the device of the world does not open");
    }
  }
  CpuDeviceOptions options;
  options.workers = workers_;
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Device> workers, CreateCpuDevice(options));
  auto device = std::make_unique<LosableDevice>(*this, std::move(workers));
  const MutexLock lock(mutex_);
  devices_.push_back(device.get());
  ComputeDevice opened;
  opened.device = std::move(device);
  return opened;
}

bool Devices::Lose(int failures) {
  LosableDevice* lost = nullptr;
  {
    const MutexLock lock(mutex_);
    for (LosableDevice* const device : devices_) {
      if (device->serves()) lost = device;
    }
    if (lost == nullptr) return false;
    lost->Retire();  // from now on it is destroyed as soon as the loss is told
    failures_ = failures;
  }
  lost->Lose();
  return true;
}

std::size_t Devices::Serving() {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(
      devices_, [](const LosableDevice* device) { return device->serves(); }));
}

bool Devices::AllClosed() {
  const MutexLock lock(mutex_);
  return devices_.empty();
}

std::vector<UnitRange> Devices::Shares() {
  const MutexLock lock(mutex_);
  for (LosableDevice* const device : devices_) {
    if (device->serves()) return device->Shares();
  }
  return {};
}

}  // namespace lagoon::world

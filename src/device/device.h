#pragma once

// The device contract: what the scheduler may ask of any accelerator, and what it is told.
// Every device passes the suite in device/conformance.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "device/block.h"

namespace lagoon {

struct DeviceInfo {
  std::string name;  // "cpu", with the processor's model in `description`
  std::string description;
  std::uint32_t units = 0;  // compute units: worker threads, SMs
  std::size_t memory_bytes = 0;
  std::uint32_t max_launches =
      0;  // in flight at once, transfers included; more is SubmitResult::kFull
  std::uint32_t max_segments = 0;  // of one launch
  std::uint32_t max_streams = 0;
  std::uint32_t max_guards = 0;
  /// Now() stands still between events: the device tells its listener after every advance, and
  /// nobody may sleep until a time of it.
  bool virtual_time = false;
  /// False: bodies and copies only cost time (a simulator); memory keeps what the host wrote.
  bool computes = true;
  /// False: blocks run out of the host's sight. No observer hears of them, and a body knows nothing
  /// of host threads and their scratch memory.
  bool blocks_on_host = true;
  /// False: the host cannot reach memory of kind kDevice but by Upload() and copies.
  bool memory_on_host = true;
};

enum class MemoryKind : std::uint8_t { kDevice, kHostVisible };

/// Where buffers come from; lives as long as the last of them.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  /// Any thread.
  virtual void Free(void* data, std::size_t bytes) = 0;
};

/// Device memory. Movable; frees itself, also after its device is gone. 64-byte aligned; contents
/// undefined.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, void (*free)(void*, std::size_t))
      : data_(data), bytes_(bytes), free_(free) {}
  Buffer(void* data, std::size_t bytes, std::shared_ptr<MemoryOwner> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  ~Buffer() {
    if (data_ == nullptr) return;
    owner_ != nullptr ? owner_->Free(data_, bytes_) : free_(data_, bytes_);
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  void (*free_)(void*, std::size_t) = nullptr;
  std::shared_ptr<MemoryOwner> owner_;
};

struct CudaImage;  // device/cuda/program.h

/// Code for devices: each takes its own form and refuses what lacks it.
struct CodeImage {
  std::string name;
  Body body = nullptr;              // the CPU's
  const CudaImage* cuda = nullptr;  // an NVIDIA GPU's; outlives the device
};

/// What a block takes of its compute unit, and costs, on a device that only simulates. Devices that
/// compute find out for themselves.
struct BlockDemand {
  Nanoseconds time{0};        // mean, when its kernel runs alone on the device
  double time_spread = 0;     // single blocks are uniform within this fraction of the mean
  std::uint32_t threads = 0;  // 0: a whole unit, whatever else is asked
  std::uint32_t registers_per_thread = 0;
  std::uint32_t shared_bytes = 0;
  std::uint64_t memory_bytes = 0;  // moved from and to device memory
  Nanoseconds check_interval{0};   // between two guard checks; 0: the device's own
};

struct KernelSpec {
  std::size_t scratch_bytes = 0;  // private memory per unit while a block runs; of a GPU, shared
  BlockDemand block = {};
};

/// A loaded kernel; valid as long as its device.
enum class KernelHandle : std::uint32_t {};

struct StreamOptions {
  std::string name;
  /// Its launches run on at least so many units, set aside for it; what runs in streams without
  /// such a share may use them too. 0: all units. A device that cannot do it refuses with the
  /// reason.
  std::uint32_t units = 0;
};

/// Launches of this stream have no order among themselves; their dependencies keep them right.
inline constexpr StreamId kUnordered{0};

/// Smaller runs first. Equal ranks: first submitted first.
using Rank = std::uint64_t;

/// Part of a launch. The spans and records it names must outlive the launch's retirement.
struct Segment {
  KernelHandle kernel{};
  const void* args = nullptr;
  Progress* progress = nullptr;
  std::uint32_t max_claimants = 0;  // units at once; 0: no limit
  std::span<const Dep> deps = {};
  /// Words of the device (CreateGuard), or counts: {&progress.done_word(), n} of a record that a
  /// launch names. Once more than n of its blocks are done, this segment leaves and no call is
  /// needed. The device may take the count for reached only when the launch that counts retires,
  /// and may look at the first launch of a stream only.
  Guard guards[kGuardsPerSegment] = {};
};

struct Launch {
  LaunchId id{};
  StreamId stream = kUnordered;
  Rank rank = 0;
  std::span<const Segment> segments;  // 1 to DeviceInfo::max_segments; copied by Submit
};

/// A copy between host and device memory. A copy that has begun is copied whole, and every byte is
/// copied at most once, whatever is raised.
struct Copy {
  LaunchId id{};
  StreamId stream = kUnordered;
  Rank rank = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  /// Counts the copy's chunks; complete when all is copied, so that kernels can depend on it.
  /// The device resets nothing: pass a record of CopyBlocks(bytes) blocks after Reset().
  Progress* progress = nullptr;
  std::span<const Dep> deps = {};
  /// Raised before the first chunk has begun: the copy retires incomplete and copies nothing. Later
  /// a guard has no effect: Guard::only_before_start is implied.
  Guard guards[kGuardsPerSegment] = {};
};

/// The guards as those of a launch: a copy that has begun no longer looks at them.
inline std::array<Guard, kGuardsPerSegment> CopyGuards(const Copy& copy) {
  std::array<Guard, kGuardsPerSegment> guards;
  for (std::size_t i = 0; i < kGuardsPerSegment; ++i) {
    guards[i] = copy.guards[i];
    guards[i].only_before_start = true;
  }
  return guards;
}

/// Copies run in chunks of this size, so that a better-ranked launch waits for at most one of them.
inline constexpr std::size_t kCopyChunkBytes = 64 * 1024;
constexpr std::uint32_t CopyBlocks(std::size_t bytes) {
  return bytes == 0 ? 1u
                    : static_cast<std::uint32_t>((bytes + kCopyChunkBytes - 1) / kCopyChunkBytes);
}

enum class SubmitResult : std::uint8_t {
  kOk,
  kFull,  // no room or no event credits: nothing was submitted, try again after a retirement
  kLost,  // the device failed; every launch was reported lost
};

struct DeviceEvent {
  enum class Kind : std::uint8_t {
    kPlaced,    // the first block of a segment is about to run (not reported if none ever runs)
    kComplete,  // a segment's progress became complete by a block of this launch; at: the last
                // commit
    kRetired,   // no block of the launch runs or will ever run; may be incomplete
    kLost,      // the device failed
  };
  Kind kind{};
  std::uint32_t segment = 0;
  LaunchId launch{};
  TimePoint at{};
};

/// Hears of news. See SetListener().
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  /// Poll() has a kComplete, kRetired or kLost, or had one a moment ago. Called at most one block
  /// after the event; in virtual time after every advance of the time, too. Not called for kPlaced
  /// alone, nor for events that Submit(), Transfer() or Raise() caused before they returned: their
  /// caller polls.
  ///
  /// Called by any thread of the device, or of a caller of Wait(); by several at once. The calling
  /// thread holds no lock of the device, so that the listener may use the queue. As long as it
  /// runs, its thread does nothing else for the device.
  virtual void OnDeviceNews() = 0;
};

/// Set-up. Any thread, may block: never on the path of a request.
class DeviceControl {
 public:
  virtual ~DeviceControl() = default;
  virtual const DeviceInfo& info() const = 0;
  /// kResourceExhausted, naming the bytes asked and free, when there is no memory.
  virtual Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) = 0;
  /// Writes memory of kind kDevice that nothing in flight names; it is there when this returns.
  virtual Status Upload(void* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  virtual Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) = 0;
  /// Blocks of a loaded kernel that a compute unit holds at once.
  virtual std::uint32_t Occupancy(KernelHandle /*kernel*/) const { return 1; }
  virtual Result<StreamId> CreateStream(const StreamOptions& options) = 0;
  /// A word that starts at 0 and only grows, through DeviceQueue::Raise.
  virtual Result<GuardId> CreateGuard() = 0;
  virtual const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const = 0;
};

/// The hot path. One caller at a time (the dispatcher's lock); nothing blocks except Wait, nothing
/// allocates. Events of one launch come in the order placed, complete, retired.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  virtual TimePoint Now() const = 0;  // virtual time on a simulator
  /// All or nothing. Launches of an ordered stream start after the one before is complete or
  /// retired. What finds nothing to do (all tiles done, or a guard already raised) retires at once.
  virtual SubmitResult Submit(const Launch& launch) = 0;
  virtual SubmitResult Transfer(const Copy& copy) = 0;
  /// Sets the word of `guard` to `value` if that is later. Queued launches that it revokes retire
  /// at once, but for those that hardware has behind one that runs: they leave after it. Running
  /// blocks leave at their next check.
  virtual SubmitResult Raise(GuardId guard, std::uint32_t value) = 0;
  /// Fills `events` with the oldest ones and returns how many.
  virtual std::size_t Poll(std::span<DeviceEvent> events) = 0;
  /// The listener of all news from now on; null: none, the caller polls or waits. When this
  /// returns, no call of the former listener runs and none will begin: it may be destroyed. News
  /// that come meanwhile may call neither the former nor the new one: poll after this.
  ///
  /// Also while launches are in flight. Inside OnDeviceNews() this returns at once, as it cannot
  /// wait for the call that it is made in: calls of the former listener that are under way go on,
  /// and the next SetListener() from outside waits for them.
  virtual void SetListener(DeviceListener* listener) = 0;
  /// Without the dispatcher's lock: returns when there are events, at `until`, or after Wake(). A
  /// kPlaced that comes during the wait does not end it.
  virtual void Wait(TimePoint until) = 0;
  virtual void Wake() = 0;  // any thread
};

class DeviceObserver;  // device/observer.h

/// How units spent their time since the device started; monotonic. Differences over a window are
/// what reports use.
struct UnitTimes {
  Nanoseconds busy{0};  // inside bodies
  Nanoseconds idle{0};  // nothing to run
  Nanoseconds idle_while_ready{
      0};  // the part of `idle` while the scheduler held work back (SetWorkHeld)
};

/// A device: control, queue and accounting of one accelerator.
class Device : public DeviceControl, public DeviceQueue {
 public:
  /// Sum over units. Any thread.
  virtual UnitTimes Times() const = 0;
  /// The scheduler says whether runnable work exists that it does not let run. Dispatcher's lock.
  virtual void SetWorkHeld(bool held) = 0;
  /// On an idle device. Null: nobody sees the blocks, which then cost a branch each. The observer
  /// outlives the device or its successor's SetObserver.
  virtual void SetObserver(DeviceObserver* observer) = 0;
};

}  // namespace lagoon

#pragma once

// The device contract: the calls that the scheduler makes to any accelerator, and the events that
// come back.
// Every device passes the suite in device/conformance.

#include <array>
#include <atomic>
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
  std::uint32_t units = 0;  // compute units: cores, SMs
  /// Blocks that an observer sees are on units below this number: compute units, then whatever else
  /// runs blocks (copy engines, background threads of the compute units). 0: `units`.
  std::uint32_t observed_units = 0;
  std::size_t memory_bytes = 0;
  /// Launches in flight at once, transfers included. One more is SubmitResult::kFull.
  std::uint32_t max_launches = 0;
  /// Launches of the background in flight at once, beside those. 0: they count as any other.
  std::uint32_t max_background_launches = 0;
  std::uint32_t max_streams = 0;
  std::uint32_t max_guards = 0;
  /// Shares begin and end at multiples of so many units, or at the device's last unit. 0: the
  /// device has no shares, and CreateShare() says why.
  std::uint32_t share_granule = 0;
  std::uint32_t max_shares = 0;
  /// Launch::beyond_share has an effect. False: the device ignores it.
  bool lends_units = false;
  /// Launch::tell_every has an effect. False: the device ignores it.
  bool tells_blocks = false;
  /// Launch::most_blocks has an effect. False: the device ignores it.
  bool slices_kernels = false;
  /// Now() stands still between events, and the device calls its listener after every advance. Do
  /// not sleep until a time of this clock.
  bool virtual_time = false;
  /// If false, bodies and copies only cost time (a simulator). Memory keeps what the host wrote.
  bool computes = true;
  /// If false, blocks do not run on host threads. No observer sees them, and bodies must not use
  /// thread-local state or scratch memory of the host.
  bool blocks_on_host = true;
  /// BorrowUnit() may return a unit.
  bool takes_help = false;
  /// If false, the host reaches memory of kind kDevice only by Upload() and copies.
  bool memory_on_host = true;
};

enum class MemoryKind : std::uint8_t { kDevice, kHostVisible };

/// Frees memory of buffers. Lives as long as the last buffer that it allocated.
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

struct CudaImage;  // device/cuda/driver/program.h

/// Code for devices. Each device takes its own form, and refuses an image without that form.
struct CodeImage {
  std::string name;
  Body body = nullptr;              // for the CPU
  const CudaImage* cuda = nullptr;  // for an NVIDIA GPU; outlives the device
};

/// What a block takes of its compute unit, and how long it runs. Only simulators read this.
struct BlockDemand {
  Nanoseconds time{0};        // mean, when the kernel runs alone on the device
  double time_spread = 0;     // block times are uniform within this fraction of the mean
  std::uint32_t threads = 0;  // 0: the block takes a whole unit, whatever the other fields say
  std::uint32_t registers_per_thread = 0;
  std::uint32_t shared_bytes = 0;
  std::uint64_t memory_bytes = 0;  // moved from and to device memory
  Nanoseconds check_interval{0};   // between two guard checks; 0: the device's own
  /// The block's part of what the kernel uses of a unit, in permille. 1000: the kernel has one
  /// block on each unit. 0: the kernel has as many as fit, and each uses as much.
  std::uint32_t use_permille = 0;
};

struct KernelSpec {
  /// Private memory of a unit while a block runs. On a GPU: shared memory.
  std::size_t scratch_bytes = 0;
  BlockDemand block = {};
};

/// What a block takes of a compute unit, in kWholeUnit-ths of what the unit has (Paella's Table 1).
struct UnitNeed {
  std::uint32_t blocks = 0, threads = 0, registers = 0, shared_bytes = 0;
};
inline constexpr std::uint32_t kWholeUnit = std::uint32_t{1} << 20;

/// A loaded kernel; valid as long as its device.
enum class KernelHandle : std::uint32_t {};

struct StreamOptions {
  std::string name;
};

/// Launches of this stream have no order among themselves, only their dependencies.
inline constexpr StreamId kUnordered{0};

/// A contiguous run of compute units.
struct UnitRange {
  std::uint32_t first = 0, count = 0;

  /// Number behind the last unit.
  std::uint32_t end() const { return first + count; }
  bool Has(std::uint32_t unit) const { return unit - first < count; }
  bool operator==(const UnitRange&) const = default;
};

/// The share of launches that may run on every unit. It is always there, and cannot be moved.
inline constexpr ShareId kAllUnits{0};

/// A compute unit that a thread has taken over: Device::BorrowUnit(). kNoUnit: none.
enum class BorrowedUnit : std::uint32_t {};
inline constexpr BorrowedUnit kNoUnit{0};

/// Who runs a launch or copy, if threads help the device (Device::Help). Other devices ignore this.
struct HelpTerms {
  /// A helping thread runs launches of its own level and of smaller ones: 0 is for real-time work.
  std::uint8_t level = 0;
  /// The unit of the thread that waits for this launch. As long as the thread has that unit, one
  /// sleeping unit less is woken for the launch.
  BorrowedUnit helper = kNoUnit;
  /// While `helper` is there, no other unit is woken for the launch.
  bool alone = false;
};

/// The smaller rank runs first. Of equal ranks, the launch that was submitted first.
using Rank = std::uint64_t;

/// A kernel to run. What its spans and pointers refer to must outlive the launch's retirement.
struct Launch {
  LaunchId id{};
  StreamId stream = kUnordered;
  Rank rank = 0;
  KernelHandle kernel{};
  const void* args = nullptr;
  Progress* progress = nullptr;
  std::uint32_t max_claimants = 0;  // largest number of units in this launch at once; 0: no limit
  /// Its blocks give way to everything else on the machine. On a CPU they run on threads of the
  /// operating system's idle class, so that they do not keep a core from other launches, the server
  /// or its clients, and their news may come up to a millisecond late. Its dependencies and the
  /// launches of its stream have the same value. Other devices ignore it.
  bool background = false;
  /// Expected time of a block, for DeviceEvent::stolen. 0: not known. Devices without blocks on the
  /// host ignore it.
  Nanoseconds expected_block{0};
  /// Above 0: the device reports kProgress whenever so many further blocks have begun, and so many
  /// further ones are done (see ProgressStep()). Not in the background. 0: it does not.
  std::uint32_t tell_every = 0;
  /// Largest number of blocks that this launch begins. When they have ended, the launch retires,
  /// and its kernel may be incomplete: a later launch does the rest. 0: no limit.
  std::uint32_t most_blocks = 0;
  HelpTerms help = {};
  ShareId share = kAllUnits;  // its blocks start on units of this share only
  /// Its blocks may also start on units outside of the share, wherever no launch whose share has
  /// the unit has a block to start, whatever the ranks. When such a launch comes, the unit's next
  /// block is one of its own: the unit is given back within one block.
  bool beyond_share = false;
  std::span<const Dep> deps = {};
  /// Words of the device (CreateGuard), or done counts: {&progress.done_word(), n}, where
  /// `progress` is named by a launch. Once more than n of its blocks are done, this launch leaves
  /// without a call of Raise(). A device may check the count late: only when the launch that
  /// counts retires, and only for the first launch in each stream.
  Guard guards[kGuardsPerLaunch] = {};

  /// The same kernel as another launch.
  Launch As(LaunchId other, StreamId on = kUnordered, Rank ranked = 0) const {
    Launch launch = *this;
    launch.id = other;
    launch.stream = on;
    launch.rank = ranked;
    return launch;
  }
};

/// A piece of host memory.
struct HostPart {
  std::byte* data = nullptr;  // null: read as zeros; what would be written is dropped
  std::size_t bytes = 0;
};

/// A copy between host and device memory. A copy that has begun is copied whole, and every byte is
/// copied at most once, even if a guard is raised.
struct Copy {
  LaunchId id{};
  StreamId stream = kUnordered;
  Rank rank = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  /// If not empty, the host's side lies in these parts, one after the other, and `to` or `from` is
  /// null instead. So one copy gathers the inputs of several requests, or scatters their outputs.
  /// The parts have `bytes` together, and must outlive the copy's retirement.
  std::span<const HostPart> parts = {};
  /// Counts the chunks of the copy. Complete when all bytes are copied, so kernels can depend on
  /// it. The device does not reset it: pass a record of CopyBlocks(bytes) blocks after Reset().
  Progress* progress = nullptr;
  std::span<const Dep> deps = {};
  bool background = false;   // Launch::background
  bool past_caches = false;  // the job copies more than caches keep: write to memory at once
  HelpTerms help = {};
  /// If a guard is raised before the first chunk begins, the copy retires incomplete and copies
  /// nothing. Later a guard has no effect: Guard::only_before_start is implied.
  Guard guards[kGuardsPerLaunch] = {};
};

/// The copy's guards with only_before_start set: a copy that has begun no longer checks them.
inline std::array<Guard, kGuardsPerLaunch> CopyGuards(const Copy& copy) {
  std::array<Guard, kGuardsPerLaunch> guards;
  for (std::size_t i = 0; i < kGuardsPerLaunch; ++i) {
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
  kFull,  // no slot or no event credits: nothing was submitted; try again after a retirement
  kLost,  // the device failed; one kLost event reports all launches in flight as lost
};

/// Most kProgress of one launch.
inline constexpr std::uint32_t kMostProgress = 16;
/// How many blocks of a launch of `blocks` blocks begin, or are done, from one kProgress to the
/// next. There is also one when the last block begins, and none when the last one is done.
constexpr std::uint32_t ProgressStep(std::uint32_t tell_every, std::uint32_t blocks) {
  constexpr std::uint32_t kSteps = kMostProgress / 2;
  const std::uint32_t least = blocks / kSteps + (blocks % kSteps != 0 ? 1 : 0);
  return tell_every == 0 ? 0 : tell_every > least ? tell_every : least;
}

struct DeviceEvent {
  enum class Kind : std::uint8_t {
    kPlaced,    // the first block is about to run; not reported if none ever runs
    kProgress,  // only with Launch::tell_every: `placed` and `done` have changed
    kComplete,  // a block of this launch completed its progress; at: last commit
    kRetired,   // no block of the launch runs or will ever run; may be incomplete
    kLost,      // the device failed and all its launches are lost; `launch` means nothing
  };
  Kind kind{};
  LaunchId launch{};
  TimePoint at{};
  /// kProgress: blocks of this launch that have begun, and those of them that are done. A block
  /// that leaves and begins again counts twice as begun.
  std::uint32_t placed = 0, done = 0;
  /// kRetired: the time that blocks of this launch took beyond Launch::expected_block, of those
  /// that took more than kStolenRatio times as long, and kLeastStolen more. So long a core is
  /// seldom away for another reason than that the operating system gave it to others.
  Nanoseconds stolen{0};
};
inline constexpr int kStolenRatio = 3;
inline constexpr Nanoseconds kLeastStolen = std::chrono::microseconds(50);

/// Called when a device has news. See SetListener().
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  /// Poll() has an event other than kPlaced, or had one a moment ago. Called at most one block
  /// after the event. In virtual time also called after every advance of the time. Not called for
  /// kPlaced alone, nor for events that Submit(), Transfer() or Raise() caused before they
  /// returned: the callers of these poll.
  ///
  /// Called on any thread of the device, or on a thread that calls Wait(); on several threads at
  /// once. The calling thread holds no lock of the device, so the listener may use the queue. While
  /// the listener runs, its thread does nothing else for the device.
  virtual void OnDeviceNews() = 0;
};

/// Set-up. Any thread, may block: never on the path of a request.
class DeviceControl {
 public:
  virtual ~DeviceControl() = default;
  virtual const DeviceInfo& info() const = 0;
  /// kResourceExhausted, naming the bytes asked and free, when there is no memory.
  virtual Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) = 0;
  /// Writes memory of kind kDevice that no launch in flight names. The bytes are there on return.
  virtual Status Upload(void* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  /// A kernel that is loaded again gets the handle that it has: loading models and shapes again and
  /// again takes no room.
  virtual Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) = 0;
  /// Number of kernels that are loaded.
  virtual std::uint32_t LoadedKernels() const { return 0; }
  /// Number of blocks of a loaded kernel that a compute unit holds at once.
  virtual std::uint32_t Occupancy(KernelHandle /*kernel*/) const { return 1; }
  /// What a block of a loaded kernel takes of a unit. A device that knows only how many blocks a
  /// unit holds answers in blocks.
  virtual UnitNeed NeedOf(KernelHandle kernel) const {
    return {.blocks = kWholeUnit / Occupancy(kernel)};
  }
  virtual Result<StreamId> CreateStream(const StreamOptions& options) = 0;
  /// Creates a share: units that bound the launches which name it. A share bounds only its own
  /// launches. Shares may overlap, and then contend for the units that they have in common;
  /// launches of kAllUnits contend with all shares. Within a share, ranks, streams and revocation
  /// are as without. Copies have no share. `name`: for errors.
  ///
  /// Errors name the device, the share and its units. kInvalidArgument: the units are not of the
  /// device, or not multiples of DeviceInfo::share_granule. kResourceExhausted: there are
  /// max_shares shares. kUnimplemented: the device has no shares, with the reason.
  virtual Result<ShareId> CreateShare(const std::string& name, UnitRange units) = 0;
  /// Prepares moves of shares to `units`, which CreateShare() also does. A second call for the same
  /// units does nothing. Errors are those of CreateShare().
  virtual Status PrepareUnits(UnitRange units) = 0;
  /// A word that starts at 0. Only DeviceQueue::Raise() changes it, and only upwards.
  virtual Result<GuardId> CreateGuard() = 0;
  virtual const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const = 0;
};

/// The hot path. One caller at a time (under the dispatcher's lock). No call blocks except Wait(),
/// and none allocates. Events of one launch come in the order placed, progress, complete, retired.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  virtual TimePoint Now() const = 0;  // virtual time on a simulator
  /// All or nothing. A launch of an ordered stream starts after the launch before it is complete or
  /// retired. A launch without anything to do (all tiles done, or a guard already raised) retires
  /// at once.
  virtual SubmitResult Submit(const Launch& launch) = 0;
  virtual SubmitResult Transfer(const Copy& copy) = 0;
  /// Sets the word of `guard` to `value` if `value` is later. Queued launches that this revokes
  /// retire at once. Exception: a launch that the hardware has already queued behind a running one
  /// leaves after that one. Running blocks leave at their next check.
  virtual SubmitResult Raise(GuardId guard, std::uint32_t value) = 0;
  /// Moves a share to other units, which PrepareUnits() has prepared. Blocks that run stay where
  /// they are. A unit outside of `units` begins no further block of the share, apart from one that
  /// the unit is about to begin during this call. A device whose blocks are not on host threads may
  /// let launches end where it has queued them; then the move holds for launches that it queues
  /// later.
  ///
  /// Allocates nothing on success. Errors change nothing and name the share and the units.
  /// kInvalidArgument: bounds as for CreateShare(), an unknown share, or kAllUnits.
  /// kUnavailable: the units are not prepared.
  virtual Status MoveShare(ShareId share, UnitRange units) = 0;
  /// `hurry`: something waits until launches of the background end. They compete as others do until
  /// the next call, if the system permits that. Most devices have nothing to do.
  virtual void HurryBackground(bool /*hurry*/) {}
  /// Moves the oldest events to `events` and returns their number.
  virtual std::size_t Poll(std::span<DeviceEvent> events) = 0;
  /// Sets the listener of all news from now on. Null: no listener; the caller polls or waits. When
  /// this returns, no call of the former listener runs and none will begin: it may be destroyed.
  /// News that comes meanwhile may reach neither the former nor the new listener: poll after this.
  ///
  /// Allowed while launches are in flight. Inside OnDeviceNews() this returns at once, as it cannot
  /// wait for the call that it is made in. Calls of the former listener that are under way go on,
  /// and the next SetListener() from outside waits for them.
  virtual void SetListener(DeviceListener* listener) = 0;
  /// Called without the dispatcher's lock. Returns when there are events, at `until`, or after
  /// Wake(). A kPlaced that comes during the wait does not end it.
  virtual void Wait(TimePoint until) = 0;
  /// As Wait(), but a device may let the caller sleep until as many as `launches` launches have
  /// retired that were not polled, or no unit finds work. For a caller that has submitted all that
  /// it can: to wake it after each kernel would take a core from the units.
  virtual void WaitForMany(TimePoint until, std::size_t /*launches*/) { Wait(until); }
  virtual void Wake() = 0;  // any thread
};

class DeviceObserver;  // device/observer.h

/// How units spent their time since the device started. The sums only grow; reports use differences
/// over a window.
struct UnitTimes {
  Nanoseconds busy{0};  // inside bodies
  Nanoseconds idle{0};  // nothing to run
  /// The part of `idle` during which the scheduler held work back (SetWorkHeld).
  Nanoseconds idle_while_ready{0};
  /// The time that units of a CPU were ready to run while other threads or programs had their
  /// cores. Waits of background threads do not count. 0 where the system does not tell.
  Nanoseconds off_core{0};
};

/// The bit that ends Device::Help().
inline constexpr std::uint32_t kHelpDone = 1;

/// Until when a thread helps, and with what.
struct HelpUntil {
  const std::atomic<std::uint32_t>* word = nullptr;  // until it has kHelpDone
  TimePoint time = kNoDeadline;                      // of the device's clock
  std::uint8_t level = 0;                            // HelpTerms::level
};

/// A device: control, queue and accounting of one accelerator.
class Device : public DeviceControl, public DeviceQueue {
 public:
  /// Any thread, without a lock that the listener takes. The calling thread takes the place of a
  /// unit of `share` that has no work and whose worker waits. kNoUnit: there is none, or blocks do
  /// not run on threads of the host. Help() must follow at once, apart from submissions.
  virtual BorrowedUnit BorrowUnit(ShareId /*share*/) { return kNoUnit; }
  /// On the thread that borrowed `unit`. Runs blocks as the unit's worker would, and calls the
  /// listener as the worker would. Looks at `until` after every block. Gives the unit back and
  /// returns when the end is reached, or when there was nothing to run for 100 us. The thread's
  /// floating-point control is afterwards as before.
  virtual void Help(BorrowedUnit /*unit*/, const HelpUntil& /*until*/) {}
  /// Sum over units. Any thread.
  virtual UnitTimes Times() const = 0;
  /// `held`: there is runnable work that the scheduler does not let run. Under the dispatcher's
  /// lock.
  virtual void SetWorkHeld(bool held) = 0;
  /// Only on an idle device. Null: blocks are not observed, and each costs only a branch. The
  /// observer must live until the next SetObserver() or the end of the device.
  virtual void SetObserver(DeviceObserver* observer) = 0;
};

}  // namespace lagoon

#pragma once

// What every device must do. A device joins with one line in a test file of its own:
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(kCpu), DeviceName);

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace lagoon::conformance {

struct Needs {
  std::uint32_t units = 2;
  std::size_t memory_limit_bytes = 0;  // 0: the device's own
};

struct DeviceUnderTest {
  std::string name;
  std::function<Result<std::unique_ptr<Device>>(const Needs&)> create;
  bool prompt = true;  // false: what is to retire at once may do so a little later
};

inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

inline std::string DeviceName(const ::testing::TestParamInfo<DeviceUnderTest>& info) {
  return info.param.name;
}

/// A kernel's record with its bitmap.
class Record {
 public:
  explicit Record(std::uint32_t blocks)
      : unclaimed_(std::make_unique<Progress::Word[]>(Progress::WordsFor(blocks))),
        progress_(blocks, std::span(unclaimed_.get(), Progress::WordsFor(blocks))) {
    progress_.Reset();
  }
  Progress& operator*() { return progress_; }
  Progress* operator->() { return &progress_; }
  Progress* get() { return &progress_; }
  Dep AllDone() { return {&progress_, progress_.blocks()}; }

 private:
  std::unique_ptr<Progress::Word[]> unclaimed_;
  Progress progress_;
};

bool GateBody(const void* args, std::uint32_t block, BlockContext& ctx);

/// The CUDA form of a body of the suite, for Session::Load(). Set by tests that create a GPU
/// device.
inline const CudaImage* (*cuda_form)(Body body) = nullptr;

/// Waits until the blocks of the device can see the guards that were raised; null: they see them at
/// once, or nothing tells. Set as above.
inline void (*await_guards)() = nullptr;

/// The device is a GPU, not an emulated one: its blocks are as fast as a host's. Set as above.
inline bool real_gpu = false;

/// Where and how a test submits.
struct Place {
  StreamId stream = kUnordered;
  Rank rank = 0;
};

/// What a block of the suite's kernels costs on a device that does not run bodies.
struct Cost {
  std::size_t scratch_bytes = 0;
  Nanoseconds block = std::chrono::microseconds(10);
  Nanoseconds check{0};  // between two guard checks; 0: the body has none
};

/// Longer than any test lets a GateBody wait for its gate in virtual time.
inline constexpr Nanoseconds kGateTime = std::chrono::milliseconds(100);

/// Waits until the device or its threads make `condition` true. Moves virtual time on meanwhile;
/// there the effects of a body show when its block starts or ends. Fails the test if it takes too
/// long.
bool Await(Device& device, const std::function<bool()>& condition);

/// A device, the launches that a test made on it, and their events. Checks the order of the events.
class Session {
 public:
  explicit Session(Device& device) : device_(device) {}

  /// Loads `body`; the test fails if it does not load.
  KernelHandle Load(Body body, const Cost& cost = {});
  KernelHandle LoadGate() { return Load(GateBody, {.block = kGateTime}); }
  GuardId NewGuard();
  StreamId NewStream();
  Guard On(GuardId guard, std::uint32_t limit, bool only_before_start = false) const;

  /// Submits and expects kOk.
  LaunchId Submit(const Launch& launch, Place place = {});
  LaunchId Transfer(Copy copy);
  /// Submits. Only kOk uses `id` up.
  SubmitResult TrySubmit(const Launch& launch, LaunchId& id);
  void Raise(GuardId guard, std::uint32_t value);
  /// The same; then running blocks see the value at their next check, where the device can tell.
  void RaiseAndAwait(GuardId guard, std::uint32_t value);

  bool Await(const std::function<bool()>& condition) {
    return conformance::Await(device_, condition);
  }
  /// Lets at least `time` of the device's clock pass. A device of threads works on meanwhile.
  void Pass(Nanoseconds time);
  bool virtual_time() const { return device_.info().virtual_time; }

  /// Polls until `done` holds. If it takes too long, fails the test and returns false.
  bool PollUntil(const std::function<bool()>& done);
  void AwaitRetired(LaunchId id);
  void AwaitAllRetired();
  void Poll();

  bool Placed(LaunchId id) const { return launches_.at(id).placed.has_value(); }
  bool Complete(LaunchId id) const { return launches_.at(id).complete.has_value(); }
  bool Retired(LaunchId id) const { return launches_.at(id).retired; }
  TimePoint PlacedAt(LaunchId id) const { return launches_.at(id).placed.value(); }
  TimePoint CompleteAt(LaunchId id) const { return launches_.at(id).complete.value(); }
  /// DeviceEvent::placed and done of each kProgress.
  using Counts = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  const Counts& ProgressOf(LaunchId id) const { return launches_.at(id).progress; }
  /// DeviceEvent::stolen.
  Nanoseconds StolenOf(LaunchId id) const { return launches_.at(id).stolen; }
  std::size_t live() const { return live_; }

  Device& device() { return device_; }

 private:
  struct Seen {
    std::optional<TimePoint> placed, complete;
    bool retired = false;
    Nanoseconds stolen{0};
    Counts progress;
  };
  void Take(const DeviceEvent& event);

  Device& device_;
  std::uint64_t next_id_ = 1;
  std::map<LaunchId, Seen> launches_;
  std::size_t live_ = 0;
};

class DeviceConformance : public ::testing::TestWithParam<DeviceUnderTest> {
 protected:
  std::unique_ptr<Device> Create(const Needs& needs = {});
  /// Whether the launch has retired, or does so if the device need not be prompt.
  bool RetiredAtOnce(Session& session, LaunchId launch);
};

// Bodies of the suite. All args are borrowed until the launch has retired.

/// Counts its runs and the largest number of units in it at once.
struct CountArgs {
  mutable std::atomic<int> runs{0};
  mutable std::atomic<int> inside{0};
  mutable std::atomic<int> most_inside{0};
  Nanoseconds work{0};
};
bool CountBody(const void* args, std::uint32_t block, BlockContext& ctx);

/// Arguments of GateBody, which waits until `open`. It ignores guards, as if it were in its commit.
struct GateArgs {
  mutable std::atomic<int> waiting{0};
  std::atomic<bool> open{false};
};

/// Writes `name` into a list when it runs.
struct LogArgs {
  std::atomic<int>* next = nullptr;  // place in the list
  int* list = nullptr;
  int name = 0;
};
bool LogBody(const void* args, std::uint32_t block, BlockContext& ctx);

/// One step of a chain in which each result depends on every tile of the step before: y[tile] is
/// mixed from all of x and tile. In place: y[tile] = Mix(y[tile], ...), written in the commit only.
/// Checks its guards `checks` times on its way.
struct MixArgs {
  const std::uint64_t* x = nullptr;  // null: no input
  std::uint32_t x_count = 0;
  std::uint64_t* y = nullptr;
  bool in_place = false;
  int checks = 0;
  std::atomic<int>* check_count = nullptr;  // counts all checks; may be null
  int stop_at = 0;                          // this check waits until `resume`
  std::atomic<bool>* stopped = nullptr;
  std::atomic<bool>* resume = nullptr;
  std::atomic<int>* left = nullptr;  // counts tiles that left
  Nanoseconds work{0};
};
bool MixBody(const void* args, std::uint32_t block, BlockContext& ctx);
/// What MixBody writes when it commits.
void WriteMix(const MixArgs& mix, std::uint32_t block);
std::uint64_t Mix(std::uint64_t a, std::uint64_t b);

/// Spins for at least `work`; the clock is read between pauses.
void Spin(Nanoseconds work);

/// How long a test waits before it fails: a minute, or $LAGOON_TEST_PATIENCE_SECONDS.
std::chrono::seconds Patience();

}  // namespace lagoon::conformance

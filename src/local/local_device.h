#pragma once

// A device with its dispatcher inside a program of a user: what a server has, without a server.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "program/open_device.h"
#include "sched/dispatcher.h"

namespace lagoon {

class WeightStores;  // program/compile.h

struct LocalDeviceOptions {
  static constexpr int kMostNice = 39;  // from one end of the system's range to the other

  DeviceChoice device;              // "cpu" with one worker per core
  std::string scheduler = "reset";  // as MakeScheduler() reads it
  /// Cores that the device's threads run on, and how many workers there are if `device` does not
  /// say: one per core. Empty: those of the thread that opens the device.
  std::vector<int> cores;
  /// Added to the nice value of the thread that opens the device; -kMostNice to kMostNice.
  int worker_nice = 0;
  int worker_fifo = 0;  // above 0: the priority of SCHED_FIFO that workers run with
  /// How long a thread that waits for a run asks again and again before it sleeps.
  Nanoseconds spin = std::chrono::microseconds(20);
  std::size_t trace_events = 0;  // kept of blocks and of the scheduler, each; 0: no trace
  /// SchedulerConfig::best_effort_minimum, as a server has it.
  double best_effort_minimum = 0.01;
  std::string version;  // of the program, for traces
};

struct LocalDeviceStatistics {
  DispatcherStats dispatcher;
  std::uint64_t runs = 0;       // that have ended, of all models
  std::uint64_t in_flight = 0;  // runs under way
  std::uint32_t workers = 0;
  std::string scheduler;
};

/// Opened once and used by any thread. Outlives its models. In a child that a process with a device
/// has forked, there are no workers: usable() is false there, and the calls of models and runs
/// return kUnavailable. All threads of the device block all signals.
class LocalDevice {
 public:
  /// kInvalidArgument, kNotFound: a device or scheduler of that name does not exist; the message
  /// lists those that do. kUnavailable: the system refuses the priority or the cores. Other errors
  /// are those of OpenDevice().
  static Result<std::unique_ptr<LocalDevice>> Open(const LocalDeviceOptions& options);
  /// Cancels what still runs, and waits. Models must be gone. In a forked child: frees nothing.
  ~LocalDevice();
  LocalDevice(const LocalDevice&) = delete;
  LocalDevice& operator=(const LocalDevice&) = delete;

  Device& device() const;
  Dispatcher& dispatcher() const;
  const KernelMaker* kernels() const;
  WeightStores& weights() const;
  const LocalDeviceOptions& options() const { return options_; }

  /// Any thread but those that call Run::Done. Waits until the runs that were started before have
  /// ended under the old scheduler. kInvalidArgument, kNotFound: MakeScheduler(); kUnavailable:
  /// another switch is under way.
  Status SwitchScheduler(std::string_view scheduler);
  std::string scheduler() const;  // its name

  LocalDeviceStatistics Statistics() const;
  /// As SwitchScheduler(). Writes the trace for https://ui.perfetto.dev. Waits for the runs under
  /// way; runs that start meanwhile wait until the file is written. kInvalidArgument: the file
  /// cannot be written, or the device was opened without a trace.
  Status WriteTrace(const std::string& path);

  /// False in a forked child.
  bool usable() const;
  static Error ForkedError();

  // ---- For models and runs

  void CountStart() { in_flight_.fetch_add(1, std::memory_order_relaxed); }
  void CountEnd() {
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
    runs_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Calls `work` on a thread of normal priority that may compile and block. Any thread.
  void Later(std::function<void()> work);
  /// Units for a model's share, rounded up: those that the fewest other shares have. Any thread.
  /// kInvalidArgument: not above 0 and at most 1, or the device has no shares.
  Result<UnitRange> TakeUnits(double share);
  void GiveUnits(UnitRange units);

 private:
  struct Parts;
  class Tap;
  class LaterThread;

  LocalDevice(LocalDeviceOptions options, std::unique_ptr<Parts> parts);
  Status Switch(std::string_view scheduler);

  const LocalDeviceOptions options_;
  const std::uint32_t generation_;  // of processes: how often they were forked since the first one
  std::unique_ptr<Parts> parts_;    // not freed in a forked child
  std::atomic<std::uint64_t> runs_{0}, in_flight_{0};
  Mutex switch_mutex_;  // one switch at a time, traces included
  Mutex shares_mutex_;
  std::vector<std::uint32_t> shares_of_ GUARDED_BY(shares_mutex_);  // by unit
};

}  // namespace lagoon

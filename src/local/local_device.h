#pragma once

// A device with its dispatcher inside a program of a user: what a server has, without a server.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "program/open_device.h"
#include "sched/dispatcher.h"
#include "trace/recorder.h"

namespace lagoon {

struct LocalDeviceOptions {
  DeviceChoice device;              // "cpu" with one worker per core
  std::string scheduler = "reset";  // as MakeScheduler() reads it
  /// How long a thread that waits for a run asks again and again before it sleeps.
  Nanoseconds spin = std::chrono::microseconds(20);
  std::size_t trace_events = 0;  // kept of blocks and of the scheduler, each; 0: no trace
};

struct LocalDeviceStatistics {
  DispatcherStats dispatcher;
  std::uint64_t runs = 0;       // that have ended, of all models
  std::uint64_t in_flight = 0;  // runs under way
};

/// Opened once and used by any thread. Outlives its models. In a child that a process with a device
/// has forked, there are no workers: usable() is false there, and the calls of models and runs
/// return kUnavailable.
class LocalDevice {
 public:
  /// kInvalidArgument, kNotFound: a device or scheduler of that name does not exist; the message
  /// lists those that do. Other errors are those of OpenDevice().
  static Result<std::unique_ptr<LocalDevice>> Open(const LocalDeviceOptions& options);
  /// Cancels what still runs, and waits. Models must be gone. In a forked child: frees nothing.
  ~LocalDevice();
  LocalDevice(const LocalDevice&) = delete;
  LocalDevice& operator=(const LocalDevice&) = delete;

  Device& device() const { return *parts_->compute.device; }
  Dispatcher& dispatcher() const { return *parts_->dispatcher; }
  const KernelMaker* kernels() const { return parts_->compute.kernels.get(); }
  Nanoseconds spin() const { return options_.spin; }

  /// Any thread. Waits until the runs that were started before have ended under the old scheduler.
  /// kInvalidArgument, kNotFound: MakeScheduler(); kUnavailable: another switch is under way.
  Status SwitchScheduler(std::string_view scheduler);
  std::string scheduler() const;  // its name

  LocalDeviceStatistics Statistics() const;
  /// Any thread. Writes the trace for Perfetto. Runs that start meanwhile wait; waits for those
  /// under way. kInvalidArgument: the device was opened without a trace.
  Status WriteTrace(const std::string& path);

  /// False in a forked child.
  bool usable() const;
  static Error ForkedError();

  // ---- For runs and models

  /// Around each job of a run: waits while a trace is written.
  void Enter();
  void Leave();
  void CountRun() { runs_.fetch_add(1, std::memory_order_relaxed); }
  /// Calls `work` on a thread that may compile and block. Any thread. False: the device closes, and
  /// `work` is not called.
  bool Later(std::function<void()> work);

 private:
  struct Parts {
    std::unique_ptr<TraceRecorder> trace;  // outlives the device and the dispatcher
    ComputeDevice compute;
    std::unique_ptr<Dispatcher> dispatcher;
  };

  LocalDevice(LocalDeviceOptions options, std::unique_ptr<Parts> parts);
  void WorkLater();

  const LocalDeviceOptions options_;
  std::unique_ptr<Parts> parts_;
  std::atomic<std::uint64_t> runs_{0};
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<std::uint32_t> closed_{0};  // traces that are written now
  Mutex trace_mutex_;
  Mutex later_mutex_;
  CondVar later_news_;
  std::deque<std::function<void()>> later_ GUARDED_BY(later_mutex_);
  bool closing_ GUARDED_BY(later_mutex_) = false;
  std::jthread later_thread_;  // last member; started by the first Later()
};

}  // namespace lagoon

#include "local/local_device.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "policies/registry.h"
#include "program/compile.h"
#include "trace/file.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

/// How often this process was forked, counted from the first one: a child has one more than its
/// parent had.
std::atomic<std::uint32_t> forks{0};

void CountForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  });
}

/// Gives the calling thread what the threads that it starts inherit.
Status BecomeOpener(const LocalDeviceOptions& options) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  if (!options.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : options.cores) {
      if (core < 0 || core >= CPU_SETSIZE) {
        return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no core {}", core));
      }
      CPU_SET(core, &set);
    }
    // The system leaves out those that the process may not use; all: an error.
    cpu_set_t got = {};
    if (::sched_setaffinity(0, sizeof(set), &set) != 0 ||
        ::sched_getaffinity(0, sizeof(got), &got) != 0) {
      CPU_ZERO(&got);
    }
    for (const int core : options.cores) {
      if (CPU_ISSET(core, &got)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("cores [{}]: this process may not use core {}",
                              fmt::join(options.cores, ", "), core));
    }
  }
  if (options.worker_nice != 0) {
    // For this thread only: in Linux each thread has a nice value.
    const int nice = ::getpriority(PRIO_PROCESS, 0) + options.worker_nice;
    if (::setpriority(PRIO_PROCESS, 0, nice) != 0) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("the system refuses the nice value {} for workers: {} (it needs "
                              "CAP_SYS_NICE or RLIMIT_NICE)",
                              nice, std::generic_category().message(errno)));
    }
  }
  if (options.worker_fifo == 0) return {};
  sched_param priority{};
  priority.sched_priority = options.worker_fifo;
  if (::sched_setscheduler(0, SCHED_FIFO, &priority) == 0) return {};
  return Fail(
      errno == EINVAL ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
      fmt::format("the system refuses SCHED_FIFO with priority {} for workers: {} (it is "
                  "from {} to {} and needs CAP_SYS_NICE or RLIMIT_RTPRIO)",
                  options.worker_fifo, std::generic_category().message(errno),
                  ::sched_get_priority_min(SCHED_FIFO), ::sched_get_priority_max(SCHED_FIFO)));
}

Status CheckOptions(const LocalDeviceOptions& options) {
  std::vector<int> sorted = options.cores;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("cores [{}]: core {} is named twice",
                                                         fmt::join(options.cores, ", "), *twice));
  }
  constexpr std::size_t kMostEvents = std::size_t{1} << 27;
  if (options.trace_events > kMostEvents) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a trace of {} events: at most {} are kept", options.trace_events,
                            kMostEvents));
  }
  constexpr int kMostNice = LocalDeviceOptions::kMostNice;
  if (options.worker_nice < -kMostNice || options.worker_nice > kMostNice) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("worker_nice is {}: it is from -{} to {}, added to the program's",
                            options.worker_nice, kMostNice, kMostNice));
  }
  if (options.spin < Nanoseconds(0) || options.spin > std::chrono::seconds(1)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("spinning for {:.0f} us: it is from 0 to 1000000",
                            ToMicroseconds(options.spin)));
  }
  return {};
}

}  // namespace

/// Forwards to the recorder. Writes a trace when the scheduler is switched: then nothing runs, and
/// the dispatcher's lock keeps all others from the recorder.
class LocalDevice::Tap final : public SchedObserver {
 public:
  explicit Tap(TraceRecorder& recorder) : recorder_(recorder) {}

  /// Before the switch, by the only thread that switches.
  void WriteAtSwitch(TraceFile& file, const std::string& version) {
    file_ = &file;
    version_ = version;
  }
  /// After the switch. Nothing: nothing was written.
  std::optional<Status> TakeWritten() {
    file_ = nullptr;
    return std::exchange(written_, std::nullopt);
  }

  void OnStart(const SchedulerConfig& config, TimePoint at) override {
    recorder_.OnStart(config, at);
  }
  void OnSwitch(const SchedulerConfig& config, TimePoint at) override {
    if (file_ != nullptr) {
      written_ = WithoutExceptions([&] { return file_->Write(recorder_, version_); });
    }
    recorder_.OnSwitch(config, at);
  }
  void OnQueue(QueueId queue, const QueueOptions& options) override {
    recorder_.OnQueue(queue, options);
  }
  void OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) override {
    recorder_.OnPlan(queue, number, plan);
  }
  void OnEvent(const SchedEvent& event) override { recorder_.OnEvent(event); }

 private:
  TraceRecorder& recorder_;
  // Set before Dispatcher::Switch() and read after its `done`, and under the dispatcher's lock.
  TraceFile* file_ = nullptr;
  std::string version_;
  std::optional<Status> written_;
};

/// Started by the first work.
class LocalDevice::LaterThread {
 public:
  void Add(std::function<void()> work) {
    const MutexLock lock(mutex_);
    work_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::jthread([this] { Work(); });
    news_.NotifyOne();
  }
  /// Does what was added, and ends.
  ~LaterThread() {
    {
      const MutexLock lock(mutex_);
      ending_ = true;
      news_.NotifyOne();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Work() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    NameThisThread("lagoon-parts");
    while (true) {
      std::function<void()> work;
      {
        const MutexLock lock(mutex_);
        while (!ending_ && work_.empty()) news_.Wait(mutex_);
        if (work_.empty()) return;
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
  }

  Mutex mutex_;
  CondVar news_;
  std::deque<std::function<void()>> work_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

/// In order of construction: each outlives the next one.
struct LocalDevice::Parts {
  std::unique_ptr<TraceRecorder> recorder;  // null: no trace
  std::unique_ptr<Tap> tap;
  ComputeDevice compute;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<WeightStores> weights;
  LaterThread later;
};

Result<std::unique_ptr<LocalDevice>> LocalDevice::Open(const LocalDeviceOptions& options) {
  CountForks();
  LAGOON_RETURN_IF_ERROR(CheckOptions(options));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(options.scheduler));
  scheduler.config.best_effort_minimum = options.best_effort_minimum;
  auto parts = std::make_unique<Parts>();
  if (options.trace_events > 0) {
    parts->recorder =
        std::make_unique<TraceRecorder>(TraceOptions{options.trace_events, options.trace_events});
    parts->tap = std::make_unique<Tap>(*parts->recorder);
  }
  const auto open = [&]() -> Status {
    LAGOON_RETURN_IF_ERROR(BecomeOpener(options));
    LAGOON_ASSIGN_OR_RETURN(parts->compute, OpenDevice(options.device));
    if (parts->recorder != nullptr) parts->recorder->Attach(*parts->compute.device);
    parts->dispatcher = std::make_unique<Dispatcher>(*parts->compute.device, scheduler.config,
                                                     std::move(scheduler.policy), parts->tap.get());
    parts->weights = std::make_unique<WeightStores>(*parts->compute.device);
    return {};
  };
  // On a thread of its own, from which the device's threads inherit cores, priority and signals.
  Status opened = Fail(ErrorCode::kInternal, "");
  std::jthread([&] { opened = WithoutExceptions(open); }).join();
  if (!opened) return tl::unexpected<Error>(std::move(opened).error());
  return std::unique_ptr<LocalDevice>(new LocalDevice(options, std::move(parts)));
}

LocalDevice::LocalDevice(LocalDeviceOptions options, std::unique_ptr<Parts> parts)
    : options_(std::move(options)),
      generation_(forks.load(std::memory_order_relaxed)),
      parts_(std::move(parts)),
      shares_of_(device().info().units) {}

LocalDevice::~LocalDevice() {
  // The threads of the parent are not there: what waits for them would wait for ever.
  if (!usable()) (void)parts_.release();
}

Device& LocalDevice::device() const { return *parts_->compute.device; }
Dispatcher& LocalDevice::dispatcher() const { return *parts_->dispatcher; }
const KernelMaker* LocalDevice::kernels() const { return parts_->compute.kernels.get(); }
WeightStores& LocalDevice::weights() const { return *parts_->weights; }

bool LocalDevice::usable() const { return generation_ == forks.load(std::memory_order_relaxed); }

Error LocalDevice::ForkedError() {
  return {ErrorCode::kUnavailable,
          "this process was forked after the device was opened, so that the device has no threads "
          "here: open a device in the child, or start the child with exec"};
}

Status LocalDevice::Switch(std::string_view name) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
  scheduler.config.best_effort_minimum = options_.best_effort_minimum;
  struct Waited {
    Mutex mutex;
    CondVar changed;
    std::optional<Status> result GUARDED_BY(mutex);
  } waited;
  dispatcher().Switch(scheduler.config, std::move(scheduler.policy), [&waited](Status done) {
    const MutexLock lock(waited.mutex);
    waited.result = std::move(done);
    waited.changed.NotifyAll();  // under the lock: `waited` ends as soon as its result is seen
  });
  const MutexLock lock(waited.mutex);
  while (!waited.result) waited.changed.Wait(waited.mutex);
  return *std::move(waited.result);
}

Status LocalDevice::SwitchScheduler(std::string_view scheduler) {
  if (!usable()) return tl::unexpected<Error>(ForkedError());
  const MutexLock lock(switch_mutex_);
  return Switch(scheduler);
}

std::string LocalDevice::scheduler() const { return std::string(dispatcher().config().name); }

LocalDeviceStatistics LocalDevice::Statistics() const {
  LocalDeviceStatistics statistics;
  if (!usable()) return statistics;
  statistics.dispatcher = dispatcher().Stats();
  statistics.runs = runs_.load(std::memory_order_relaxed);
  statistics.in_flight = in_flight_.load(std::memory_order_relaxed);
  statistics.workers = device().info().units;
  statistics.scheduler = scheduler();
  return statistics;
}

Status LocalDevice::WriteTrace(const std::string& path) {
  if (!usable()) return tl::unexpected<Error>(ForkedError());
  if (parts_->tap == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "the device was opened without a trace: set trace_events to how many to keep");
  }
  LAGOON_ASSIGN_OR_RETURN(TraceFile file, TraceFile::Create(path));
  const MutexLock lock(switch_mutex_);
  parts_->tap->WriteAtSwitch(file, options_.version);
  const Status switched = Switch(ChoiceOf(dispatcher().config()).Text());
  const std::optional<Status> written = parts_->tap->TakeWritten();
  LAGOON_RETURN_IF_ERROR(switched);
  if (!written) return Fail(ErrorCode::kInternal, "the trace was not written");
  return *written;
}

void LocalDevice::Later(std::function<void()> work) { parts_->later.Add(std::move(work)); }

Result<UnitRange> LocalDevice::TakeUnits(double share) {
  const DeviceInfo& info = device().info();
  if (info.share_granule == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("device '{}' has no shares of units: use a weight, with the scheduler "
                            "'weighted'",
                            info.name));
  }
  if (!(share > 0 && share <= 1)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a share of {}: it is above 0 and at most 1", share));
  }
  const std::uint32_t granule = info.share_granule;
  const double wanted = std::ceil(share * info.units / granule - 1e-9) * granule;
  const std::uint32_t count = std::clamp(static_cast<std::uint32_t>(wanted), 1u, info.units);
  const MutexLock lock(shares_mutex_);
  const auto taken = [&](std::uint32_t first) REQUIRES(shares_mutex_) {
    std::uint64_t sum = 0;
    for (std::uint32_t unit = first; unit < first + count; ++unit) sum += shares_of_[unit];
    return sum;
  };
  std::uint32_t best = 0;
  for (std::uint32_t first = 0; first + count <= info.units; first += granule) {
    if (taken(first) < taken(best)) best = first;
  }
  for (std::uint32_t unit = best; unit < best + count; ++unit) ++shares_of_[unit];
  return UnitRange{best, count};
}

void LocalDevice::GiveUnits(UnitRange units) {
  const MutexLock lock(shares_mutex_);
  for (std::uint32_t unit = units.first; unit < units.first + units.count; ++unit) {
    --shares_of_[unit];
  }
}

}  // namespace lagoon

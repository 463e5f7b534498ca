#include "ort/host.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "local/host_log.h"

namespace lagoon::plugin {
namespace {

struct Host {
  Mutex mutex;
  LocalDevice* device GUARDED_BY(mutex) = nullptr;
  ProcessSettings settings GUARDED_BY(mutex);
};

// Never destroyed: sessions may run while static objects are destroyed.
Host& TheHost() {
  static Host& host = *new Host;
  return host;
}

std::atomic<LocalDevice*> open_device{nullptr};
std::atomic<std::thread::id> ending_thread{};  // that of no thread: the process does not end
std::atomic<std::int32_t> inside{0};

// At the end of the process static objects go. Runs must not be in the midst of using them.
void End() {
  ending_thread.store(std::this_thread::get_id());
  const TimePoint until = Now() + std::chrono::seconds(1);
  if (InForkedChild()) return;
  while (inside.load() > 0 && Now() < until) std::this_thread::yield();
}

// The program's own output stays its own: messages of the core go nowhere, unless
// LAGOON_ORT_LOG=info (debug, warning, error) sends them to stderr.
void SetUpHostLog() {
  LogToHostOnly();
  const char* wanted = std::getenv("LAGOON_ORT_LOG");  // NOLINT(concurrency-mt-unsafe): only read
  if (wanted == nullptr) return;
  constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};
  static std::size_t least = 0;
  while (least + 1 < kLevels.size() && kLevels[least] != wanted) ++least;
  new HostLog(  // for as long as the process lives
      [](void* from, int level, const char* message) {
        if (level >= static_cast<int>(*static_cast<std::size_t*>(from))) {
          std::fprintf(stderr, "lagoon: %s\n", message);
        }
      },
      &least);
}

bool InHandlerOfExit() { return ending_thread.load() == std::this_thread::get_id(); }

tl::unexpected<Error> Forked() {
  return Fail(ErrorCode::kUnavailable,
              "this process was forked after Lagoon's first session was made, so that it has no "
              "threads for Lagoon: start children anew, with multiprocessing's 'spawn' or exec");
}

}  // namespace

Result<LocalDevice*> OpenDeviceOfProcess(const ProcessSettings& wanted) {
  // In a forked child, the mutex may stay locked for ever.
  if (InForkedChild()) return Forked();
  Host& host = TheHost();
  const MutexLock lock(host.mutex);
  if (host.device != nullptr) {
    LAGOON_RETURN_IF_ERROR(CheckAgree(host.settings, wanted));
    return host.device;
  }
  const auto read = [](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  };
  LAGOON_ASSIGN_OR_RETURN(const ProcessSettings environment, ReadEnvironment(read));
  const LocalDeviceOptions defaults;
  ProcessSettings settings = Either(wanted, environment);
  settings = Either(
      settings, {.workers = defaults.device.workers,
                 .cores = defaults.cores,
                 .worker_nice = defaults.worker_nice,
                 .worker_fifo = defaults.worker_fifo,
                 .scheduler = defaults.scheduler,
                 .spin_us = static_cast<std::uint32_t>(
                     std::chrono::duration_cast<std::chrono::microseconds>(defaults.spin).count()),
                 .trace_events = static_cast<std::uint32_t>(defaults.trace_events)});
  LocalDeviceOptions options;
  options.device.workers = *settings.workers;
  options.cores = *settings.cores;
  options.worker_nice = *settings.worker_nice;
  options.worker_fifo = *settings.worker_fifo;
  options.scheduler = *settings.scheduler;
  options.spin = std::chrono::microseconds(*settings.spin_us);
  options.trace_events = *settings.trace_events;
  SetUpHostLog();
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<LocalDevice> device, LocalDevice::Open(options));
  host.device = device.release();
  host.settings = std::move(settings);
  open_device.store(host.device);
  EndBeforeNewStatics();
  return host.device;
}

void EndBeforeNewStatics() {
  static std::atomic<int> times{0};
  if (times.fetch_add(1, std::memory_order_relaxed) < 32) std::atexit(End);
}

LocalDevice* DeviceOfProcess() { return open_device.load(); }

bool InForkedChild() {
  const LocalDevice* device = open_device.load();
  return device != nullptr && !device->usable();
}

// A thread that came back would go on in ONNX Runtime, whose static objects are being destroyed.
// Only the thread that calls exit() goes on: it destroys them afterwards.
InsideRun::InsideRun() {
  inside.fetch_add(1);
  if (ending_thread.load() == std::thread::id() || InHandlerOfExit()) return;
  inside.fetch_sub(1);
  for (;;) pause();
}
InsideRun::~InsideRun() { inside.fetch_sub(1); }

Status InsideRun::Check() const {
  if (InForkedChild()) return Forked();
  if (!InHandlerOfExit()) return {};
  return Fail(ErrorCode::kUnavailable,
              "the process is ending: a handler of exit() cannot run a session");
}

}  // namespace lagoon::plugin

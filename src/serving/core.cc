#include "serving/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/lender.h"
#include "base/log.h"
#include "base/mutex.h"
#include "policies/registry.h"
#include "serving/device_core.h"

namespace lagoon {
namespace {

/// The core across losses of its device. A "life" is the time from opening the device to its loss.
/// After a loss the device is opened again and the models are loaded again; meanwhile every request
/// is answered kUnavailable.
class Core final : public InferenceCore {
 public:
  static Result<std::unique_ptr<Core>> Open(const CoreOptions& options) {
    std::unique_ptr<Core> core(new Core(options));
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCore> life, core->OpenLife(/*again=*/false));
    core->Begin(std::move(life));
    core->keeper_ =
        std::jthread([raw = core.get()](const std::stop_token& stop) { raw->Keep(stop); });
    return core;
  }

  bool Ready() const override {
    const Life life = life_.Borrow();
    return life && life->Ready();
  }
  std::vector<ModelStatus> Models() const override;
  DispatcherStats SchedulerStatistics() const override {
    const Life life = life_.Borrow();
    return life ? life->SchedulerStatistics() : DispatcherStats();
  }
  SchedulerConfig scheduler() const override {
    const Life life = life_.Borrow();
    if (life) return life->scheduler();
    const MutexLock lock(mutex_);
    return last_.scheduler;
  }
  void SwitchScheduler(const std::string& name, std::function<void(Status)> done) override {
    const Life life = life_.Borrow();
    if (!life) return done(tl::unexpected<Error>(Away()));
    life->SwitchScheduler(name, std::move(done));
  }
  DeviceInfo device() const override {
    const MutexLock lock(mutex_);
    return last_.device;
  }

  Status ModelReady(const std::string& model, const std::string& version) const override {
    return Ask<Status>([&](DeviceCore& life) { return life.ModelReady(model, version); });
  }
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override {
    return Ask<Result<ModelMetadata>>(
        [&](DeviceCore& life) { return life.Metadata(model, version); });
  }
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override {
    return Ask<Result<inference::ModelConfig>>(
        [&](DeviceCore& life) { return life.Config(model, version); });
  }
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override {
    return Ask<Result<std::vector<ModelStatistics>>>(
        [&](DeviceCore& life) { return life.Statistics(model, version); });
  }
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

 private:
  explicit Core(const CoreOptions& options) : options_(options) {}

  /// Empty while there is no device. The keeper waits for the ends of all leases before it destroys
  /// the lost device and opens it again. A call holds its lease until the call returns, no longer.
  using Life = Lender<DeviceCore>::Lease;
  template <typename Answer, typename Question>
  Answer Ask(const Question& question) const {
    const Life life = life_.Borrow();
    if (!life) return tl::unexpected<Error>(Away());
    return question(*life);
  }
  Error Away() const;

  Result<std::unique_ptr<DeviceCore>> OpenLife(bool again);
  void Begin(std::unique_ptr<DeviceCore> life);
  void Keep(const std::stop_token& stop);
  bool AwaitLoss(const std::stop_token& stop);
  bool Pause(Nanoseconds pause, const std::stop_token& stop);
  void End();

  // The handle of a request is the id of its job. Ids start anew with every life, so these bits of
  // the handle hold the number of the life, modulo 128. The bit above marks ids of a ProgramHost.
  static constexpr int kLifeShift = 56;
  static constexpr std::uint64_t kLifeMask = std::uint64_t{0x7f} << kLifeShift;

  /// The state of the former life, for the time until the next one begins.
  struct Last {
    DeviceInfo device;
    SchedulerConfig scheduler;
    std::vector<ModelStatus> models;
    std::string problem;  // why the device does not open again
  };

  const CoreOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  Last last_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;
  bool draining_ GUARDED_BY(mutex_) = false;
  mutable Lender<DeviceCore> life_;  // its callbacks use the members above
  std::jthread keeper_;              // last member: stops before what it uses is destroyed
};

std::vector<ModelStatus> Core::Models() const {
  if (const Life life = life_.Borrow()) return life->Models();
  std::vector<ModelStatus> models;
  std::string problem;
  {
    const MutexLock lock(mutex_);
    models = last_.models;
    problem = last_.problem;
  }
  problem = problem.empty() ? Away().message : "the device does not open again: " + problem;
  for (ModelStatus& model : models) {
    if (model.state != ModelState::kReady) continue;
    model.state = ModelState::kUnavailable;
    model.reason = problem;
  }
  return models;
}

// For remote clients, so without last_.problem, which may name paths of the server. The log has it.
Error Core::Away() const {
  const MutexLock lock(mutex_);
  return {
      ErrorCode::kUnavailable,
      fmt::format("device '{}' was lost{}", last_.device.name,
                  last_.problem.empty() ? "; its models are being loaded again"
                                        : " and does not open again; the server's log says why")};
}

RequestHandle Core::Infer(InferRequest request, InferCallback callback) {
  const Life life = life_.Borrow();
  if (!life) {
    request.payload.reset();
    callback(tl::unexpected<Error>(Away()));
    return RequestHandle{};
  }
  const RequestHandle handle = life->Infer(std::move(request), std::move(callback));
  if (handle == RequestHandle{}) return handle;
  return RequestHandle{static_cast<std::uint64_t>(handle) |
                       (life.number() << kLifeShift & kLifeMask)};
}

void Core::Cancel(RequestHandle handle) {
  const auto raw = static_cast<std::uint64_t>(handle);
  const Life life = life_.Borrow();
  // All requests of another life have been answered.
  if (!life || (raw & kLifeMask) != (life.number() << kLifeShift & kLifeMask)) return;
  life->Cancel(RequestHandle{raw & ~kLifeMask});
}

void Core::Drain(TimePoint until) {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
  }
  // A life that begins after this line sees draining_ in Begin().
  if (const Life life = life_.Borrow()) life->Drain(until);
}

Result<std::unique_ptr<DeviceCore>> Core::OpenLife(bool again) {
  CoreOptions options = options_;
  if (again) {
    const MutexLock lock(mutex_);
    options.scheduler = last_.scheduler.name;
    options.trace = nullptr;  // a trace covers one life only
  }
  return DeviceCore::Open(options, [this] {
    const MutexLock lock(mutex_);
    lost_ = true;
    changed_.NotifyAll();
  });
}

void Core::Begin(std::unique_ptr<DeviceCore> life) {
  {
    const MutexLock lock(mutex_);
    last_.device = life->device();
    last_.problem.clear();
  }
  life_.Lend(std::move(life));
  bool draining = false;
  {
    const MutexLock lock(mutex_);
    draining = draining_;
  }
  if (draining) life_.Borrow()->Drain(Now());
}

/// Runs on the keeper's thread. Opens the device again whenever it is lost, after a pause that
/// grows while the device does not last.
void Core::Keep(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  Nanoseconds pause = options_.reopen.first;
  for (TimePoint began = Now(); AwaitLoss(stop); began = Now()) {
    if (Now() - began > options_.reopen.longest) pause = options_.reopen.first;
    End();
    for (bool opened = false; !opened;) {
      if (!Pause(pause, stop)) return;
      pause = std::min(2 * pause, options_.reopen.longest);
      Result<std::unique_ptr<DeviceCore>> life = OpenLife(/*again=*/true);
      opened = life.has_value();
      if (opened) {
        Begin(*std::move(life));
        spdlog::info("device '{}' is there again", device().name);
        continue;
      }
      spdlog::error("device '{}' does not open again: {}", device().name, life.error().message);
      const MutexLock lock(mutex_);
      last_.problem = life.error().message;
    }
  }
}

bool Core::AwaitLoss(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  while (!lost_ && !stop.stop_requested()) changed_.Wait(mutex_);
  lost_ = false;
  return !stop.stop_requested();
}

bool Core::Pause(Nanoseconds pause, const std::stop_token& stop) {
  const TimePoint until = Now() + pause;
  const MutexLock lock(mutex_);
  while (Now() < until && !stop.stop_requested()) changed_.WaitUntil(mutex_, until);
  return !stop.stop_requested();
}

/// Waits until the last call that uses the lost device has returned, then destroys the device and
/// everything on it.
void Core::End() {
  Last last;
  {
    const Life life = life_.Borrow();
    last = {life->device(), life->scheduler(), life->Models(), /*problem=*/""};
  }
  {
    const MutexLock lock(mutex_);
    last_ = std::move(last);
  }
  life_.Withdraw()->AwaitLost(Away().message);
  life_.TakeBack();
}

}  // namespace

std::span<const std::string_view> InferenceCore::Schedulers() { return SchedulerNames(); }

Result<std::unique_ptr<InferenceCore>> InferenceCore::Open(const CoreOptions& options) {
  return Core::Open(options);
}

}  // namespace lagoon

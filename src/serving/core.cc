#include "serving/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "policies/registry.h"
#include "serving/device_core.h"

namespace lagoon {
namespace {

/// The core across the lives of its device: when one is lost, the device is opened anew and its
/// models are loaded again. Meanwhile every request is answered kUnavailable.
class Core final : public InferenceCore {
 public:
  static Result<std::unique_ptr<Core>> Open(const CoreOptions& options) {
    std::unique_ptr<Core> core(new Core(options));
    LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceCore> life, core->OpenLife());
    core->Begin(life);
    core->keeper_ =
        std::jthread([raw = core.get()](const std::stop_token& stop) { raw->Keep(stop); });
    return core;
  }

  bool Ready() const override {
    const std::shared_ptr<DeviceCore> life = Life();
    return life != nullptr && life->Ready();
  }
  std::vector<ModelStatus> Models() const override;
  DispatcherStats SchedulerStatistics() const override {
    const std::shared_ptr<DeviceCore> life = Life();
    return life == nullptr ? DispatcherStats() : life->SchedulerStatistics();
  }
  SchedulerConfig scheduler() const override {
    const std::shared_ptr<DeviceCore> life = Life();
    if (life != nullptr) return life->scheduler();
    const MutexLock lock(mutex_);
    return last_.scheduler;
  }
  void SwitchScheduler(const std::string& name, std::function<void(Status)> done) override {
    const std::shared_ptr<DeviceCore> life = Life();
    if (life == nullptr) return done(tl::unexpected<Error>(Away()));
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

  /// Null while the device is away. Whoever holds it keeps the old device from going, and with it
  /// the new one from coming: not for longer than a call.
  std::shared_ptr<DeviceCore> Life() const {
    const MutexLock lock(mutex_);
    return life_;
  }
  template <typename Answer, typename Question>
  Answer Ask(const Question& question) const {
    const std::shared_ptr<DeviceCore> life = Life();
    if (life == nullptr) return tl::unexpected<Error>(Away());
    return question(*life);
  }
  Error Away() const;

  Result<std::shared_ptr<DeviceCore>> OpenLife();
  void Begin(const std::shared_ptr<DeviceCore>& life);
  void Keep(const std::stop_token& stop);
  bool AwaitLoss(const std::stop_token& stop);
  bool Pause(Nanoseconds pause, const std::stop_token& stop);
  void End();

  // A request's handle is its job's id, which starts anew with every life: the life's number,
  // modulo 128, stands in these bits of it. Above them is JobHost's.
  static constexpr int kLifeShift = 56;
  static constexpr std::uint64_t kLifeMask = std::uint64_t{0x7f} << kLifeShift;

  /// What is known of the last life while there is none.
  struct Last {
    DeviceInfo device;
    SchedulerConfig scheduler;
    std::vector<ModelStatus> models;
    std::string problem;  // why the device does not open again
  };

  const CoreOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<DeviceCore> life_ GUARDED_BY(mutex_);
  std::uint64_t lives_ GUARDED_BY(mutex_) = 0;
  Last last_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;
  bool draining_ GUARDED_BY(mutex_) = false;
  std::jthread keeper_;  // last: stops before anything it uses is gone
};

std::vector<ModelStatus> Core::Models() const {
  const std::shared_ptr<DeviceCore> life = Life();
  if (life != nullptr) return life->Models();
  std::vector<ModelStatus> models;
  {
    const MutexLock lock(mutex_);
    models = last_.models;
  }
  for (ModelStatus& model : models) {
    if (model.state != ModelState::kReady) continue;
    model.state = ModelState::kUnavailable;
    model.reason = Away().message;
  }
  return models;
}

Error Core::Away() const {
  const MutexLock lock(mutex_);
  if (last_.problem.empty()) {
    return {
        ErrorCode::kUnavailable,
        fmt::format("device '{}' was lost; its models are being loaded again", last_.device.name)};
  }
  return {ErrorCode::kUnavailable, fmt::format("device '{}' was lost and does not open again: {}",
                                               last_.device.name, last_.problem)};
}

RequestHandle Core::Infer(InferRequest request, InferCallback callback) {
  std::shared_ptr<DeviceCore> life;
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    life = life_;
    number = lives_;
  }
  if (life == nullptr) {
    request.payload.reset();
    callback(tl::unexpected<Error>(Away()));
    return RequestHandle{};
  }
  const RequestHandle handle = life->Infer(std::move(request), std::move(callback));
  if (handle == RequestHandle{}) return handle;
  return RequestHandle{static_cast<std::uint64_t>(handle) | (number << kLifeShift & kLifeMask)};
}

void Core::Cancel(RequestHandle handle) {
  const auto raw = static_cast<std::uint64_t>(handle);
  std::shared_ptr<DeviceCore> life;
  {
    const MutexLock lock(mutex_);
    // Of another life: it has been answered.
    if ((raw & kLifeMask) != (lives_ << kLifeShift & kLifeMask)) return;
    life = life_;
  }
  if (life != nullptr) life->Cancel(RequestHandle{raw & ~kLifeMask});
}

void Core::Drain(TimePoint until) {
  std::shared_ptr<DeviceCore> life;
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    life = life_;
  }
  if (life != nullptr) life->Drain(until);
}

Result<std::shared_ptr<DeviceCore>> Core::OpenLife() {
  CoreOptions options = options_;
  {
    const MutexLock lock(mutex_);
    if (lives_ > 0) {
      options.scheduler = last_.scheduler.name;
      options.trace = nullptr;  // it shows one device from its beginning to its end
    }
  }
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCore> life, DeviceCore::Open(options, [this] {
                            const MutexLock lock(mutex_);
                            lost_ = true;
                            changed_.NotifyAll();
                          }));
  return std::shared_ptr<DeviceCore>(std::move(life));
}

void Core::Begin(const std::shared_ptr<DeviceCore>& life) {
  bool draining = false;
  {
    const MutexLock lock(mutex_);
    last_.device = life->device();
    last_.problem.clear();
    life_ = life;
    ++lives_;
    draining = draining_;
  }
  if (draining) life->Drain(Now());
}

/// The keeper's thread: opens the device again whenever it is lost, after a pause that grows while
/// the device does not last.
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
      const Result<std::shared_ptr<DeviceCore>> life = OpenLife();
      opened = life.has_value();
      if (opened) {
        Begin(*life);
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

/// Lets go of the device and all that was on it.
void Core::End() {
  std::shared_ptr<DeviceCore> life = Life();
  Last last{life->device(), life->scheduler(), life->Models(), ""};
  {
    const MutexLock lock(mutex_);
    last_ = std::move(last);
    life_.reset();
  }
  life->AwaitLost(Away().message);
  // Calls that are about to return. It must not be one of them that takes the device down.
  while (life.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

std::span<const std::string_view> InferenceCore::Schedulers() { return SchedulerNames(); }

Result<std::unique_ptr<InferenceCore>> InferenceCore::Open(const CoreOptions& options) {
  return Core::Open(options);
}

}  // namespace lagoon

#include "serving/open_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/lender.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "policies/registry.h"
#include "serving/core/repository_control.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"
#include "serving/device_core.h"
#include "serving/model/repository.h"

namespace lagoon {
namespace {

/// Serves the models across losses of the device. Each opening of the device has a DeviceCore of
/// its own, which lives until the device is lost. The keeper's thread then opens the device again,
/// which loads the models again; meanwhile every request is answered kUnavailable.
class Core final : public Inference,
                   private SchedulerControl,
                   private ShareControl,
                   private RepositoryControl {
 public:
  static Result<std::unique_ptr<Core>> Open(const CoreOptions& options) {
    std::unique_ptr<Core> core(new Core(options));
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCore> opened, core->OpenDevice(/*again=*/false));
    core->Use(std::move(opened));
    for (const std::string*& changing : core->changing_) {
      core->changers_.emplace_back([raw = core.get(), &changing](const std::stop_token& stop) {
        raw->MakeChanges(stop, changing);
      });
    }
    core->keeper_ =
        std::jthread([raw = core.get()](const std::stop_token& stop) { raw->Keep(stop); });
    return core;
  }

  bool Ready() const override { return Ask(&DeviceCore::Ready); }
  std::vector<ModelStatus> Models() const override;
  Status ModelReady(const std::string& model, const std::string& version) const override {
    return Ask(&DeviceCore::ModelReady, model, version);
  }
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override {
    return Ask(&DeviceCore::Metadata, model, version);
  }
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override {
    return Ask(&DeviceCore::Config, model, version);
  }
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override {
    return Ask(&DeviceCore::Statistics, model, version);
  }
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

  SchedulerControl* schedulers() override { return this; }
  ShareControl* shares() override { return this; }
  RepositoryControl* repository() override { return this; }

 private:
  // SchedulerControl
  DispatcherStats SchedulerStatistics() const override {
    return Ask(&DeviceCore::SchedulerStatistics);
  }
  std::vector<TenantStatistics> Tenants() const override { return Ask(&DeviceCore::TenantsSeen); }
  SchedulerConfig scheduler() const override;
  void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) override;
  DeviceInfo device() const override;

  // ShareControl
  Result<SharesReport> ReadShares() const override { return Ask(&DeviceCore::Shares); }
  Status SetSharesRules(const SharesRules& rules) override {
    return Ask(&DeviceCore::SetSharesRules, rules);
  }
  Status ResizeShare(const std::string& model, const std::string& version,
                     const ShareWanted& wanted) override {
    return Ask(&DeviceCore::ResizeShare, model, version, wanted);
  }

  // RepositoryControl
  void LoadModel(const std::string& model, LoadOverride with,
                 std::function<void(Status)> done) override {
    Order({.model = model, .load = true, .with = std::move(with), .done = std::move(done)});
  }
  void UnloadModel(const std::string& model, std::function<void(Status)> done) override {
    Order({.model = model, .load = false, .with = {}, .done = std::move(done)});
  }
  std::vector<std::string> Found() const override {
    std::vector<std::string> names;
    const auto models = ScanRepository(options_.repository);
    for (const RepositoryModel& model : models.value_or(std::vector<RepositoryModel>())) {
      names.push_back(model.name);
    }
    return names;
  }

  /// The right to call the present DeviceCore; false while there is none. The keeper waits for the
  /// ends of all leases before it destroys the DeviceCore. A call holds its lease until the call
  /// returns, no longer.
  using Lease = Lender<DeviceCore>::Lease;

  explicit Core(const CoreOptions& options) : options_(options) {}

  /// Calls a method of the present DeviceCore. While there is none: the error Away(), or the empty
  /// answer of a method that cannot fail.
  template <typename Answer, typename... Parameters, typename... Arguments>
  Answer Ask(Answer (DeviceCore::*method)(Parameters...) const,
             const Arguments&... arguments) const {
    if constexpr (std::is_constructible_v<Answer, tl::unexpected<Error>>) {
      return WithoutExceptions([&]() -> Answer {
        if (const Lease present = present_.Borrow()) return ((*present).*method)(arguments...);
        return tl::unexpected<Error>(Away());
      });
    } else {
      if (const Lease present = present_.Borrow()) return ((*present).*method)(arguments...);
      return Answer();
    }
  }
  Error Away() const {
    const MutexLock lock(mutex_);
    return AwayNow();
  }
  Error AwayNow() const REQUIRES(mutex_);

  Result<std::unique_ptr<DeviceCore>> OpenDevice(bool again);
  void Use(std::unique_ptr<DeviceCore> opened);
  void Keep(const std::stop_token& stop);
  bool AwaitLoss(const std::stop_token& stop);
  bool Pause(Nanoseconds pause, const std::stop_token& stop);
  bool Reopen(int tries, Nanoseconds pause);
  void NoteProblem(const std::string& why, int tries, Nanoseconds pause);
  void CloseDevice();

  /// A model to load or to unload.
  struct Change {
    std::string model;
    bool load = true;  // else unload
    LoadOverride with;
    std::function<void(Status)> done;
  };
  static constexpr std::size_t kMaxChanges = 1024;                        // that wait
  static constexpr std::size_t kMaxChangeBytes = std::size_t{512} << 20;  // of their `with`
  static constexpr int kChangers = 3;  // so that a load of minutes does not hold up others

  void Order(Change change);
  Status TakeOrder(Change& change);
  std::deque<Change>::iterator NextChange() REQUIRES(mutex_);
  void MakeChanges(const std::stop_token& stop, const std::string*& changing);
  Status Make(const Change& change, bool ends);

  /// What the last DeviceCore reported, for the time until the next one is there.
  struct Last {
    DeviceInfo device;
    SchedulerConfig scheduler;
    std::vector<ModelStatus> models;
    std::string problem;                  // why the device does not open again
    std::vector<std::string> names = {};  // DeviceCore::ModelNames()
  };

  const CoreOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  Last last_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;
  bool draining_ GUARDED_BY(mutex_) = false;
  CondVar ordered_;
  std::deque<Change> changes_ GUARDED_BY(mutex_);  // in order; at most kMaxChanges
  /// By thread: the model that it changes now; null: none. Under mutex_.
  std::array<const std::string*, kChangers> changing_{};
  bool stopped_ GUARDED_BY(mutex_) = false;  // no change is made any more
  mutable Lender<DeviceCore> present_;       // its callbacks use the members above
  std::vector<std::jthread> changers_;
  std::jthread keeper_;  // last members: they stop before what they use is destroyed
};

// ---- Loading and unloading models

void Core::Order(Change change) {
  Status taken = WithoutExceptions([&] { return TakeOrder(change); });
  if (taken) return;
  change.done(WithoutExceptions([&]() -> Status {
    return Annotate(fmt::format("model '{}'", change.model), std::move(taken).error());
  }));
}

/// After an error or an exception the change is as it was, and not in the list.
Status Core::TakeOrder(Change& change) {
  const MutexLock lock(mutex_);
  if (stopped_ || draining_) {
    return Fail(ErrorCode::kUnavailable, "the server is shutting down");
  }
  if (changes_.size() >= kMaxChanges) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} models wait to be loaded or unloaded; try again", changes_.size()));
  }
  std::size_t bytes = change.with.bytes();
  for (const Change& waiting : changes_) bytes += waiting.with.bytes();
  if (!change.with.empty() && bytes > kMaxChangeBytes) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("with the {} bytes that came with it, {} bytes would wait to be loaded; "
                    "at most {} may",
                    change.with.bytes(), bytes, kMaxChangeBytes));
  }
  changes_.push_back(std::move(change));
  ordered_.NotifyOne();
  return {};
}

/// The first change of a model that no other thread changes now: the changes of one model are made
/// in order, one at a time.
std::deque<Core::Change>::iterator Core::NextChange() {
  return std::ranges::find_if(changes_, [&](const Change& change) {
    return std::ranges::none_of(changing_, [&](const std::string* model) {
      return model != nullptr && *model == change.model;
    });
  });
}

/// Runs on threads of its own, as loading takes long. `changing`: the thread's part of changing_.
void Core::MakeChanges(const std::stop_token& stop, const std::string*& changing) {
  NameThisThread("lagoon-load");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    stopped_ = true;
    ordered_.NotifyAll();
  });
  while (true) {
    Change change;
    bool ends = false;
    {
      const MutexLock lock(mutex_);
      auto next = NextChange();
      while (next == changes_.end() && !(stopped_ && changes_.empty())) {
        ordered_.Wait(mutex_);
        next = NextChange();
      }
      if (next == changes_.end()) return;
      change = std::move(*next);
      changes_.erase(next);
      changing = &change.model;
      ends = stopped_ || draining_;
    }
    // Told before the model's next change, so that answers are in order.
    change.done(WithoutExceptions([&] { return Make(change, ends); }));
    const MutexLock lock(mutex_);
    changing = nullptr;
    ordered_.NotifyAll();
  }
}

/// `ends`: the server is shutting down.
Status Core::Make(const Change& change, bool ends) {
  if (ends) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("model '{}': the server is shutting down", change.model));
  }
  const Lease present = present_.Borrow();
  if (!present) return tl::unexpected<Error>(Away());
  return change.load ? present->LoadModel(change.model, change.with)
                     : present->UnloadModel(change.model);
}

std::vector<ModelStatus> Core::Models() const {
  if (const Lease present = present_.Borrow()) return present->Models();
  const MutexLock lock(mutex_);
  const std::string reason = last_.problem.empty()
                                 ? AwayNow().message
                                 : "the device does not open again: " + last_.problem;
  std::vector<ModelStatus> models = last_.models;
  for (ModelStatus& model : models) {
    if (model.state != ModelState::kReady) continue;
    model.state = ModelState::kUnavailable;
    model.reason = reason;
  }
  return models;
}

// For remote clients, so without last_.problem, which may name paths of the server. The log has it.
Error Core::AwayNow() const {
  return {
      ErrorCode::kUnavailable,
      fmt::format("device '{}' was lost{}", last_.device.name,
                  last_.problem.empty() ? "; its models are being loaded again"
                                        : " and does not open again; the server's log says why")};
}

SchedulerConfig Core::scheduler() const {
  if (const Lease present = present_.Borrow()) return present->scheduler();
  const MutexLock lock(mutex_);
  return last_.scheduler;
}

void Core::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  const Lease present = present_.Borrow();
  // Gets a copy of `done`, because an exception means that it was not called.
  Status ordered = WithoutExceptions([&]() -> Status {
    if (!present) return tl::unexpected<Error>(Away());
    present->SwitchScheduler(std::move(scheduler), done);
    return {};
  });
  if (!ordered) done(std::move(ordered));
}

DeviceInfo Core::device() const {
  const MutexLock lock(mutex_);
  return last_.device;
}

RequestHandle Core::Infer(InferRequest request, InferCallback callback) {
  const Lease present = present_.Borrow();
  if (!present) {
    request.payload.reset();
    callback(WithoutExceptions([&]() -> Result<InferResponse> { return tl::unexpected(Away()); }));
    return RequestHandle{};
  }
  return present->Infer(std::move(request), std::move(callback));
}

void Core::Cancel(RequestHandle handle) {
  if (const Lease present = present_.Borrow()) present->Cancel(handle);
}

void Core::Drain(TimePoint until) {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
  }
  // Use() sees draining_ for a DeviceCore that comes after this line.
  if (const Lease present = present_.Borrow()) present->Drain(until);
}

Result<std::unique_ptr<DeviceCore>> Core::OpenDevice(bool again) {
  CoreOptions options = options_;
  if (again) {
    const MutexLock lock(mutex_);
    options.scheduler = ChoiceOf(last_.scheduler).Text();
    options.trace = nullptr;  // a trace covers one opening only
    options.models = last_.names;
  }
  return DeviceCore::Open(options, [this] {
    const MutexLock lock(mutex_);
    lost_ = true;
    changed_.NotifyAll();
  });
}

void Core::Use(std::unique_ptr<DeviceCore> opened) {
  UntilMemorySuffices([&] {
    const MutexLock lock(mutex_);
    last_.device = opened->device();
    last_.problem.clear();
  });
  present_.Lend(std::move(opened));
  bool draining = false;
  {
    const MutexLock lock(mutex_);
    draining = draining_;
  }
  if (draining) present_.Borrow()->Drain(Now());
}

/// Runs on the keeper's thread. Opens the device again whenever it is lost, after a pause that
/// grows while the device does not last.
void Core::Keep(const std::stop_token& stop) {
  NameThisThread("lagoon-reopen");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  Nanoseconds pause = options_.reopen.first;
  for (TimePoint began = Now(); AwaitLoss(stop); began = Now()) {
    if (Now() - began > options_.reopen.longest) pause = options_.reopen.first;
    CloseDevice();
    for (int tries = 1; Pause(pause, stop); ++tries) {
      pause = std::min(2 * pause, options_.reopen.longest);
      if (Reopen(tries, pause)) break;
    }
  }
}

/// `tries`: the number of this one since the loss. `pause`: until the next one.
bool Core::Reopen(int tries, Nanoseconds pause) {
  Result<std::unique_ptr<DeviceCore>> opened =
      WithoutExceptions([&] { return OpenDevice(/*again=*/true); });
  if (opened) {
    Use(*std::move(opened));
    UntilMemorySuffices([&] { spdlog::info("device '{}' is there again", device().name); });
    return true;
  }
  const std::string why = std::move(opened).error().message;
  UntilMemorySuffices([&] { NoteProblem(why, tries, pause); });
  if (tries == options_.reopen.tries && options_.on_gone) options_.on_gone(why);
  return false;
}

void Core::NoteProblem(const std::string& why, int tries, Nanoseconds pause) {
  spdlog::error("device '{}' does not open again (try {}, the next one in {:.3g} s): {}",
                device().name, tries, std::chrono::duration<double>(pause).count(), why);
  const MutexLock lock(mutex_);
  last_.problem = why;
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
void Core::CloseDevice() {
  UntilMemorySuffices([&] {
    const Lease present = present_.Borrow();
    Last last{present->device(), present->scheduler(), present->Models(), /*problem=*/"",
              /*names=*/{}};
    const MutexLock lock(mutex_);
    last_ = std::move(last);
  });
  DeviceCore* const lost = present_.Withdraw();
  lost->AwaitLost(UntilMemorySuffices([&] { return Away().message; }));
  const std::unique_ptr<DeviceCore> closed = present_.TakeBack();
  // Changes that were under way have ended.
  std::vector<std::string> names = UntilMemorySuffices([&] { return closed->ModelNames(); });
  const MutexLock lock(mutex_);
  last_.names = std::move(names);
}

}  // namespace

Result<std::unique_ptr<Inference>> OpenCore(const CoreOptions& options) {
  return Core::Open(options);
}

}  // namespace lagoon

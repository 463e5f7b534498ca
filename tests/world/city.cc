// What clients do in a city.

#include "world/city.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "serving/core/repository_control.h"
#include "serving/fleet/open_fleet.h"
#include "world/allocations.h"
#include "world/threads.h"

namespace lagoon::world {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Within this time, a fleet places models anew.
constexpr Nanoseconds kPlacing = minutes(2);
constexpr Nanoseconds kPatience = hours(2);

/// Calls the server: allocations may fail.
template <typename F>
auto Exposed(F&& call) {
  const Spared exposed(false);
  return std::forward<F>(call)();
}

/// Moves all replicas to the next device, as often as decisions come.
class Restless final : public Placer {
 public:
  std::string_view name() const override { return "restless"; }
  Assignment Place(const PlacementView& view) override {
    Assignment placed;
    const std::size_t device = calls_++ / 8 % view.gpus.size();
    for (std::size_t model = 0; model < view.models.size(); ++model) {
      placed.replicas.push_back({model, (device + model) % view.gpus.size(), 1, 1, 1});
    }
    return placed;
  }

 private:
  std::size_t calls_ = 0;
};

Result<std::unique_ptr<Inference>> OpenServer(const CoreOptions& options, std::uint32_t devices) {
  if (devices < 2) return OpenCore(options);
  FleetOptions fleet;
  fleet.placer = "restless";
  fleet.make_placer = [](std::string_view) -> Result<std::unique_ptr<Placer>> {
    return std::make_unique<Restless>();
  };
  fleet.rules = {.hold_down = Nanoseconds(0)};
  fleet.rules.limit = minutes(1);
  FleetWords words;
  words.devices.assign(devices, options.device);
  return OpenFleet(options, words, std::move(fleet));
}

}  // namespace

void City::Open() {
  const MutexLock lock(mutex_);
  float constant = 1;
  for (const std::string& model : script_.models) {
    ModelHistory& state = models_[model];
    state.constants.push_back({constant, Now()});
    WriteModel(folder_, model, constant, ConfigOf(model, script_.config));
    constant += 1;
  }
  CoreOptions options;
  options.repository = folder_;
  options.scheduler = SchedulerTexts()[script_.scheduler];
  options.device.open = [this] { return devices_.Open(); };
  options.profile.runs = 1;
  options.load_threads = 1;  // the same run on every machine
  options.engine = "none";
  options.engine_host = testing::HostOf(engine_);
  auto core = OpenServer(options, script_.devices);
  if (!core) Violation("the server does not open: " + core.error().message);
  core_ = *std::move(core);
  for (const ModelStatus& status : core_->Models()) {
    if (status.state != lagoon::ModelState::kReady) {
      Violation(fmt::format("model {} does not load: {}", status.name, status.reason));
    }
  }
}

/// A device has room for one fixed share if it has a unit for every model.
Config City::ConfigOf(const std::string& model, std::uint64_t number) const {
  return {number, model == script_.models.front() && script_.workers >= script_.models.size()};
}

// ---- Events

void City::Infer(const Event& event) {
  Sent* sent = nullptr;
  {
    const MutexLock lock(mutex_);
    sent = &sent_.emplace_back();
    sent->model = event.model;
    sent->client = event.client;
    sent->ask = MakeAsk(event.model, event.number);
    sent->ask.request.priority = event.second;
    sent->ask.request.timeout = std::chrono::microseconds(event.first);
  }
  Send(*sent);
}

void City::Send(Sent& sent) {
  InferRequest request = std::move(sent.ask.request);
  InferCallback answered = [this, &sent](auto answer) {
    const Spared spared;
    Answered(sent, answer);
  };
  {
    const MutexLock lock(mutex_);
    sent.at = request.arrival = Now();
    if (request.timeout > Nanoseconds(0)) sent.deadline = sent.at + request.timeout;
    ModelHistory& state = models_[sent.model];
    ++outstanding_;
    ++report_.requests;
    if (++state.outstanding > kMostWaiting) state.full_at = sent.at;
  }
  sent.failed_allocations = FailedAllocations();
  const RequestHandle handle =
      Exposed([&] { return core_->Infer(std::move(request), std::move(answered)); });
  const MutexLock lock(mutex_);
  sent.handle = handle;
}

void City::Cancel(const Event& event) {
  RequestHandle handle{};
  {
    const MutexLock lock(mutex_);
    std::uint64_t left = event.number;
    for (auto sent = sent_.rbegin(); sent != sent_.rend(); ++sent) {
      if (sent->client != event.client || left-- != 0) continue;
      handle = sent->handle;
      if (handle != RequestHandle{}) sent->cancelled = true;
      break;
    }
  }
  Exposed([&] { core_->Cancel(handle); });
}

void City::Change(const Event& event) {
  const bool load = event.kind == Event::Kind::kLoad;
  std::size_t constant = 0;
  {
    const MutexLock lock(mutex_);
    ModelHistory& state = models_[event.model];
    ++changes_;
    ++report_.changes;
    if (load) {
      const float value = state.constants.back().value + 10;
      constant = state.constants.size();
      state.constants.push_back({value, Now()});
      WriteModel(folder_, event.model, value, ConfigOf(event.model, event.number));
    } else {
      ++state.unloads;
    }
  }
  std::function<void(Status)> done = [this, model = event.model, constant, load,
                                      failed = FailedAllocations()](const Status& status) {
    const Spared spared;
    Changed({model, constant, load, failed}, status);
  };
  Exposed([&] {
    load ? core_->repository()->LoadModel(event.model, std::move(done))
         : core_->repository()->UnloadModel(event.model, std::move(done));
  });
}

void City::Switch(const Event& event) {
  {
    const MutexLock lock(mutex_);
    ++changes_;
    ++report_.changes;
  }
  Scheduler scheduler = *MakeScheduler(SchedulerTexts()[event.number]);
  std::function<void(Status)> done = [this](const Status&) {
    const Spared spared;
    const MutexLock lock(mutex_);
    --changes_;
    news_.NotifyAll();
  };
  Exposed([&] { core_->schedulers()->SwitchScheduler(std::move(scheduler), std::move(done)); });
}

void City::Lose(const Event& event) {
  {
    const MutexLock lock(mutex_);
    ++losing_;
    ++report_.changes;
    ++losses_;
    lost_at_ = kNoDeadline;
  }
  engine_->gate().Open();
  devices_.Lose(static_cast<int>(event.number));
  AwaitDevice();
  const MutexLock lock(mutex_);
  if (--losing_ == 0) lost_at_ = Now();
}

void City::AwaitDevice() {
  const TimePoint until = Now() + kPatience;
  while (!core_->Ready() || devices_.Serving() < script_.devices) {
    if (Now() > until) Violation("the device does not come back");
    SleepFor(100'000'000);
  }
  // Models whose only replica was lost are placed anew by the decisions that follow.
  if (script_.devices > 1) SleepFor(static_cast<std::uint64_t>(kPlacing.count()));
}

void City::AwaitAnswers(const Event& event) {
  const TimePoint until = Now() + minutes(10);
  const MutexLock lock(mutex_);
  const auto waits = [&]() REQUIRES(mutex_) {
    return std::ranges::any_of(
        sent_, [&](const Sent& sent) { return sent.client == event.client && sent.answers == 0; });
  };
  while (Now() < until && waits()) news_.WaitUntil(mutex_, until);
}

void City::Act(const Event& event) {
  if (event.pause_us > 0) SleepFor(event.pause_us * 1000);
  switch (event.kind) {
    case Event::Kind::kInfer:
      return Infer(event);
    case Event::Kind::kCancel:
      return Cancel(event);
    case Event::Kind::kLoad:
    case Event::Kind::kUnload:
      if (script_.devices == 1) Change(event);  // the placer of a fleet decides
      return;
    case Event::Kind::kSwitch:
      return Switch(event);
    case Event::Kind::kResize: {
      ShareWanted wanted;
      wanted.automatic = event.number == 0;
      if (event.number != 0) wanted.part = static_cast<double>(event.number) / 1000;
      {
        const MutexLock lock(mutex_);
        resized_ = true;
      }
      Exposed([&] { static_cast<void>(core_->shares()->ResizeShare(event.model, "", wanted)); });
      return;
    }
    case Event::Kind::kHold: {
      const MutexLock lock(mutex_);
      if (losing_ == 0) engine_->gate().Close();
      return;
    }
    case Event::Kind::kRelease:
      return engine_->gate().Open();
    case Event::Kind::kLose:
      return Lose(event);
    case Event::Kind::kStarve:
      LetAllocationsFail(static_cast<std::int64_t>(event.number),
                         static_cast<std::int64_t>(event.first));
      return;
    case Event::Kind::kLook:
      return Look();
    case Event::Kind::kAwait:
      return AwaitAnswers(event);
  }
}

void City::Run() {
  Open();
  {
    std::vector<std::thread> clients;
    for (std::uint32_t client = 0; client < kClients; ++client) {
      clients.emplace_back([this, client] {
        const Spared spared;
        for (const Event& event : script_.events) {
          if (event.client == client) Act(event);
        }
      });
    }
    for (std::thread& client : clients) client.join();
  }
  LetAllocationsFail(0, 0);
  const bool at_once = script_.config % 3 == 0;
  if (!at_once) {
    engine_->gate().Open();
    AwaitDevice();
    AwaitQuiet();
    CheckQuiet();
    if (script_.config % 4 == 1) CheckGrowth();
  }
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  engine_->gate().Open();
  if (script_.config % 2 == 0) core_->Drain(Now());
  core_.reset();
  const MutexLock lock(mutex_);
  if (outstanding_ > 0) {
    Violation(fmt::format("{} requests are not answered when the server has ended", outstanding_));
  }
  if (changes_ > 0) Violation("a change is not answered when the server has ended");
  if (!devices_.AllClosed()) Violation("a device is left");
  if (devices_.Buffers() > 0) Violation(fmt::format("{} buffers are left", devices_.Buffers()));
  if (devices_.SurplusHandles() > 0) {
    Violation(fmt::format("{} kernel handles beyond one for each body", devices_.SurplusHandles()));
  }
}

WorldReport RunWorld(const Script& script, const std::string& folder,
                     const std::function<void(const std::string&)>& violation) {
  WorldReport report;
  const std::int64_t before = LiveAllocations();
  const ThreadReport threads = RunInVirtualTime(
      script.threads,
      [&] {
        const Spared spared;
        City city(script, folder, violation);
        city.Run();
        report = city.report();
      },
      violation);
  report.threads = threads;
  report.left_allocations = LiveAllocations() - before;
  return report;
}

}  // namespace lagoon::world

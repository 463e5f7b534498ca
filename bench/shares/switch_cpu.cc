#include "bench/shares/switch_cpu.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "bench/client/bound_model.h"
#include "bench/shares/share_recorder.h"
#include "policies/registry.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kInFlight = 2;  // requests of a model
constexpr std::uint32_t kLeastWorkers = 4;

using Bits = std::vector<std::vector<std::byte>>;

// A request that is posted again whenever it ends.
struct Loop final : JobClient {
  void Finished(const JobResult& result) override {
    done += result.outcome == Outcome::kDone ? 1 : 0;
    if (result.outcome == Outcome::kDone && !SameBits()) ++wrong;
    if (!posting->load() || !Post()) {
      running = false;
      running.notify_all();
    }
  }
  bool Post() {
    ++posted;
    return dispatcher->Post({queue, kNoDeadline, model->inputs(), model->outputs(), this})
        .has_value();
  }
  // Overwrites what it has compared, so that an output of the request before cannot pass.
  bool SameBits() {
    bool same = true;
    for (std::size_t i = 0; i < expected->size(); ++i) {
      const std::vector<std::byte>& bits = (*expected)[i];
      same = same && std::memcmp(bits.data(), model->outputs()[i], bits.size()) == 0;
      std::memset(model->outputs()[i], 0xff, bits.size());
    }
    return same;
  }

  Dispatcher* dispatcher = nullptr;
  QueueId queue{};
  BoundModel* model = nullptr;
  const Bits* expected = nullptr;
  const std::atomic<bool>* posting = nullptr;
  std::uint64_t posted = 0, done = 0, wrong = 0;  // of the thread that finishes the request
  std::atomic<bool> running{true};
};

Bits OutputsOf(const BoundModel& model, const Plan& plan) {
  Bits bits;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto* data = static_cast<const std::byte*>(model.outputs()[i]);
    bits.emplace_back(data, data + plan.outputs[i].spec.bytes());
  }
  return bits;
}

// The moves, at random times.
Status MoveAll(const SwitchOptions& options, const SwitchKind& kind, Dispatcher& dispatcher,
               const std::vector<QueueId>& queues) {
  prctl(PR_SET_TIMERSLACK, 1);
  std::mt19937 random(options.seed);
  for (int turn = 1; 2 * turn <= options.moves + 1; ++turn) {
    const auto& place = kind.places[static_cast<std::size_t>(turn) % 2];
    const QueueMove moves[] = {{queues[0], place[0]}, {queues[1], place[1]}};
    LAGOON_RETURN_IF_ERROR(dispatcher.MoveShares(moves));
    // Moves come at every moment of a kernel: 5 to 10 ms apart.
    std::this_thread::sleep_for(std::chrono::microseconds(5000 + random() % 5000));
  }
  return {};
}

}  // namespace

struct CpuSwitch::Model {
  std::string name, file;
  std::vector<std::unique_ptr<BoundModel>> twins;
  Bits expected;
};

CpuSwitch::CpuSwitch(const SwitchOptions& options) : options_(options) {}
CpuSwitch::~CpuSwitch() = default;

Result<std::unique_ptr<CpuSwitch>> CpuSwitch::Open(const SwitchOptions& options) {
  std::unique_ptr<CpuSwitch> cpu(new CpuSwitch(options));
  if (options.models.size() != 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} models on the CPU, must be two", options.models.size()));
  }
  DeviceChoice choice;
  choice.workers = options.workers > 0
                       ? options.workers
                       : std::max(kLeastWorkers, std::thread::hardware_concurrency());
  LAGOON_ASSIGN_OR_RETURN(cpu->on_, OpenDevice(choice));
  for (const std::string& name : options.models) {
    auto model = std::make_unique<Model>();
    model->name = name;
    model->file = ModelFile(options.zoo, name);
    LAGOON_ASSIGN_OR_RETURN(model->twins.emplace_back(),
                            BoundModel::Load(model->file, name, cpu->on_));
    while (model->twins.size() < kInFlight) {
      LAGOON_ASSIGN_OR_RETURN(auto twin, model->twins.front()->Twin(*cpu->on_.device));
      model->twins.push_back(std::move(twin));
    }
    BoundModel& first = *model->twins.front();
    LAGOON_RETURN_IF_ERROR(first.Run(*cpu->on_.device));
    model->expected = OutputsOf(first, first.instance().plan());
    cpu->models_.push_back(std::move(model));
  }
  return cpu;
}

Result<SwitchRun> CpuSwitch::Run(const SwitchKind& kind) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler shares, MakeScheduler("shares"));
  ShareRecorder recorder(*on_.device);
  std::vector<QueueId> queues;
  std::vector<Loop> loops(2 * kInFlight);
  std::atomic<bool> posting{true};
  Status moved;
  std::uint64_t evictions = 0;
  {
    Dispatcher dispatcher(recorder, shares.config, std::move(shares.policy));
    for (std::size_t i = 0; i < models_.size(); ++i) {
      QueueOptions queue;
      queue.name = models_[i]->name;
      queue.units = kind.places[0][i];
      for (const auto& twin : models_[i]->twins) queue.instances.push_back(&twin->instance());
      LAGOON_ASSIGN_OR_RETURN(queues.emplace_back(), dispatcher.AddQueue(std::move(queue)));
    }
    for (std::size_t i = 0; i < loops.size(); ++i) {
      Model& model = *models_[i / kInFlight];
      loops[i].dispatcher = &dispatcher;
      loops[i].queue = queues[i / kInFlight];
      loops[i].model = model.twins[i % kInFlight].get();
      loops[i].expected = &model.expected;
      loops[i].posting = &posting;
      LAGOON_CHECK(loops[i].Post());
    }
    moved = MoveAll(options_, kind, dispatcher, queues);
    posting = false;
    for (Loop& loop : loops) loop.running.wait(true);
    evictions = dispatcher.Stats().share_evictions;
  }
  LAGOON_RETURN_IF_ERROR(moved);
  if (recorder.dropped() > 0) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("{} blocks did not fit the record; ask for fewer --moves", recorder.dropped()));
  }
  SwitchRun run;
  run.times = TimesOfSwitches(recorder.Blocks(), recorder.moves());
  run.evictions = evictions;
  for (const Loop& loop : loops) {
    run.jobs += loop.posted;
    run.lost += loop.posted - loop.done;
    run.wrong += loop.wrong;
  }
  return run;
}

Result<std::vector<double>> CpuSwitch::Restarts() {
  Model& model = *models_.front();
  std::vector<double> gaps_ms;
  for (int i = 0; i < options_.restarts; ++i) {
    LAGOON_RETURN_IF_ERROR(model.twins.front()->Run(*on_.device));
    const TimePoint begin = Now();
    model.twins.clear();
    LAGOON_ASSIGN_OR_RETURN(model.twins.emplace_back(),
                            BoundModel::Load(model.file, model.name, on_));
    LAGOON_RETURN_IF_ERROR(model.twins.front()->Run(*on_.device));
    gaps_ms.push_back(ToMilliseconds(Now() - begin));
  }
  return gaps_ms;
}

}  // namespace lagoon::bench

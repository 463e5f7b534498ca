#include "bench/shares/co_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "bench/client/bound_model.h"
#include "bench/client/clients.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "bench/shares/timed_copies.h"
#include "policies/registry.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {
namespace {

constexpr int kTimedCopies = 9;

struct Runner {
  std::size_t model = 0;
  std::int64_t rows = 1;
  std::uint32_t units = 1;
};

// One measurement: one or two models at the same time.
struct Together {
  std::vector<Runner> runners;
  std::vector<std::vector<double>> medians_ms;  // by runner, of each round
};

class CoRuns {
 public:
  explicit CoRuns(const CoRunOptions& options) : options_(options) {}

  Status Open();
  void Plan();
  Status MeasureAll();
  std::vector<MeasuredPoint> Points() const;

 private:
  Result<BoundModel*> Model(const Runner& runner, bool twin);
  Status Measure(Together& together);
  MeasuredPoint PointOf(const Together& together, std::size_t runner) const;
  double ShareOf(const Runner& runner) const {
    return static_cast<double>(runner.units) / on_.device->info().units;
  }

  const CoRunOptions& options_;
  ComputeDevice on_;
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::unique_ptr<BoundModel>>> bound_;
  std::map<std::pair<std::size_t, std::int64_t>, MeasuredCopies> copies_;  // by model and rows
  std::vector<Together> all_;
};

Status CoRuns::Open() {
  if (options_.models.empty() || options_.rows.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--models and --rows must not be empty");
  }
  DeviceChoice choice;
  choice.workers =
      options_.workers > 0 ? options_.workers : std::max(2U, std::thread::hardware_concurrency());
  if (choice.workers < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "--workers is 1; two models at once need at least 2 workers");
  }
  LAGOON_ASSIGN_OR_RETURN(on_, OpenDevice(choice));
  return {};
}

void CoRuns::Plan() {
  const std::uint32_t units = on_.device->info().units;
  const std::set<std::uint32_t> shares = {1, (units + 1) / 2, units};
  for (std::size_t model = 0; model < options_.models.size(); ++model) {
    for (const std::int64_t rows : options_.rows) {
      for (const std::uint32_t share : shares) all_.push_back({{{model, rows, share}}, {}});
    }
  }
  std::mt19937 random(options_.seed);
  const auto draw = [&] { return options_.rows[random() % options_.rows.size()]; };
  for (std::size_t a = 0; a < options_.models.size(); ++a) {
    for (std::size_t b = a; b < options_.models.size(); ++b) {
      for (int i = 0; i < options_.pairs; ++i) {
        // Shares that were measured alone, too.
        const std::uint32_t first = random() % 2 == 0 ? 1 : (units + 1) / 2;
        const std::uint32_t second = std::min(first == 1 ? (units + 1) / 2 : 1U, units - first);
        all_.push_back({{{a, draw(), first}, {b, draw(), second}}, {}});
      }
    }
  }
  for (Together& together : all_) together.medians_ms.resize(together.runners.size());
}

// The model with so many rows; a second instance for a model beside itself.
Result<BoundModel*> CoRuns::Model(const Runner& runner, bool twin) {
  auto& made = bound_[{runner.model, runner.rows}];
  const std::string& name = options_.models[runner.model];
  if (made.empty()) {
    BoundModelOptions options;
    options.batch = runner.rows;
    LAGOON_ASSIGN_OR_RETURN(made.emplace_back(),
                            BoundModel::Load(ModelFile(options_.zoo, name), name, on_, options));
    BoundModel& model = *made.front();
    LAGOON_RETURN_IF_ERROR(model.Profile(*on_.device, 2));
    LAGOON_ASSIGN_OR_RETURN(
        const MeasuredCopies copies,
        TimeCopiesOf(model.instance(), *on_.device, model.inputs(), model.outputs(), kTimedCopies));
    copies_.emplace(std::pair{runner.model, runner.rows}, copies);
  }
  if (!twin) return made.front().get();
  if (made.size() < 2) {
    LAGOON_ASSIGN_OR_RETURN(auto second, made.front()->Twin(*on_.device));
    made.push_back(std::move(second));
  }
  return made.back().get();
}

Status CoRuns::Measure(Together& together) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler shares, MakeScheduler("shares"));
  std::vector<BoundModel*> models;
  for (const Runner& runner : together.runners) {
    const bool twin = !models.empty() && together.runners[0].model == runner.model &&
                      together.runners[0].rows == runner.rows;
    LAGOON_ASSIGN_OR_RETURN(BoundModel * model, Model(runner, twin));
    models.push_back(model);
  }
  Dispatcher dispatcher(*on_.device, shares.config, std::move(shares.policy));
  std::vector<std::unique_ptr<ClosedLoopClient>> clients;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    QueueOptions queue;
    queue.name = options_.models[together.runners[i].model];
    queue.units = UnitRange{first, together.runners[i].units};
    first += together.runners[i].units;
    queue.instances.push_back(&models[i]->instance());
    LAGOON_ASSIGN_OR_RETURN(const QueueId id, dispatcher.AddQueue(std::move(queue)));
    clients.push_back(std::make_unique<ClosedLoopClient>(dispatcher, id, *models[i]));
  }
  for (auto& client : clients) client->Start();
  std::this_thread::sleep_for(FromSeconds(options_.seconds));  // this is the window
  for (auto& client : clients) client->Stop();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    std::vector<double> times = clients[i]->latencies_ms();
    if (times.empty()) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("model '{}' answered nothing; ask for longer --window-seconds",
                              options_.models[together.runners[i].model]));
    }
    // The first is alone for a moment, the last after the others have stopped.
    if (times.size() > 4) times = {times.begin() + 1, times.end() - 1};
    together.medians_ms[i].push_back(Median(times));
  }
  return {};
}

Status CoRuns::MeasureAll() {
  ProgressBar progress("co-runs", options_.rounds);
  for (int round = 0; round < options_.rounds; ++round) {
    for (Together& together : all_) LAGOON_RETURN_IF_ERROR(Measure(together));
    progress.Step(fmt::format("round {} of {}", round + 1, options_.rounds));
  }
  return {};
}

MeasuredPoint CoRuns::PointOf(const Together& together, std::size_t index) const {
  const Runner& own = together.runners[index];
  MeasuredPoint point;
  point.model = options_.models[own.model];
  point.rows = own.rows;
  point.share = ShareOf(own);
  point.latency_ms = Median(together.medians_ms[index]);
  if (together.runners.size() == 1) point.copies = copies_.at({own.model, own.rows});
  for (std::size_t i = 0; i < together.runners.size(); ++i) {
    const Runner& other = together.runners[i];
    if (i != index) {
      point.neighbours.push_back({options_.models[other.model], other.rows, ShareOf(other)});
    }
  }
  return point;
}

std::vector<MeasuredPoint> CoRuns::Points() const {
  std::vector<MeasuredPoint> points;
  for (const Together& together : all_) {
    for (std::size_t i = 0; i < together.runners.size(); ++i) {
      points.push_back(PointOf(together, i));
    }
  }
  return points;
}

}  // namespace

Result<std::vector<MeasuredPoint>> MeasureCoRuns(const CoRunOptions& options) {
  CoRuns runs(options);
  LAGOON_RETURN_IF_ERROR(runs.Open());
  runs.Plan();
  LAGOON_RETURN_IF_ERROR(runs.MeasureAll());
  return runs.Points();
}

}  // namespace lagoon::bench

#include "bench/split/split_sim.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/for_each.h"
#include "bench/split/parts_of_list.h"
#include "bench/split/preemption_decision.h"
#include "bench/split/results.h"
#include "bench/split/search_metrics.h"
#include "bench/split/virtual_requests.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

// Requests of one model that may run at once: more than a round of `rt-a` has, except far above a
// load of 1.
constexpr std::size_t kInstances = 8;
constexpr double kSweep[] = {0.2, 0.4, 0.6, 0.8, 1.0, 1.2};

const std::vector<SplitModelName> kTable1 = {
    {"yolov2", true}, {"googlenet", true}, {"resnet50", false}, {"vgg19", false}, {"gpt2", true}};

struct Lists {
  std::vector<SimModel> whole, onnx, plan;  // by model
};

// A system, and the lists that it runs.
struct SimSystem {
  SplitRun run;
  const std::vector<SimModel>* lists = nullptr;
};

class SplitSimulation {
 public:
  SplitSimulation(const SplitSimOptions& options, Report& report)
      : options_(options), report_(report) {}

  Status Open() {
    const SimConstants& constants = options_.gpu.constants;
    for (const SplitModelName& name : kTable1) {
      LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimModel(options_.gpu.name, name.name));
      const std::uint32_t parts = PartsOfTable3(name.name);
      lists_.whole.push_back(model);
      lists_.plan.push_back(CutIntoParts(model, parts, 0, constants));
      lists_.onnx.push_back(
          CutIntoParts(model, parts, OverheadOfTable3(name.name, parts), constants));
      alone_ms_.push_back(ToMilliseconds(model.statistics.time));
      limits_.push_back(
          std::chrono::duration_cast<Nanoseconds>(model.statistics.time * options_.deadline_alpha));
    }
    results_.models = kTable1;
    LAGOON_RETURN_IF_ERROR(AddSystems());
    return AddCases();
  }

  Status Run() {
    const auto seeds = static_cast<std::size_t>(options_.seeds);
    const std::size_t cases = results_.cases.size(), systems = systems_.size();
    results_.trials.assign(cases, std::vector(systems, std::vector<SplitAnswers>(seeds)));
    results_.clean.assign(cases, true);
    ProgressBar progress("bench split", static_cast<int>(cases * systems * seeds));
    Mutex mutex;
    LAGOON_RETURN_IF_ERROR(
        ForEach(cases * systems * seeds, options_.threads, [&](std::size_t i) -> Status {
          const std::size_t of_case = i / (systems * seeds), system = i / seeds % systems;
          LAGOON_ASSIGN_OR_RETURN(results_.trials[of_case][system][i % seeds],
                                  RunTrial(results_.cases[of_case], systems_[system],
                                           options_.seed + static_cast<std::uint32_t>(i % seeds)));
          const MutexLock lock(mutex);
          progress.Step(systems_[system].run.name);
          return {};
        }));
    LAGOON_RETURN_IF_ERROR(MeasureOverheads());
    Evidence evidence(report_, options_.seed);
    WriteSplitResults(results_, evidence, report_);
    LAGOON_RETURN_IF_ERROR(WriteSearch());
    LAGOON_RETURN_IF_ERROR(
        MeasurePreemptionDecision({.rounds = options_.decision_rounds}, evidence));
    evidence.Finish();
    return {};
  }

 private:
  static double OverheadOfTable3(std::string_view model, std::uint32_t parts) {
    for (const SplitTable3Row& row : SplitTable3(model)) {
      if (row.parts == parts) return row.overhead;
    }
    return 0;
  }

  Status AddSystems() {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<SplitRun> runs, SplitRuns(options_.schedulers));
    for (const SplitRun& run : runs) {
      const bool cuts = SchedulerName(run.spec) == "split";
      AddSystem({run, cuts ? &lists_.onnx : &lists_.whole});
      if (!cuts) continue;
      SplitRun plan = run;
      plan.name += ".plan";
      AddSystem({plan, &lists_.plan});
    }
    return {};
  }

  void AddSystem(const SimSystem& system) {
    systems_.push_back(system);
    results_.systems.push_back({system.run.name, alone_ms_});
  }

  Status AddCases() {
    for (const SplitReading reading : options_.readings) {
      for (const int number : options_.scenarios) {
        LAGOON_ASSIGN_OR_RETURN(results_.cases.emplace_back(), SplitScenario(number, reading));
      }
    }
    if (options_.sweep) {
      for (const double load : kSweep) results_.cases.push_back(SplitLoad(load, alone_ms_));
    }
    for (const SplitCase& one : results_.cases) {
      report_.Metric(fmt::format("load.{}{}", one.name, one.suffix), LoadOf(one, alone_ms_));
    }
    return {};
  }

  Result<SplitAnswers> RunTrial(const SplitCase& one, const SimSystem& system,
                                std::uint32_t seed) const {
    const std::vector<SplitArrival> arrivals =
        MakeSplitArrivals(one, kTable1.size(), options_.requests, seed);
    return RunArrivals(system, arrivals);
  }

  Result<SplitAnswers> RunArrivals(const SimSystem& system,
                                   std::span<const SplitArrival> arrivals) const {
    std::vector<SimStageQueue> queues;
    for (std::size_t i = 0; i < system.lists->size(); ++i) {
      queues.push_back(
          {kTable1[i].name, ClassOf(system.run, kTable1[i]), &(*system.lists)[i], kInstances});
    }
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(system.run.spec));
    LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                            SimStage::Open({.gpu = options_.gpu}, std::move(scheduler), queues));
    const std::span<const Nanoseconds> limits(limits_);
    return VirtualRequests(stage, arrivals, system.run.deadlines ? limits : limits.first(0)).Run();
  }

  // The latency of a request alone, with the model in parts.
  Result<double> AloneMs(std::size_t model, std::uint32_t parts, double overhead) const {
    std::vector<SimModel> lists = lists_.whole;
    lists[model] = CutIntoParts(lists[model], parts, overhead, options_.gpu.constants);
    const SplitArrival arrival{Nanoseconds(0), model};
    LAGOON_ASSIGN_OR_RETURN(const SplitAnswers answers,
                            RunArrivals({{"alone", "split:elastic=0"}, &lists}, {&arrival, 1}));
    return answers[model].latencies_ms.at(0);
  }

  Status MeasureOverheads() {
    for (std::size_t i = 0; i < kTable1.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(const double whole_ms, AloneMs(i, 1, 0));
      for (const SplitTable3Row& row : SplitTable3(kTable1[i].name)) {
        LAGOON_ASSIGN_OR_RETURN(const double plan_ms, AloneMs(i, row.parts, 0));
        LAGOON_ASSIGN_OR_RETURN(const double onnx_ms, AloneMs(i, row.parts, row.overhead));
        const std::string name = fmt::format("split_overhead.{}.{}.", row.model, row.parts);
        report_.Metric(name + "plan", plan_ms / whole_ms - 1);
        report_.Metric(name + "onnx", onnx_ms / whole_ms - 1);
      }
    }
    return {};
  }

  Status WriteSearch() {
    nlohmann::json generations = nlohmann::json::array();
    for (std::size_t i = 0; i < kTable1.size(); ++i) {
      const std::uint32_t parts = PartsOfTable3(kTable1[i].name);
      if (parts == 1) continue;
      report_.Metric("split_parts." + kTable1[i].name, parts);
      LAGOON_RETURN_IF_ERROR(
          WriteSearchMetrics(kTable1[i].name, SplitModelOfList(lists_.whole[i]), parts, report_));
      for (const SplitTable3Row& row : SplitTable3(kTable1[i].name)) {
        LAGOON_ASSIGN_OR_RETURN(
            nlohmann::json of,
            GenerationsOf(kTable1[i].name, SplitModelOfList(lists_.whole[i]), row.parts));
        generations.push_back(std::move(of));
        report_.Metric(fmt::format("split_sigma_ms.{}.{}", row.model, row.parts),
                       SigmaMs(lists_.whole[i], EvenEnds(lists_.whole[i], row.parts)));
      }
    }
    report_.Field("generations", std::move(generations));
    return {};
  }

  const SplitSimOptions& options_;
  Report& report_;
  Lists lists_;
  std::vector<double> alone_ms_;     // by model
  std::vector<Nanoseconds> limits_;  // by model
  std::vector<SimSystem> systems_;
  SplitResults results_;
};

}  // namespace

Status RunSplitOnSim(const SplitSimOptions& options, Report& report) {
  SplitSimulation simulation(options, report);
  LAGOON_RETURN_IF_ERROR(simulation.Open());
  return simulation.Run();
}

}  // namespace lagoon::bench

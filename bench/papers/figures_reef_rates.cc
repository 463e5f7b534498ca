// Figure 1: what real-time requests and best-effort work do to each other (VGG and ResNet, mi50).

#include <fmt/format.h>

#include <random>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_reef.h"
#include "bench/sim/sim_jobs.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;

constexpr double kRates[] = {10, 25, 50, 75, 100, 120, 150, 200, 250};  // real-time, a second
constexpr std::size_t kCrowd = 4;  // best-effort clients of the tail; the paper does not say

class RateRuns {
 public:
  static Result<RateRuns> Open(const FigureOptions& options) {
    RateRuns runs;
    LAGOON_ASSIGN_OR_RETURN(runs.gpu_, LoadGpuModel("mi50"));
    LAGOON_ASSIGN_OR_RETURN(runs.vgg_, MakeSimModel("mi50", "vgg19"));
    LAGOON_ASSIGN_OR_RETURN(runs.resnet_, MakeSimModel("mi50", "resnet152"));
    runs.seed_ = options.seed;
    return runs;
  }

  struct Seen {
    double best_effort = 0;  // requests a second, of all clients
    double tail_ms = 0;      // p99 of real-time requests; p90 of few
    double mean_ms = 0;
  };

  /// For `span`, real-time requests at `rate` (0: none) beside best-effort clients in closed loops.
  Result<Seen> Run(const std::string& scheduler, double rate, std::size_t best_effort,
                   Nanoseconds span, DisbLoad::Late late = DisbLoad::Late::kQueue) const {
    std::vector<DisbClient> clients(1 + best_effort);
    std::vector<SimStageQueue> queues;
    clients[0] = {"rt", "rt", JobClass::kRealTime, {}};
    clients[0].load.kind = DisbLoad::Kind::kUniform;
    clients[0].load.per_second = rate;
    clients[0].load.late = late;
    queues.push_back({"rt", JobClass::kRealTime, rate > 0 ? &vgg_ : nullptr});
    for (std::size_t i = 1; i <= best_effort; ++i) {
      clients[i] = {fmt::format("be{}", i), "be", JobClass::kBestEffort, {}};
      queues.push_back({clients[i].name, JobClass::kBestEffort, &resnet_});
    }
    LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
    const SimAbort abort = AbortOf(made.config);
    LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                            SimStage::Open({.gpu = gpu_, .abort = abort}, std::move(made), queues));
    DisbWindow window{span, std::vector<std::vector<Nanoseconds>>(clients.size())};
    std::mt19937 random(seed_);
    if (rate > 0)
      window.arrivals[0] = Arrivals(clients[0].load, vgg_.statistics.time, span, random);
    const std::vector<VirtualRun> runs = stage.Run(clients, window, milliseconds(50));
    Seen seen;
    for (std::size_t i = 1; i < runs.size(); ++i) seen.best_effort += runs[i].completed;
    seen.best_effort /= std::chrono::duration<double>(span).count();
    const std::vector<double>& latencies = runs[0].latencies_ms;
    if (latencies.empty()) return seen;
    seen.tail_ms = Percentile(latencies, latencies.size() >= kSamplesForP99 ? 99 : 90);
    seen.mean_ms = Mean(latencies);
    return seen;
  }

 private:
  GpuModel gpu_;
  SimModel vgg_, resnet_;
  unsigned seed_ = 1;
};

}  // namespace

Result<Figure> ReefFigure1(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const RateRuns runs, RateRuns::Open(options));
  Figure figure;
  FigurePanel starving{"ResNet-152 (best-effort) beside VGG-19 (real-time)",
                       "real-time requests a second",
                       "best-effort requests / alone",
                       {}};
  const Nanoseconds span = milliseconds(options.Scaled(2000));
  const Nanoseconds long_span = 5 * span;  // for a p99
  LAGOON_ASSIGN_OR_RETURN(const RateRuns::Seen alone, runs.Run("sequential", 0, 1, span));
  for (const std::string scheduler : {"wait", "reset", "reef"}) {
    double left = 0;
    for (const double rate : kRates) {
      LAGOON_ASSIGN_OR_RETURN(const RateRuns::Seen seen, runs.Run(scheduler, rate, 1, span));
      left = seen.best_effort / alone.best_effort;
      starving.Add(scheduler, rate, left);
      if (rate == 120) {
        figure.Find("best_effort_over_alone_at_120_per_second." + scheduler, left);
      }
    }
    figure.Find("best_effort_over_alone_at_250_per_second." + scheduler, left);
  }
  FigurePanel tail{"VGG-19 (real-time, 120 requests a second) under streams",
                   "best-effort clients",
                   "real-time latency, ms, p99",
                   {}};
  std::vector<double> tails;
  // DISB's client: in an open loop beside 4, the queue only grows, and the tail is the window's.
  for (std::size_t clients = 0; clients <= kCrowd; ++clients) {
    LAGOON_ASSIGN_OR_RETURN(const RateRuns::Seen seen,
                            runs.Run("streams", 120, clients, long_span, DisbLoad::Late::kNewest));
    tails.push_back(seen.tail_ms);
    tail.Add("streams", static_cast<double>(clients), seen.tail_ms);
  }
  figure.Compare("realtime_tail_ms.streams.alone", 4, tails.front(), "REEF 2.1 (about)");
  figure.Set("the kernel list's time");
  figure.Compare("realtime_tail_ms.streams.beside_4", 50, tails.back(),
                 "REEF 2.1 (of a number of clients that it does not name)");
  figure.panels = {std::move(starving), std::move(tail)};
  return figure;
}

}  // namespace lagoon::bench

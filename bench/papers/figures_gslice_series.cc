// Figures 14 to 16: how batches and shares adapt.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_gslice.h"
#include "bench/papers/gslice_runs.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The limit after each batch.
class LimitTrace final : public SimController {
 public:
  void OnBatch(ClusterSim& sim, const BatchEnded& batch) override {
    ms.push_back(ToMilliseconds(sim.now()));
    limits.push_back(static_cast<double>(sim.replica(batch.replica).Limit()));
  }
  std::vector<double> ms, limits;
};

struct Convergence {
  double ms = 0;             // until the limit first is within a row or 10 % of where it settles
  double swing_percent = 0;  // largest less smallest limit of the second half / the median
  double settled = 0;        // median limit of the second half
};

Convergence ConvergenceOf(const LimitTrace& trace) {
  const auto half = trace.limits.begin() + static_cast<std::ptrdiff_t>(trace.limits.size() / 2);
  const std::vector<double> late(half, trace.limits.end());
  const auto [least, most] = std::ranges::minmax_element(late);
  Convergence seen;
  seen.settled = Median(late);
  seen.swing_percent = 100 * (*most - *least) / seen.settled;
  const double near = std::max(1.0, 0.1 * seen.settled);
  std::size_t i = 0;
  while (i < trace.limits.size() && std::abs(trace.limits[i] - seen.settled) > near) ++i;
  seen.ms = trace.ms[std::min(i, trace.ms.size() - 1)];
  return seen;
}

// Mean requests per second of a model in [from, to).
double Ips(const ModelReport& model, std::size_t from, std::size_t to) {
  double served = 0;
  for (std::size_t i = from; i < to; ++i) served += static_cast<double>(model.seconds[i].served);
  return served / static_cast<double>(to - from);
}

void AddSeconds(FigurePanel& panel, const ModelReport& model) {
  for (std::size_t i = 0; i < model.seconds.size(); ++i) {
    panel.Add(model.name, static_cast<double>(i), static_cast<double>(model.seconds[i].served));
  }
}

}  // namespace

Result<Figure> GsliceFigure14(const FigureOptions& options) {
  constexpr GsliceModel kModel{"vgg19", 0.7};
  Figure figure;
  AddInputs(GsliceSpec({&kModel, 1}, GsliceSystem::kMpsSlab, 25, options), figure);
  FigurePanel limits{"Limit after the start, SLO 50 ms", "ms", "rows", {}};
  FigurePanel times{"Until the limit settles", "SLO, ms", "ms", {}};
  FigurePanel throughput{"Throughput", "SLO, ms", "images/s", {}};
  limits.log_x = times.log_y = true;
  for (const int slo : {25, 50, 75, 100, 200}) {
    std::array<double, 3> ips{};
    std::size_t at = 0;
    for (const std::string limiter : {"slab", "aimd", "clipper"}) {
      ClusterSpec spec = GsliceSpec({&kModel, 1}, GsliceSystem::kMpsSlab, slo, options);
      spec.models[0].batching = {.limiter = limiter, .rows = 256};
      spec.models[0].arrivals = ClosedLoop(1024);
      LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
      LimitTrace trace;
      const SimReport report = ClusterSim(spec).Run(trace);
      const Convergence seen = ConvergenceOf(trace);
      const std::string of = fmt::format("{}.{}", limiter, slo);
      const std::string metric = fmt::format("{}_converge_ms.{}", limiter, slo);
      if (limiter == "slab") {
        figure.CompareRange(metric, {0, slo == 50 ? 300 : 500}, seen.ms, "GSLICE 4.5, Fig. 14");
      } else if (slo == 50) {
        figure.Compare(metric, 3500, seen.ms, "GSLICE 4.5, Fig. 12c");
      } else if (slo == 100) {
        figure.CompareRange(metric, {10'000, 60'000}, seen.ms, "GSLICE 4.5 (above 10 s)");
      } else {
        figure.Find(metric, seen.ms);
      }
      figure.Find("swing_percent." + of, seen.swing_percent);
      figure.Find("rows." + of, seen.settled);
      figure.Find("violation_rate." + of, report.models[0].ViolationRate());
      ips[at++] = report.Throughput(0);
      times.Add(limiter, slo, std::max(1.0, seen.ms));
      throughput.Add(limiter, slo, report.Throughput(0));
      for (std::size_t i = 0; slo == 50 && i < trace.ms.size() && trace.ms[i] < 20'000; ++i) {
        limits.Add(limiter, std::max(1.0, trace.ms[i]), trace.limits[i]);
      }
    }
    figure.CompareGainRange(fmt::format("throughput.slab_over_clipper.{}", slo), {1.02, 1.5},
                            ips[0] / ips[2], "GSLICE 4.5, Fig. 14");
    figure.Find(fmt::format("throughput.slab_over_aimd.{}", slo), ips[0] / ips[1]);
  }
  figure.panels = {std::move(limits), std::move(times), std::move(throughput)};
  return figure;
}

namespace {

// VGG-16 from the start to 53 s; VGG-19 from 20 s on, which serves from 23 s on. The figure shows
// both delays of VGG-19; that VGG-16's copy with 70 % is ready at 23 s too is assumed from it.
constexpr std::array kFigure15{GsliceModel{"vgg16", 0.7}, GsliceModel{"vgg19", 0.3}};

ClusterSpec Figure15Spec(GsliceSystem system, const char* limiter, MpsRule rule,
                         const FigureOptions& options) {
  ClusterSpec spec = GsliceSpec(kFigure15, system, 50, options);
  spec.mps = rule;
  spec.warmup = Nanoseconds(0);
  spec.length = seconds(90);
  spec.replicas[0].granules = 100;
  for (ModelSpec& model : spec.models) model.batching = {.limiter = limiter, .rows = 64};
  spec.models[0].stop = seconds(53);
  spec.models[0].resize = seconds(3);
  spec.models[1].start = seconds(20);
  spec.models[1].load = seconds(3);
  spec.models[1].resize = seconds(12);
  return spec;
}

Result<SimReport> RunFigure15(GsliceSystem system, const char* limiter, MpsRule rule,
                              const FigureOptions& options) {
  return RunGslice(Figure15Spec(system, limiter, rule, options), kFigure15);
}

}  // namespace

Result<Figure> GsliceFigure15(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimReport mps,
                          RunFigure15(GsliceSystem::kMpsSlab, "slab", MpsRule::kKnee, options));
  LAGOON_ASSIGN_OR_RETURN(const SimReport work,
                          RunFigure15(GsliceSystem::kMpsSlab, "slab", MpsRule::kWork, options));
  LAGOON_ASSIGN_OR_RETURN(const SimReport gslice,
                          RunFigure15(GsliceSystem::kGslice, "slab", MpsRule::kKnee, options));
  LAGOON_ASSIGN_OR_RETURN(const SimReport clipper,
                          RunFigure15(GsliceSystem::kMpsSlab, "clipper", MpsRule::kKnee, options));
  Figure figure;
  AddInputs(Figure15Spec(GsliceSystem::kMpsSlab, "slab", MpsRule::kKnee, options), figure);
  figure.Input("vgg19_starts_at_s", 20);
  figure.Input("vgg16_stops_at_s", 53);
  const char* source = "GSLICE 4.6.1, Fig. 15";
  figure.Compare("vgg16_ips.mps-slab.alone", 550, Ips(mps.models[0], 5, 20), source);
  figure.Set("VGG-16's times were fitted to it");
  figure.Compare("vgg16_ips.mps-slab.shared", 200, Ips(mps.models[0], 30, 53), source);
  figure.Compare("vgg16_ips.gslice.shared", 300, Ips(gslice.models[0], 30, 53), source);
  figure.Compare("vgg16_ips.clipper.alone", 500, Ips(clipper.models[0], 10, 20), source);
  figure.Compare("vgg16_ips.clipper.shared", 200, Ips(clipper.models[0], 30, 53), source);
  figure.Compare("vgg16_ips.mps-slab-by-work.shared", 200, Ips(work.models[0], 30, 53), source);
  const auto& shares = gslice.models[1].seconds;
  const double whole = gslice.moves.empty()
                           ? std::nan("")
                           : std::chrono::duration<double>(gslice.moves.back().at).count();
  figure.Compare("second_of_the_whole_device.vgg19.gslice", 66, whole, source);
  figure.Set("the times of loading are the figure's");
  for (const int at : {20, 40, 60, 80}) {
    figure.Find(fmt::format("share_percent.vgg16.t{}", at),
                100 * gslice.models[0].seconds[static_cast<std::size_t>(at)].share);
    figure.Find(fmt::format("share_percent.vgg19.t{}", at),
                100 * shares[static_cast<std::size_t>(at)].share);
  }
  const auto gain = [](const SimReport& report) {
    return Ips(report.models[1], 75, 90) / Ips(report.models[1], 40, 53);
  };
  figure.CompareGainRange("vgg19_after_over_before.clipper", {1, 1.25}, gain(clipper),
                          "GSLICE 4.6.1 (almost the same)");
  for (const int at : {50, 85}) {
    const auto limit = clipper.models[1].seconds[static_cast<std::size_t>(at)].limit;
    figure.Find(fmt::format("rows.vgg19.clipper.t{}", at), static_cast<double>(limit));
  }
  figure.Find("vgg19_after_over_before.mps-slab", gain(mps));
  figure.Find("vgg19_after_over_before.gslice", gain(gslice));
  const std::array<std::pair<const char*, const SimReport*>, 3> parts{
      {{"Default MPS and SLAB", &mps}, {"GSLICE", &gslice}, {"Default MPS and Clipper", &clipper}}};
  for (const auto& [title, report] : parts) {
    FigurePanel panel{title, "s", "images/s", {}};
    for (const ModelReport& model : report->models) {
      AddSeconds(panel, model);
      figure.Find(fmt::format("violation_rate.{}.{}", title, model.name), model.ViolationRate());
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

namespace {

constexpr double kFigure16PerSecond = 35;

ClusterSpec Figure16Spec(ResizeKind kind, const FigureOptions& options) {
  constexpr std::array kModels{GsliceModel{"vgg19-figure-16", 0.3}, GsliceModel{"resnet50", 0.3}};
  ClusterSpec spec = GsliceSpec(kModels, GsliceSystem::kGslice, 50, options);
  spec.costs.resize = kind;
  spec.warmup = Nanoseconds(0);
  spec.length = seconds(30);
  for (std::size_t i = 0; i < 2; ++i) {
    ArrivalSpec& arrivals = spec.models[i].arrivals;
    arrivals.kind = ArrivalKind::kPeriodic;
    arrivals.rates = {{Nanoseconds(0), kFigure16PerSecond}};
    arrivals.jitter = 0.5;
    spec.replicas[i].granules = 30;
    spec.replicas[i].places = 1;
  }
  spec.models[0].resize = seconds(12);
  spec.models[1].resize = seconds(5);
  return spec;
}

Result<SimReport> RunFigure16(ResizeKind kind, const FigureOptions& options) {
  const ClusterSpec spec = Figure16Spec(kind, options);
  LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
  GsliceOptions tuning;
  tuning.demands = {0.3, 0.3};
  tuning.first = seconds(2);
  GsliceController controller(tuning);
  return ClusterSim(spec).Run(controller);
}

// When the share of a replica first changed, in seconds. NaN: never.
double MovedAt(const SimReport& report, std::size_t replica) {
  const auto moved = std::ranges::find(report.moves, replica, &SimMove::replica);
  if (moved == report.moves.end()) return std::nan("");
  return std::chrono::duration<double>(moved->at).count();
}

}  // namespace

Result<Figure> GsliceFigure16(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimReport shadow, RunFigure16(ResizeKind::kShadow, options));
  LAGOON_ASSIGN_OR_RETURN(const SimReport restart, RunFigure16(ResizeKind::kRestart, options));
  const ModelReport &vgg = shadow.models[0], &resnet = shadow.models[1];
  Figure figure;
  AddInputs(Figure16Spec(ResizeKind::kShadow, options), figure);
  figure.Input("requests_per_s", kFigure16PerSecond);
  const char* source = "GSLICE 4.6.2, Fig. 16";
  const char* kLoading = "the times of loading are the figure's";
  const char* kSurface = "VGG-19 has a surface of its own for this figure";
  figure.Compare("share_percent.vgg19.t20", 60, 100 * vgg.seconds[20].share, source);
  figure.Set("growth is bounded so that it ends there");
  figure.Compare("share_percent.resnet50.t10", 8, 100 * resnet.seconds[10].share, source);
  figure.Compare("moved_at_s.resnet50", 7, MovedAt(shadow, 1), source);
  figure.Set(kLoading);
  figure.Compare("moved_at_s.vgg19", 14, MovedAt(shadow, 0), source);
  figure.Set(kLoading);
  figure.Compare("vgg19_ips.before", 15, Ips(vgg, 1, 12), source);
  figure.Set(kSurface);
  const SimSecond& second = vgg.seconds[1];
  figure.Compare("vgg19_batch_ms.before", 65,
                 second.batch_ms / static_cast<double>(std::max<std::uint64_t>(1, second.batches)),
                 source);
  figure.Set(kSurface);
  figure.Find("vgg19_ips.after", Ips(vgg, 20, 30));
  figure.Find("share_percent.resnet50.t29", 100 * resnet.seconds[29].share);
  figure.Find("share_percent.vgg19.t29", 100 * vgg.seconds[29].share);
  for (const auto& [name, report] : {std::pair{"shadow", &shadow}, {"restart", &restart}}) {
    FigurePanel panel{std::string("Answered, ") + name, "s", "images/s", {}};
    for (const ModelReport& model : report->models) {
      AddSeconds(panel, model);
      const auto silent = std::ranges::count_if(
          model.seconds, [](const SimSecond& one) { return one.served == 0; });
      figure.Find(fmt::format("seconds_without_answers.{}.{}", name, model.name),
                  static_cast<double>(silent));
      figure.Find(fmt::format("violation_rate.{}.{}", name, model.name), model.ViolationRate());
    }
    figure.panels.push_back(std::move(panel));
  }
  FigurePanel shares{"Shares, shadow", "s", "% of the device", {}};
  for (const ModelReport& model : shadow.models) {
    for (std::size_t i = 0; i < model.seconds.size(); ++i) {
      shares.Add(model.name, static_cast<double>(i), 100 * model.seconds[i].share);
    }
  }
  figure.panels.push_back(std::move(shares));
  return figure;
}

}  // namespace lagoon::bench

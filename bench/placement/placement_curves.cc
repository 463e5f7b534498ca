#include "bench/placement/placement_curves.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/interval.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using Field = double PlacementRun::*;

constexpr double kGood = 0.01;  // most violations that count as good

// The goodput at which the violations reach 1 %, between the loads that were measured. 0: they are
// above it at the least load. The most of all if they never reach it.
double GoodputAt99(const std::vector<double>& goodputs, const std::vector<double>& violations) {
  double best = 0;
  for (std::size_t i = 0; i < goodputs.size(); ++i) {
    if (violations[i] <= kGood) {
      best = std::max(best, goodputs[i]);
      continue;
    }
    if (i == 0 || violations[i - 1] > kGood) continue;
    const double part = (kGood - violations[i - 1]) / (violations[i] - violations[i - 1]);
    best = std::max(best, goodputs[i - 1] + part * (goodputs[i] - goodputs[i - 1]));
  }
  return best;
}

std::size_t SeedsOf(const PlacementCurve& curve) { return curve.runs.front().size(); }

std::vector<double> At(const PlacementCurve& curve, std::size_t load, Field field) {
  std::vector<double> values;
  for (const PlacementRun& run : curve.runs[load]) values.push_back(run.*field);
  return values;
}

// The sum over all loads, a value for each seed.
std::vector<double> Sums(const PlacementCurve& curve, Field field) {
  std::vector<double> sums(SeedsOf(curve));
  for (const auto& of_load : curve.runs) {
    for (std::size_t seed = 0; seed < sums.size(); ++seed) sums[seed] += of_load[seed].*field;
  }
  return sums;
}

std::vector<double> Means(const PlacementCurve& curve, Field field) {
  std::vector<double> means = Sums(curve, field);
  for (double& mean : means) mean /= static_cast<double>(curve.runs.size());
  return means;
}

// Late or dropped of what arrives at all loads together: by requests, not by loads.
std::vector<double> ViolationsOfAll(const PlacementCurve& curve) {
  std::vector<double> lost(SeedsOf(curve)), all(SeedsOf(curve));
  for (const auto& of_load : curve.runs) {
    for (std::size_t seed = 0; seed < lost.size(); ++seed) {
      const PlacementRun& run = of_load[seed];
      // goodput = arrivals (1 - violations)
      const double arrivals =
          run.violations < 1 ? run.goodput / (1 - run.violations) : run.throughput;
      all[seed] += arrivals;
      lost[seed] += arrivals * run.violations;
    }
  }
  for (std::size_t seed = 0; seed < lost.size(); ++seed) {
    lost[seed] = all[seed] > 0 ? lost[seed] / all[seed] : 0;
  }
  return lost;
}

std::vector<double> At99(const PlacementCurve& curve, Field violations) {
  std::vector<double> values;
  for (std::size_t seed = 0; seed < SeedsOf(curve); ++seed) {
    std::vector<double> goodputs, lost;
    for (const auto& of_load : curve.runs) {
      goodputs.push_back(of_load[seed].goodput);
      lost.push_back(of_load[seed].*violations);
    }
    values.push_back(GoodputAt99(goodputs, lost));
  }
  return values;
}

class Writer {
 public:
  Writer(const std::vector<PlacementCurve>& curves, std::uint32_t seed, Report& report)
      : curves_(curves), seed_(seed), report_(report) {}

  void Write() {
    for (const PlacementCurve& curve : curves_) {
      WriteCurve(curve);
      if (curve.gpus == curves_.front().gpus) WriteAllLoads(curve);
    }
    for (const PlacementCurve& best : curves_) {
      if (best.placer != "lagoon" && best.placer != "inss") continue;
      for (const PlacementCurve& other : curves_) {
        const bool beside = other.gpus == best.gpus && other.block == best.block;
        if (beside && best.gpus == curves_.front().gpus && other.placer != best.placer) {
          WriteRatios(best, other);
        }
      }
    }
    Json list = Json::array();
    for (const PlacementCurve& curve : curves_) list.push_back(JsonOf(curve));
    report_.Field("curves", std::move(list));
  }

 private:
  static std::string NameOf(const PlacementCurve& curve) {
    return (curve.block == "fair" ? "" : curve.block + ".") + curve.placer;
  }
  static std::string LoadOf(const PlacementCurve& curve, std::size_t load) {
    return fmt::format(".load{:.2f}", curve.loads[load]);
  }

  void Put(const std::string& name, const std::vector<double>& values) {
    const Interval interval = MedianInterval(values, seed_);
    report_.Metric(name, interval.median);
    report_.Metric(name + ".low", interval.low);
    report_.Metric(name + ".high", interval.high);
  }
  void PutWithMean(const std::string& name, const std::vector<double>& values) {
    Put(name, values);
    report_.Metric(name + ".mean", Mean(values));
  }

  void WriteCurve(const PlacementCurve& curve) {
    const std::string of = fmt::format("{}.gpus{}", NameOf(curve), curve.gpus);
    Put("goodput_at_99." + of, At99(curve, &PlacementRun::violations));
    Put("goodput_at_99_of_served." + of, At99(curve, &PlacementRun::violations_of_served));
    double longest = 0;
    std::vector<double> means;
    for (std::size_t load = 0; load < curve.loads.size(); ++load) {
      Put("violation_rate." + of + LoadOf(curve, load), At(curve, load, &PlacementRun::violations));
      for (const PlacementRun& run : curve.runs[load]) {
        longest = std::max(longest, run.longest_decision_ms);
        means.push_back(run.mean_decision_ms);
      }
    }
    report_.Metric("placement_decision_ms." + of, Mean(means));
    report_.Metric("placement_decision_ms_max." + of, longest);
  }

  void WriteAllLoads(const PlacementCurve& curve) {
    const std::string name = NameOf(curve);
    PutWithMean("violation_rate." + name, ViolationsOfAll(curve));
    Put("moves." + name, Sums(curve, &PlacementRun::moves));
    for (std::size_t load = 0; load < curve.loads.size(); ++load) {
      Put("violation_rate." + name + LoadOf(curve, load),
          At(curve, load, &PlacementRun::violations));
      report_.Metric("moves." + name + LoadOf(curve, load),
                     Mean(At(curve, load, &PlacementRun::moves)));
    }
    for (const auto& [metric, field] :
         {std::pair<const char*, Field>{"gpus_used.", &PlacementRun::gpus_used},
          {"goodput_per_gpu.", &PlacementRun::goodput_per_gpu},
          {"fragments_each.", &PlacementRun::fragments_each},
          {"busy.", &PlacementRun::busy}}) {
      report_.Metric(metric + name, Mean(Means(curve, field)));
    }
  }

  // Seed by seed. Without a divisor there is no ratio.
  void PutRatio(const std::string& name, const std::vector<double>& ours,
                const std::vector<double>& theirs, bool with_mean) {
    std::vector<double> ratios;
    for (std::size_t seed = 0; seed < ours.size(); ++seed) {
      if (theirs[seed] <= 0) return;
      ratios.push_back(ours[seed] / theirs[seed]);
    }
    with_mean ? PutWithMean(name, ratios) : Put(name, ratios);
  }

  void WriteRatios(const PlacementCurve& best, const PlacementCurve& other) {
    const std::string over = fmt::format("{}_over_{}", best.placer, other.placer);
    const std::string capacity = best.block == "fair" ? "capacity_ratio.fair." : "capacity_ratio.";
    for (const auto& [prefix, field] :
         {std::pair<std::string, Field>{"goodput_ratio." + best.block + ".",
                                        &PlacementRun::goodput},
          {capacity, &PlacementRun::capacity}}) {
      PutRatio(prefix + over, Sums(best, field), Sums(other, field), true);
      for (std::size_t load = 0; load < best.loads.size(); ++load) {
        PutRatio(prefix + over + LoadOf(best, load), At(best, load, field), At(other, load, field),
                 false);
      }
    }
    PutRatio(fmt::format("goodput_at_99_ratio.{}.{}", best.block, over),
             At99(best, &PlacementRun::violations), At99(other, &PlacementRun::violations), true);
  }

  static Json JsonOf(const PlacementCurve& curve) {
    Json list = Json::array();
    for (std::size_t load = 0; load < curve.loads.size(); ++load) {
      const auto mean = [&](Field field) { return Mean(At(curve, load, field)); };
      list.push_back({{"load", curve.loads[load]},
                      {"goodput", mean(&PlacementRun::goodput)},
                      {"goodput_each", At(curve, load, &PlacementRun::goodput)},
                      {"throughput", mean(&PlacementRun::throughput)},
                      {"violations", mean(&PlacementRun::violations)},
                      {"violations_each", At(curve, load, &PlacementRun::violations)},
                      {"violations_of_served", mean(&PlacementRun::violations_of_served)},
                      {"worst_model", mean(&PlacementRun::worst_model)},
                      {"late", mean(&PlacementRun::late)},
                      {"fragments", mean(&PlacementRun::fragments)},
                      {"fragments_each", mean(&PlacementRun::fragments_each)},
                      {"capacity", mean(&PlacementRun::capacity)},
                      {"gpus_used", mean(&PlacementRun::gpus_used)},
                      {"goodput_per_gpu", mean(&PlacementRun::goodput_per_gpu)},
                      {"moves", mean(&PlacementRun::moves)},
                      {"busy", mean(&PlacementRun::busy)},
                      {"resnet50_ms", mean(&PlacementRun::resnet50_ms)},
                      {"vgg16_ms", mean(&PlacementRun::vgg16_ms)}});
    }
    return {{"block", curve.block},
            {"placer", curve.placer},
            {"gpus", curve.gpus},
            {"points", std::move(list)}};
  }

  const std::vector<PlacementCurve>& curves_;
  const std::uint32_t seed_;
  Report& report_;
};

}  // namespace

void WritePlacementCurves(const std::vector<PlacementCurve>& curves, std::uint32_t seed,
                          Report& report) {
  if (!curves.empty() && !curves.front().runs.empty()) Writer(curves, seed, report).Write();
}

}  // namespace lagoon::bench

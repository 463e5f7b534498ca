#include "bench/measure/evidence.h"

#include <fmt/format.h>

#include <cstdio>

namespace lagoon::bench {
namespace {

nlohmann::json ToJson(const Interval& interval) {
  return {{"median", interval.median},
          {"low", interval.low},
          {"high", interval.high},
          {"pairs", interval.pairs}};
}

}  // namespace

Evidence::Evidence(Report& report, std::uint32_t seed)
    : report_(report),
      seed_(seed),
      intervals_(report.json().value("intervals", nlohmann::json::object())),
      targets_(report.json().value("targets", nlohmann::json::array())) {}

Interval Evidence::Add(const MetricName& name, std::span<const double> values) {
  const Interval interval = MedianInterval(values, seed_);
  AddInterval(name, interval);
  return interval;
}

void Evidence::AddInterval(const MetricName& name, const Interval& interval) {
  if (interval.pairs == 0) return;
  report_.Metric(name, interval.median);
  intervals_[name.Text()] = ToJson(interval);
}

Verdict Evidence::Target(const std::string& name, const Interval& interval, Bound bound,
                         double target, bool clean) {
  const Verdict verdict = clean ? Judge(interval, bound, target) : Verdict::kUndecided;
  nlohmann::json entry = ToJson(interval);
  entry.update({{"metric", name},
                {"bound", Name(bound)},
                {"target", target},
                {"undisturbed", clean},
                {"outcome", Name(verdict)}});
  targets_.push_back(std::move(entry));
  lines_ += fmt::format("{}: {:.4g}, 95 % [{:.4g}, {:.4g}] of {} pairs; {} {:g}: {}\n", name,
                        interval.median, interval.low, interval.high, interval.pairs, Name(bound),
                        target, Name(verdict));
  return verdict;
}

void Evidence::Finish(const std::string& suffix) {
  report_.Field("intervals", intervals_);
  report_.Field("targets", targets_);
  report_.Field("host" + suffix, host_.Json());
  lines_ +=
      fmt::format("host: {} of {} windows disturbed, {} trials measured again, {} do not count\n",
                  host_.disturbed, host_.windows, host_.repeated, host_.thrown_out);
  for (const std::string& group : host_.only_disturbed) {
    lines_ += fmt::format("host: no undisturbed trial of {}: nothing is decided about it\n", group);
  }
  std::fputs(lines_.c_str(), stderr);
}

}  // namespace lagoon::bench

#include "bench/papers/disb_paper.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kLatency = "realtime_latency_normalized_mean";
constexpr std::string_view kP99 = "realtime_latency_normalized_p99";
constexpr std::string_view kThroughput = "throughput_normalized";
constexpr std::string_view kOverall = "REEF 6.3";
constexpr std::string_view kOrion = "REEF 6.6";

constexpr DisbPaperNumber Number(std::string_view device, std::string_view workload,
                                 std::string_view scheduler, std::string_view metric, double value,
                                 std::string_view source = kOverall) {
  return {device, workload, scheduler, metric, value, value, source};
}
constexpr DisbPaperNumber Calibrated(DisbPaperNumber number) {
  number.set = true;
  return number;
}

// In D, E and the real-world trace real-time requests wait for one another. For these three, 6.3
// compares the latency with that of real-time clients alone (at most 1.042, in E), and gives one
// range of throughputs for all.
constexpr std::string_view kVersusAlone = "realtime_latency_vs_alone_mean";
constexpr DisbPaperNumber Range(std::string_view device, std::string_view workload,
                                std::string_view metric, double least, double most) {
  return {device, workload, "reef", metric, least, most, kOverall};
}

constexpr std::array kNumbers{
    Number("mi50", "A", "sequential", kLatency, 2.87),
    Number("mi50", "B", "sequential", kLatency, 3.66),
    Number("mi50", "A", "sequential", kThroughput, 1.0),
    Number("mi50", "B", "sequential", kThroughput, 1.0),
    Number("mi50", "C", "sequential", kThroughput, 1.0),
    Number("mi50", "A", "streams", kLatency, 1.10),
    Number("mi50", "B", "streams", kLatency, 1.21),
    Number("mi50", "C", "streams", kLatency, 8.1),
    Number("mi50", "A", "streams", kThroughput, 1.34),
    Number("mi50", "B", "streams", kThroughput, 1.72),
    Calibrated(Number("mi50", "C", "streams", kThroughput, 1.91)),
    Number("mi50", "A", "reef", kLatency, 1.005),
    Number("mi50", "B", "reef", kLatency, 1.005),
    Number("mi50", "C", "reef", kLatency, 1.02),
    Range("mi50", "D", kVersusAlone, 1.0, 1.042),
    Number("mi50", "E", "reef", kVersusAlone, 1.042),
    Range("mi50", "REAL", kVersusAlone, 1.0, 1.042),
    Number("mi50", "A", "reef", kThroughput, 1.12),
    Number("mi50", "B", "reef", kThroughput, 1.28),
    Number("mi50", "C", "reef", kThroughput, 1.53),
    Range("mi50", "D", kThroughput, 1.22, 1.42),
    Range("mi50", "E", kThroughput, 1.22, 1.42),
    Range("mi50", "REAL", kThroughput, 1.22, 1.42),
    Number("gv100", "A", "sequential", kLatency, 2.16),
    Number("gv100", "B", "sequential", kLatency, 2.19),
    Number("gv100", "A", "sequential", kThroughput, 1.0),
    Number("gv100", "B", "sequential", kThroughput, 1.0),
    Number("gv100", "C", "sequential", kThroughput, 1.0),
    Number("gv100", "A", "streams", kLatency, 1.46),
    Number("gv100", "B", "streams", kLatency, 1.51),
    Number("gv100", "C", "streams", kLatency, 4.2),
    Number("gv100", "A", "streams", kThroughput, 1.15),
    Number("gv100", "B", "streams", kThroughput, 1.28),
    Calibrated(Number("gv100", "C", "streams", kThroughput, 1.42)),
    Number("gv100", "A", "one-kernel", kP99, 1.05, kOrion),
    Number("gv100", "B", "one-kernel", kP99, 1.05, kOrion),
    Number("gv100", "C", "one-kernel", kP99, 1.17, kOrion),
    Number("gv100", "C", "one-kernel", kThroughput, 0.97, kOrion),
    Number("gv100", "A", "reef", kLatency, 1.005),
    Number("gv100", "B", "reef", kLatency, 1.005),
    Number("gv100", "C", "reef", kLatency, 1.02),
    Range("gv100", "D", kVersusAlone, 1.0, 1.042),
    Range("gv100", "E", kVersusAlone, 1.0, 1.042),
    Range("gv100", "REAL", kVersusAlone, 1.0, 1.042),
    Number("gv100", "A", "reef", kThroughput, 1.08),
    Number("gv100", "B", "reef", kThroughput, 1.12),
    Number("gv100", "C", "reef", kThroughput, 1.20),
    Range("gv100", "D", kThroughput, 1.18, 1.25),
    Range("gv100", "E", kThroughput, 1.18, 1.25),
    Range("gv100", "REAL", kThroughput, 1.18, 1.25),
};

double OffPercent(const DisbPaperNumber& number, double got) {
  if (got < number.least) return (got / number.least - 1) * 100;
  if (got > number.most) return (got / number.most - 1) * 100;
  return 0;
}

std::string Published(const DisbPaperNumber& number) {
  return number.least == number.most ? fmt::format("{}", number.least)
                                     : fmt::format("{} to {}", number.least, number.most);
}

}  // namespace

std::span<const DisbPaperNumber> DisbPaperNumbers() { return kNumbers; }

std::string MetricOf(const DisbPaperNumber& number, const std::string& suffix,
                     const Json& metrics) {
  std::string newest = fmt::format("{}.{}.newest{}", number.metric, number.scheduler, suffix);
  if (metrics.contains(newest)) return newest;
  return fmt::format("{}.{}{}", number.metric, number.scheduler, suffix);
}

std::string ComparePaper(const std::string& device, const std::string& workload, bool suffixed,
                         Report& report) {
  Json list = Json::array();
  std::string table;
  const Json& metrics = report.json().at("metrics");
  for (const DisbPaperNumber& number : kNumbers) {
    if (number.device != device || !(suffixed || number.workload == workload)) continue;
    const std::string suffix = suffixed ? fmt::format(".{}", number.workload) : "";
    const std::string metric = MetricOf(number, suffix, metrics);
    if (!metrics.contains(metric)) continue;
    const double got = metrics[metric];
    const double off = OffPercent(number, got);
    const Json paper =
        number.least == number.most ? Json(number.least) : Json{number.least, number.most};
    if (table.empty()) {
      table = fmt::format("{:<52} {:>14} {:>8} {:>7}\n", "metric", "paper says", "we got", "off");
    }
    table +=
        fmt::format("{:<52} {:>14} {:>8.3f} {:>+6.1f}%\n", metric, Published(number), got, off);
    list.push_back({{"metric", metric},
                    {"paper", paper},
                    {"got", got},
                    {"off_percent", off},
                    {"set", number.set},
                    {"source", number.source}});
  }
  report.Field("paper", std::move(list));
  return table;
}

}  // namespace lagoon::bench

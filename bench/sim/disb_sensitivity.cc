#include "bench/sim/disb_sensitivity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 2> kMetrics{"realtime_latency_normalized_mean",
                                                   "throughput_normalized"};

struct Variant {
  const SimConstantInfo* constant;
  std::string source;
  std::string_view word;  // "half"
  GpuModel gpu;
};

// Nothing if the constant would keep its value, or the changed value is not valid.
std::optional<Variant> Vary(const GpuModel& gpu, std::size_t index, double factor) {
  const SimConstantInfo& info = SimConstantTable()[index];
  Variant variant{&info, gpu.sources[index], factor < 1 ? "half" : "double", gpu};
  std::int64_t& value = variant.gpu.constants.*info.member;
  const std::int64_t before = value;
  value = std::llround(static_cast<double>(before) * factor);
  if (value == before || !CheckSimConstants(variant.gpu.constants, gpu.name)) {
    return std::nullopt;
  }
  return variant;
}

std::vector<Variant> Variants(const GpuModel& gpu) {
  std::vector<Variant> variants;
  for (std::size_t i = 0; i < gpu.sources.size(); ++i) {
    const std::string& source = gpu.sources[i];
    if (source.find("assumed") == std::string::npos &&
        source.find("calibrated") == std::string::npos) {
      continue;
    }
    for (const double factor : {0.5, 2.0}) {
      if (std::optional<Variant> variant = Vary(gpu, i, factor)) {
        variants.push_back(*std::move(variant));
      }
    }
  }
  return variants;
}

Result<Json> RunOne(SimDisbOptions options, const GpuModel& gpu) {
  options.gpu = gpu;
  options.suffix.clear();
  options.clients = {DisbLoad::Late::kQueue};
  Report report("disb", {}, "");
  LAGOON_RETURN_IF_ERROR(RunDisbOnSim(options, report));
  Json metrics;
  for (const std::string& scheduler : options.schedulers) {
    for (const std::string_view metric : kMetrics) {
      const std::string name = fmt::format("{}.{}", metric, scheduler);
      metrics[name] = report.json().at("metrics").at(name);
    }
  }
  return metrics;
}

std::string Head(const SimDisbOptions& options) {
  std::string head = fmt::format("{:<22} {:<7}", "constant", "");
  for (const std::string& scheduler : options.schedulers) {
    head += fmt::format(" {:>18} {:>21}", scheduler + " latency", scheduler + " throughput");
  }
  return head + "\n";
}

std::string Row(const SimDisbOptions& options, std::string_view constant, std::string_view word,
                const Json& metrics, const Json* usual) {
  std::string row = fmt::format("{:<22} {:<7}", constant, word);
  for (const std::string& scheduler : options.schedulers) {
    int width = 18;
    for (const std::string_view metric : kMetrics) {
      const std::string name = fmt::format("{}.{}", metric, scheduler);
      const double value = metrics.at(name);
      const std::string text =
          usual == nullptr
              ? fmt::format("{:.3f}", value)
              : fmt::format("{:+.1f}%", (value / usual->at(name).get<double>() - 1) * 100);
      row += fmt::format(" {:>{}}", text, std::exchange(width, 21));
    }
  }
  return row + "\n";
}

}  // namespace

Status RunDisbSensitivity(const SimDisbOptions& options, Report& report, std::string& table) {
  LAGOON_ASSIGN_OR_RETURN(const Json usual, RunOne(options, options.gpu));
  table = Head(options) + Row(options, "as it is", "", usual, nullptr);
  for (const auto& [name, value] : usual.items()) report.Metric(name, value);
  Json list = Json::array();
  for (const Variant& variant : Variants(options.gpu)) {
    const std::string_view constant = variant.constant->name;
    LAGOON_ASSIGN_OR_RETURN(const Json metrics, RunOne(options, variant.gpu));
    for (const auto& [name, value] : metrics.items()) {
      report.Metric(fmt::format("{}.{}.{}", name, constant, variant.word), value);
    }
    list.push_back({{"constant", constant},
                    {"source", variant.source},
                    {"value", variant.gpu.constants.*variant.constant->member},
                    {"factor", variant.word},
                    {"metrics", metrics}});
    table += Row(options, constant, variant.word, metrics, &usual);
  }
  report.Field("sensitivity", std::move(list));
  return {};
}

}  // namespace lagoon::bench

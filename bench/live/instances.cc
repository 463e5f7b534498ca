#include "bench/live/instances.h"

#include <fmt/format.h>
#include <malloc.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "bench/client/bound_model.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/child.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

enum class Way : std::uint8_t { kShared, kAlone };

constexpr double kLeastMib = 4.0 / 1024;  // a page: an instance of a tiny model may add nothing

// What one process measures.
struct Costs {
  double first_ms = 0, first_mib = 0;  // of the first instance
  double ms = 0, mib = 0;              // of the other one
};

// Table 1 of GSLICE: load time in ms and memory in MB of an instance alone (SA), and of one that
// shares its parameters (PS).
struct Published {
  std::string_view model;
  double alone_ms, shared_ms, alone_mb, shared_mb;
};
constexpr std::array kTable1{
    Published{"alexnet", 781, 97, 1037, 795}, Published{"resnet50", 430, 89, 917, 805},
    Published{"resnet152", 747, 103, 1101, 805}, Published{"vgg19", 1561, 107, 1389, 825}};

// Private memory of this process, without what the allocator keeps for later.
double PrivateMib() {
  malloc_trim(0);
  std::ifstream status("/proc/self/status");
  double kib = 0;
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib / 1024;
}

Result<Costs> MeasureHere(const std::string& file, Way way, std::uint32_t workers) {
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice({.workers = workers}));
  Costs costs;
  const double before_mib = PrivateMib();
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(const auto first, BoundModel::Load(file, file, on));
  costs.first_ms = ToMilliseconds(Now() - begin);
  LAGOON_RETURN_IF_ERROR(first->Run(*on.device));
  const double between_mib = PrivateMib();
  costs.first_mib = between_mib - before_mib;
  const TimePoint again = Now();
  LAGOON_ASSIGN_OR_RETURN(const auto other, way == Way::kShared ? first->Twin(*on.device)
                                                                : BoundModel::Load(file, file, on));
  costs.ms = ToMilliseconds(Now() - again);
  LAGOON_RETURN_IF_ERROR(other->Run(*on.device));
  costs.mib = PrivateMib() - between_mib;
  return costs;
}

Costs MedianOf(const std::vector<Costs>& rounds) {
  const auto median = [&](double Costs::*field) {
    std::vector<double> values;
    for (const Costs& one : rounds) values.push_back(one.*field);
    return Median(values);
  };
  return {median(&Costs::first_ms), median(&Costs::first_mib), median(&Costs::ms),
          median(&Costs::mib)};
}

// How many instances fit into 16 GiB, the memory of the paper's V100.
double InstancesThatFit(double first_mib, double other_mib) {
  constexpr double kMib = 16 * 1024;
  return first_mib > kMib ? 0 : 1 + std::floor((kMib - first_mib) / std::max(other_mib, kLeastMib));
}

// As for figures: within a quarter of the paper's number it is reproduced.
std::string VerdictOfRatio(double paper, double got) {
  const double off = std::abs(got / paper - 1) * 100;
  if (off <= 25) return fmt::format("reproduced within {:.0f} %", std::ceil(off));
  if (got > paper) return "direction only: sharing saves more here";
  return got > 1 ? "direction only: sharing saves less here" : "not reproduced";
}

void Compare(const std::string& model, double load_ratio, double memory_ratio,
             nlohmann::json& paper) {
  for (const Published& row : kTable1) {
    if (row.model != model) continue;
    const auto add = [&](std::string_view metric, double published, double got) {
      paper.push_back({{"model", model},
                       {"metric", metric},
                       {"paper", published},
                       {"got", got},
                       {"verdict", VerdictOfRatio(published, got)}});
    };
    add("load_ratio", row.alone_ms / row.shared_ms, load_ratio);
    add("memory_ratio", row.alone_mb / row.shared_mb, memory_ratio);
  }
}

}  // namespace

Status RunInstances(const InstancesOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryRepository models,
                          TemporaryRepository::Link(options.zoo, options.models));
  ProgressBar progress("bench instances",
                       2 * options.rounds * static_cast<int>(options.models.size()));
  nlohmann::json paper = nlohmann::json::array();
  for (const std::string& name : options.models) {
    const std::string file = ModelFile(models.path(), name);
    std::array<std::vector<Costs>, 2> rounds;
    for (int round = 0; round < options.rounds; ++round) {
      for (const Way way : {Way::kShared, Way::kAlone}) {
        Result<Costs> costs =
            InChild<Costs>(file, [&] { return MeasureHere(file, way, options.workers); });
        if (!costs) return Annotate(name, std::move(costs).error());
        rounds[static_cast<std::size_t>(way)].push_back(*costs);
        progress.Step(name);
      }
    }
    const Costs shared = MedianOf(rounds[0]), alone = MedianOf(rounds[1]);
    report.Metric("file_mib." + name,
                  static_cast<double>(std::filesystem::file_size(file)) / (1 << 20));
    report.Metric("first_load_ms." + name, shared.first_ms);
    report.Metric("first_mib." + name, shared.first_mib);
    const double load_ratio = alone.ms / std::max(shared.ms, 1e-3);
    const double memory_ratio = alone.mib / std::max(shared.mib, kLeastMib);
    for (const auto& [way, costs] : {std::pair("shared", shared), std::pair("alone", alone)}) {
      const std::string of = fmt::format("{}.{}", name, way);
      report.Metric("load_ms." + of, costs.ms);
      report.Metric("instance_mib." + of, costs.mib);
      report.Metric("instances_in_16_gib." + of, InstancesThatFit(costs.first_mib, costs.mib));
    }
    report.Metric("load_ratio." + name, load_ratio);
    report.Metric("memory_ratio." + name, memory_ratio);
    Compare(name, load_ratio, memory_ratio, paper);
  }
  if (!paper.empty()) report.Field("paper", std::move(paper));
  return {};
}

}  // namespace lagoon::bench

#include "apps/inspect/inspect.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/command.h"
#include "apps/inspect/access_trace.h"
#include "apps/inspect/idempotence.h"
#include "apps/inspect/worst.h"
#include "apps/load.h"
#include "base/json.h"
#include "program/compile.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

struct InspectWords {
  std::vector<std::string> models;
  DeviceChoice device;
  int profile_runs = 0;
  std::size_t worst = 0;  // 0: the whole plan is shown
  CompileWords compile;
  bool json = false;
  bool idempotence = false;
};

void InspectWorst(const InspectWords& words, const LoadedPlan& loaded, const MachineRates& rates) {
  const std::vector<SlowKernel> worst = WorstKernels(loaded.plan, rates, words.worst);
  const auto print = words.json ? WorstJson : WorstText;
  std::printf("%s\n", print(loaded.plan, rates, worst).c_str());
}

void InspectModel(const InspectWords& words) {
  if (words.models.size() != 1) Die("inspect takes one model, except with --idempotence");
  const ComputeDevice on = Open(words.device);
  std::optional<MachineRates> rates;
  if (words.worst > 0) {
    Result<MachineRates> measured = MeasureRates(*on.device);
    if (!measured) Die(measured.error().message);
    rates = *measured;
  }
  const std::shared_ptr<LoadedPlan> loaded = Compile(words.models.front(), on, words.compile);
  if (words.profile_runs > 0) {
    if (const Status status = ProfilePlan(*loaded, *on.device, words.profile_runs); !status) {
      Die(status.error().message);
    }
  }
  if (rates) return InspectWorst(words, *loaded, *rates);
  std::printf("%s\n", (words.json ? InspectJson(*loaded) : InspectText(*loaded)).c_str());
}

std::vector<AccessSet> ReadAccessSets(const std::string& model, const ComputeDevice& on,
                                      const CompileWords& words) {
  if (model.ends_with(".json")) {
    auto sets = ReadTraceFile(model);
    if (!sets) Die(sets.error().message);
    return *std::move(sets);
  }
  return AccessSetsOf(Compile(model, on, words)->plan);
}

// The operations that are not idempotent, and the operations from which they restart.
Json GroupsOf(std::span<const AccessSet> sets, std::span<const std::uint32_t> groups) {
  Json list = Json::array();
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == i) continue;
    list.push_back({{"operation", i},
                    {"name", sets[i].name},
                    {"first", groups[i] == kNoGroup ? Json(nullptr) : Json(groups[i])}});
  }
  return list;
}

void PrintGroups(const Json& groups) {
  for (const Json& group : groups) {
    const std::string first =
        group["first"].is_null() ? "nowhere" : std::to_string(group["first"].get<std::uint32_t>());
    std::printf("  operation %u '%s' restarts from %s\n", group["operation"].get<std::uint32_t>(),
                group["name"].get<std::string>().c_str(), first.c_str());
  }
}

void InspectIdempotence(const InspectWords& words) {
  const ComputeDevice on = Open(words.device);
  Json document = Json::object();
  if (!words.json) {
    std::printf("%-24s %10s %10s %14s %13s\n", "model", "kernels", "idempotent", "not restorable",
                "largest group");
  }
  for (const std::string& model : words.models) {
    const std::vector<AccessSet> sets = ReadAccessSets(model, on, words.compile);
    const std::vector<std::uint32_t> groups = FindIdempotentGroups(sets);
    const IdempotenceSummary summary = Summarize(groups);
    const std::string name = model.ends_with(".json") ? model : ModelName(model);
    const Json listed = GroupsOf(sets, groups);
    if (words.json) {
      document[name] = {{"kernels", summary.operations},
                        {"idempotent", summary.idempotent},
                        {"not_restorable", summary.not_restorable},
                        {"largest_group", summary.largest_group},
                        {"not_idempotent", listed}};
      continue;
    }
    std::printf("%-24s %10zu %10zu %14zu %13zu\n", name.c_str(), summary.operations,
                summary.idempotent, summary.not_restorable, summary.largest_group);
    if (words.models.size() == 1) PrintGroups(listed);
  }
  if (words.json) std::printf("%s\n", DumpJson(document, 2).c_str());
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show a compiled model: kernels, blocks, access sets, buffers");
  auto words = std::make_shared<InspectWords>();
  command
      ->add_option("MODEL", words->models,
                   "An .onnx file or a model's folder in a repository; with --idempotence any "
                   "number of them, or access traces (.json)")
      ->required();
  command->add_flag("--json", words->json, "Print JSON");
  CLI::Option* const profile =
      command
          ->add_option("--profile", words->profile_runs,
                       "Measure kernel and block times over this many runs")
          ->check(CLI::Range(1, 1000));
  command
      ->add_option("--worst", words->worst,
                   "List only the kernels that take more than twice what this machine, measured "
                   "first, needs for their operations or bytes; at most so many, the most lost "
                   "time first")
      ->check(CLI::Range(1, 10000))
      ->needs(profile);
  command->add_flag("--idempotence", words->idempotence,
                    "Count the idempotent kernels (which may simply run again) and the groups in "
                    "which the others restart");
  command->add_flag("--in-place", words->compile.in_place,
                    "Let outputs replace inputs in memory where that is possible");
  AddShapes(*command, words->compile);
  AddEngine(*command, words->compile.engine);
  AddPrecision(*command, words->compile.precision);
  AddDevice(*command, words->device);
  command->callback(
      [words] { words->idempotence ? InspectIdempotence(*words) : InspectModel(*words); });
}

}  // namespace lagoon

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/load.h"
#include "base/json.h"
#include "base/log.h"
#include "serving/open_core.h"

namespace lagoon {
namespace {

struct CheckWords {
  CoreOptions core;
  bool json = false;
};

bool IsServed(const ModelStatus& status) { return status.state == ModelState::kReady; }

void PrintJson(const std::vector<ModelStatus>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ModelStatus& row : rows) {
    json.push_back({{"model", row.name},
                    {"version", row.version},
                    {"served", IsServed(row)},
                    {"reason", row.reason},
                    {"notes", row.warnings}});
  }
  std::printf("%s\n", DumpJson(json, 2).c_str());
}

void PrintRows(const std::vector<ModelStatus>& rows) {
  for (const ModelStatus& row : rows) {
    const std::string version = row.version.empty() ? "" : " version " + row.version;
    std::printf("%-8s %s%s\n", IsServed(row) ? "served" : "refused", OneLine(row.name).c_str(),
                version.c_str());
    if (!IsServed(row)) std::printf("         why: %s\n", OneLine(row.reason).c_str());
    for (const std::string& note : row.warnings) {
      std::printf("         note: %s\n", OneLine(note).c_str());
    }
  }
}

void RunCheck(CheckWords& words) {
  spdlog::set_level(spdlog::level::off);  // what the log would say is printed below
  words.core.profile.runs = 1;
  std::vector<ModelStatus> rows;
  {
    const Result<std::unique_ptr<Inference>> core = OpenCore(words.core);
    if (!core) Die(core.error().message);
    rows = (*core)->Models();
  }
  if (words.json) {
    PrintJson(rows);
  } else {
    PrintRows(rows);
  }
  const auto refused = std::ranges::count(rows, false, IsServed);
  if (!words.json) {
    std::printf("\n%zu served, %td refused\n", rows.size() - static_cast<std::size_t>(refused),
                refused);
  }
  if (refused > 0) throw CLI::RuntimeError(1);
}

}  // namespace

void AddCheck(CLI::App& app) {
  auto words = std::make_shared<CheckWords>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Say which models of a repository are served, why others are refused, and what in their "
      "configuration has another meaning than in Triton. Ends with 1 if a model is refused");
  command
      ->add_option("repository", words->core.repository,
                   "Repository: DIR/<model>/<version>/model.onnx")
      ->required();
  AddDevice(*command, words->core.device);
  AddEngine(*command, words->core.engine);
  AddModelsPython(*command, words->core.python);
  command->add_flag("--json", words->json, "Print JSON");
  command->callback([words] { RunCheck(*words); });
}

}  // namespace lagoon

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

/// What the repository's model folder is for the server: a row for each version, or one for a model
/// that has none.
struct Row {
  bool served = false;
  std::string model, version;
  std::string reason;              // why it is not served
  std::vector<std::string> notes;  // what is different from what its configuration says
};

std::vector<Row> RowsOf(const Inference& core) {
  std::vector<Row> rows;
  for (const ModelStatus& status : core.Models()) {
    rows.push_back({status.state == ModelState::kReady, status.name, status.version, status.reason,
                    status.warnings});
  }
  return rows;
}

void PrintJson(const std::vector<Row>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    json.push_back({{"model", row.model},
                    {"version", row.version},
                    {"served", row.served},
                    {"reason", row.reason},
                    {"notes", row.notes}});
  }
  std::printf("%s\n", DumpJson(json, 2).c_str());
}

void PrintRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::string version = row.version.empty() ? "" : " version " + row.version;
    std::printf("%-8s %s%s\n", row.served ? "served" : "refused", OneLine(row.model).c_str(),
                version.c_str());
    if (!row.served) std::printf("         why: %s\n", OneLine(row.reason).c_str());
    for (const std::string& note : row.notes) {
      std::printf("         note: %s\n", OneLine(note).c_str());
    }
  }
}

void RunCheck(CheckWords& words) {
  spdlog::set_level(spdlog::level::off);  // what the log would say is printed below
  words.core.profile.runs = 1;
  std::vector<Row> rows;
  {
    const Result<std::unique_ptr<Inference>> core = OpenCore(words.core);
    if (!core) Die(core.error().message);
    rows = RowsOf(**core);
  }
  if (words.json) {
    PrintJson(rows);
  } else {
    PrintRows(rows);
  }
  const auto refused = std::ranges::count(rows, false, &Row::served);
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
  command->add_flag("--json", words->json, "Print JSON");
  command->callback([words] { RunCheck(*words); });
}

}  // namespace lagoon

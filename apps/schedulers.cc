#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "policies/registry.h"
#include "server/scheduler_json.h"

namespace lagoon {
namespace {

constexpr std::string_view kBegin =
    "<!-- written by `lagoon schedulers --docs docs/guide/schedulers.md` -->";
constexpr std::string_view kEnd = "<!-- end -->";

struct SchedulersWords {
  std::string scheduler;
  bool json = false;
  std::string docs;
};

std::string Values(const SchedulerParameter& parameter) {
  if (parameter.whole && parameter.least == 0 && parameter.most == 1) return "0 or 1";
  return fmt::format("{} to {}{}", ValueText(parameter.least), ValueText(parameter.most),
                     parameter.whole ? "" : ", also fractions");
}

void PrintParameter(const SchedulerParameter& parameter, std::string_view start) {
  std::printf("%s",
              fmt::format("  {} ({}): {}\n", start, Values(parameter), parameter.meaning).c_str());
}

void PrintScheduler(std::string_view name) {
  std::printf("%s", fmt::format("{}\n  {}\n", name, SummaryOf(name)).c_str());
  for (const auto& [parameter, value] : ParametersOf(MakeScheduler(name)->config)) {
    PrintParameter(*parameter, fmt::format("{}={}", parameter->name, ValueText(value)));
  }
}

void PrintSchedulers() {
  for (const std::string_view name : SchedulerNames()) {
    std::string text = fmt::format("{}\n  {}\n ", name, SummaryOf(name));
    for (const auto& [parameter, value] : ParametersOf(MakeScheduler(name)->config)) {
      text += fmt::format(" {}={}", parameter->name, ValueText(value));
    }
    std::printf("%s\n", text.substr(0, text.find_last_not_of("\n ") + 1).c_str());
  }
  std::printf("\nParameters:\n");
  for (const SchedulerParameter& one : SchedulerParameterTable()) PrintParameter(one, one.name);
}

// "0: `a` `b`; 1: `c`": the schedulers by their default.
std::string Defaults(const SchedulerParameter& parameter) {
  std::vector<std::pair<double, std::vector<std::string>>> defaults;
  for (const std::string_view name : SchedulerNames()) {
    for (const ParameterValue& value : ParametersOf(MakeScheduler(name)->config)) {
      if (value.parameter != &parameter) continue;
      auto found =
          std::ranges::find(defaults, value.value, [](const auto& one) { return one.first; });
      if (found == defaults.end()) found = defaults.insert(found, {value.value, {}});
      found->second.push_back(fmt::format("`{}`", name));
    }
  }
  std::vector<std::string> texts;
  for (const auto& [value, names] : defaults) {
    texts.push_back(fmt::format("{}: {}", ValueText(value), fmt::join(names, " ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// The tables of docs/guide/schedulers.md.
std::string Tables() {
  std::string text = "| scheduler | what it does |\n| --- | --- |\n";
  for (const std::string_view name : SchedulerNames()) {
    text += fmt::format("| `{}` | {} |\n", name, SummaryOf(name));
  }
  text += "\n| parameter | values | default of each scheduler that has it | meaning |\n";
  text += "| --- | --- | --- | --- |\n";
  for (const SchedulerParameter& parameter : SchedulerParameterTable()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", parameter.name, Values(parameter),
                        Defaults(parameter), parameter.meaning);
  }
  return text;
}

void RenewDocs(const std::string& path) {
  std::ifstream in(path);
  if (!in) Die(fmt::format("--docs: cannot read '{}'", path));
  std::stringstream content;
  content << in.rdbuf();
  std::string page = content.str();
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd, begin == page.npos ? 0 : begin);
  if (begin == page.npos || end == page.npos) {
    Die(fmt::format("--docs: '{}' has no lines '{}' and '{}'", path, kBegin, kEnd));
  }
  const std::size_t after = begin + kBegin.size() + 1;
  page.replace(after, end - after, Tables());
  std::ofstream out(path);
  out << page;
  out.close();
  if (!out) Die(fmt::format("--docs: cannot write '{}'", path));
}

void ListSchedulers(const SchedulersWords& words) {
  if (!words.docs.empty()) return RenewDocs(words.docs);
  const std::string_view one = words.scheduler;
  if (!one.empty()) {
    const Result<Scheduler> known = MakeScheduler(SchedulerChoice{words.scheduler});
    if (!known) Die(known.error().message);
  }
  const auto names = one.empty() ? SchedulerNames() : std::span(&one, 1);
  if (words.json) {
    std::printf("%s\n", SchedulersJson(names, 2).c_str());
    return;
  }
  if (one.empty()) return PrintSchedulers();
  PrintScheduler(one);
}

}  // namespace

void AddSchedulerList(CLI::App& app) {
  auto words = std::make_shared<SchedulersWords>();
  CLI::App* command = app.add_subcommand(
      "schedulers", "List the schedulers: what each does, and its parameters with their bounds");
  command->add_option("NAME", words->scheduler, "Only this scheduler");
  CLI::Option* json = command->add_flag("--json", words->json, "Print JSON");
  command
      ->add_option("--docs", words->docs,
                   "Update the tables of schedulers in this page (docs/guide/schedulers.md)")
      ->excludes(json);
  command->callback([words] { ListSchedulers(*words); });
}

}  // namespace lagoon

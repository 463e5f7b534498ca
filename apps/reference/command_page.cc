#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/reference/markdown.h"
#include "apps/reference/pages.h"
#include "program/profile/profile_file.h"

namespace lagoon {
namespace {

// A list of more names than this is left to --help.
constexpr std::size_t kMostNames = 12;

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> Options(const CLI::App& command) {
  return command.get_options([&command](const CLI::Option* option) {
    return option != command.get_help_ptr() && option != command.get_help_all_ptr() &&
           !option->get_group().empty();
  });
}

// A flag that sets something to false has the name "--no-thing{false}".
std::string NameOf(const CLI::Option& option) {
  const std::string name =
      option.get_positional() ? option.get_name(true, false) : option.get_name(false, true);
  return name.substr(0, name.find('{'));
}

// The default of an option, the same on every machine.
std::string DefaultOf(const CLI::Option& option) {
  const std::string text = option.get_default_str();
  if (text == DefaultProfileFolder()) return "~/.cache/lagoon/profiles";
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;  // a list
}

std::string AnyOf(std::string_view names, char delimiter) {
  const std::vector<std::string> list = CLI::detail::split(std::string(names), delimiter);
  if (list.size() > kMostNames) return "a name";
  return fmt::format("`{}`", fmt::join(list, "`, `"));
}

std::string KindOf(std::string_view type) {
  if (type == "TEXT") return "text";
  if (type == "FLOAT") return "number";
  return type == "INT" || type == "UINT" ? "whole number" : std::string(type);
}

// What an option takes. CLI11 has it as TYPE, TYPE:{NAME,NAME} or TYPE:TYPE in [LEAST - MOST]; our
// own options also as NAME|NAME.
std::string TakenBy(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name();
  if (type.find('|') != std::string::npos) return AnyOf(type, '|');
  const std::string kind = type.substr(0, type.find(':'));
  const std::string range = type.size() > kind.size() ? type.substr(kind.size() + 1) : "";
  if (range.starts_with('{')) return AnyOf(range.substr(1, range.size() - 2), ',');
  const std::size_t bounds = range.find('[');
  if (bounds == std::string::npos) return KindOf(kind);
  const std::string within = range.substr(bounds + 1, range.size() - bounds - 2);
  return fmt::format("{}, {}", KindOf(kind), CLI::detail::find_and_replace(within, " - ", " to "));
}

std::string EffectOf(const CLI::Option& option) {
  std::set<std::string> needed;
  for (const CLI::Option* other : option.get_needs()) needed.insert(NameOf(*other));
  const std::string& text = option.get_description();
  return needed.empty() ? text : fmt::format("{} (needs `{}`)", text, fmt::join(needed, "`, `"));
}

// The cells of an option's row in a table.
using Row = std::vector<std::string>;

Row RowOf(const CLI::Option& option) {
  const std::string usual = option.get_required() ? "required" : CodeSpan(DefaultOf(option));
  return {CodeSpan(NameOf(option)), TakenBy(option), usual, EffectOf(option)};
}

// How many commands have an option, by the option's row.
using RowCounts = std::map<Row, int>;

void CountRows(const CLI::App& command, RowCounts& counts) {
  for (const CLI::Option* option : Options(command)) {
    if (!option->get_positional()) ++counts[RowOf(*option)];
  }
  for (const CLI::App* inner : Commands(command)) CountRows(*inner, counts);
}

const Row kOptionHead = {"option", "takes", "default", "what it does"};

// The options that several commands have in the same words: said once, before the commands.
std::string SharedOptions(const RowCounts& counts) {
  std::vector<Row> rows;
  for (const auto& [row, count] : counts) {
    if (count > 1) rows.push_back(row);
  }
  if (rows.empty()) return "";
  return "\n## Options of several commands\n" + Table(kOptionHead, rows);
}

void AppendCommand(const CLI::App& command, const std::string& words, const RowCounts& counts,
                   std::string& page) {
  const std::string& description = command.get_description();
  const std::string first = description.substr(0, description.find("\n\n"));
  page += fmt::format("\n## {}\n{}", words, Wrapped(first + "."));
  std::vector<Row> rows;
  std::vector<std::string> shared;
  for (const CLI::Option* option : Options(command)) {
    const Row row = RowOf(*option);
    const auto found = counts.find(row);
    if (found != counts.end() && found->second > 1) {
      shared.push_back(row[0]);
    } else {
      rows.push_back(row);
    }
  }
  if (!rows.empty()) page += Table(kOptionHead, rows);
  if (!shared.empty()) {
    page += '\n' + Wrapped(fmt::format("Shared options: {}.", fmt::join(shared, ", ")));
  }
  for (const CLI::App* inner : Commands(command)) {
    AppendCommand(*inner, words + ' ' + inner->get_name(), counts, page);
  }
}

// The options of every command of `program`; those that several commands have come first.
std::string OptionsOfCommands(const CLI::App& program) {
  RowCounts counts;
  for (const CLI::App* command : Commands(program)) CountRows(*command, counts);
  std::string text = SharedOptions(counts);
  for (const CLI::App* command : Commands(program)) {
    AppendCommand(*command, "lagoon " + command->get_name(), counts, text);
  }
  return text;
}

std::string BriefOf(const CLI::Option& option) {
  const std::string name = CodeSpan(NameOf(option));
  const std::string usual = DefaultOf(option);
  return usual.empty() ? name : fmt::format("{} {}", name, CodeSpan(usual));
}

// An option that so many benchmarks have, with the same default, is named once.
constexpr int kManyBenchmarks = 5;

// The options that many benchmarks have with the same default.
std::set<std::string> CommonOptions(const CLI::App& program) {
  std::map<std::string, int> counts;
  for (const CLI::App* command : Commands(program)) {
    for (const CLI::Option* option : Options(*command)) ++counts[BriefOf(*option)];
  }
  std::set<std::string> common;
  for (const auto& [text, count] : counts) {
    if (count >= kManyBenchmarks) common.insert(text);
  }
  return common;
}

void Write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) Die(fmt::format("--docs: cannot write '{}'", path.string()));
}

}  // namespace

Page CommandPage(const CLI::App& program) {
  std::string page = PageHead(
      "Command line",
      "The commands of `lagoon` and their options. Every command has `--help`, which lists the "
      "same and also the names that are too many for a table; `lagoon --help-all` lists all. A "
      "command that fails prints a line that begins with `lagoon:` and ends with a status other "
      "than 0. The options of `lagoon bench` and `lagoon train` are on pages of their own "
      "([bench](bench.md), [train](train.md)).");
  page += OptionsOfCommands(program);
  return {"command-line.md", std::move(page)};
}

Page BenchPage(const CLI::App& program) {
  const std::set<std::string> common = CommonOptions(program);
  std::vector<Row> rows;
  for (const CLI::App* command : Commands(program)) {
    std::vector<std::string> options;
    for (const CLI::Option* option : Options(*command)) {
      if (!common.contains(BriefOf(*option))) options.push_back(BriefOf(*option));
    }
    rows.push_back({CodeSpan(command->get_name()), command->get_description(),
                    fmt::format("{}", fmt::join(options, ", "))});
  }
  return {
      "bench.md",
      PageHead("lagoon bench",
               "The benchmarks, and their options with the defaults. `lagoon bench NAME --help` "
               "says what the options mean. Options and reports may change with every version.") +
          '\n' +
          Wrapped(fmt::format("Many benchmarks have these options, which the table leaves out: {}.",
                              fmt::join(common, ", "))) +
          Table({"name", "what it measures", "options of its own"}, rows)};
}

Page TrainPage(const CLI::App& program) {
  std::string page =
      PageHead("lagoon train", "Training of the placers that learn, and its options.");
  page += OptionsOfCommands(program);
  return {"train.md", std::move(page)};
}

void AddReference(CLI::App& program, const std::function<std::vector<Page>()>& pages) {
  CLI::App* command = program.add_subcommand("reference", "Write the pages of docs/reference");
  command->group("");
  auto folder = std::make_shared<std::string>();
  command->add_option("--docs", *folder, "Folder for the pages")->required();
  command->callback([folder, pages] {
    for (const Page& page : pages()) Write(std::filesystem::path(*folder) / page.file, page.text);
  });
}

}  // namespace lagoon

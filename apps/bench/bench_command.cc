#include "apps/bench/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/command.h"
#include "apps/load.h"
#include "base/log.h"
#include "bench/client/bound_model.h"
#include "policies/registry.h"

namespace lagoon {

using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

// Whether a file can be written, as far as one can know without creating it.
bool IsWritable(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return false;
  if (fs::exists(path, error)) return access(path.c_str(), W_OK) == 0;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return fs::is_directory(folder, error) && access(folder.c_str(), W_OK) == 0;
}

using Files = std::map<fs::path, std::string_view>;  // each with the option that names it

// Dies if one of the files of results is read by another option: FILE, MODEL=FILE or sim:FILE.
void CheckInputs(const CLI::App& command, const Files& outputs) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      for (const std::size_t before : {std::string::npos, value.find('='), value.find(':')}) {
        std::error_code error;
        const fs::path path = fs::weakly_canonical(value.substr(before + 1), error);
        const auto found = outputs.find(path);
        const bool itself =
            found != outputs.end() && option->check_name(std::string(found->second));
        if (found == outputs.end() || itself || !fs::exists(path, error)) continue;
        Die(fmt::format("{} would overwrite '{}', which {} reads", found->second,
                        value.substr(before + 1), option->get_name()));
      }
    }
  }
}

// Dies if a file of results cannot be written, or if two options name the same file. Devices, such
// as /dev/null, may be named twice.
void CheckOutputs(const BenchCommon& common) {
  Files seen;
  for (const auto& [option, name] :
       {std::pair<std::string_view, std::string>{"--json", common.json},
        {"--csv", common.csv},
        {"--samples", common.samples},
        {"--trace", common.tracing.path()}}) {
    if (name.empty()) continue;
    if (!IsWritable(name)) Die(fmt::format("{}: '{}' cannot be written", option, name));
    std::error_code error;
    const fs::path path = fs::weakly_canonical(name, error);
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) continue;
    const auto [other, is_new] = seen.emplace(path, option);
    if (!is_new) Die(fmt::format("{} and {} name the same file '{}'", other->second, option, name));
  }
  // With several schedulers the traces are FILE.SCHEDULER.json.
  const auto trace = std::ranges::find(seen, "--trace", &Files::value_type::second);
  for (const auto& [path, option] : seen) {
    if (trace == seen.end() || path.parent_path() != trace->first.parent_path()) continue;
    const std::string stem = trace->first.stem().string();
    if (path.filename().string().starts_with(stem + ".") && path.stem() != stem &&
        path.extension() == trace->first.extension()) {
      Die(fmt::format("{} '{}' could be one of the traces of --trace '{}': choose another name",
                      option, path.string(), trace->first.string()));
    }
  }
  CheckInputs(*common.command, seen);
}

}  // namespace

void Measure(const std::string& name, Json configuration, const BenchCommon& common,
             const std::function<Status(bench::Report&)>& run) {
  if (!common.plot.empty() && common.json.empty()) {
    Die("--plot draws from the file of --json; name one");
  }
  CheckOutputs(common);
  spdlog::set_level(spdlog::level::warn);
  bench::Report report(name, std::move(configuration), Build());
  report.KeepSamples(!common.samples.empty());
  if (const Status status = run(report); !status) Die(status.error().message);
  if (const Status status = report.Write(common.json); !status) Die(status.error().message);
  const auto write = [](const std::string& path, const bench::CsvTable& table) {
    if (path.empty()) return;
    if (const Status status = table.Write(path); !status) Die(status.error().message);
  };
  write(common.csv, report.RowTable());
  write(common.samples, report.SampleTable());
  if (!common.plot.empty()) Draw(common.python, common.json, common.plot);
}

void RequireDevice(const DeviceChoice& choice) {
  if (choice.name.starts_with("sim:")) {
    Die(
        fmt::format("there is no device '{}' here: `lagoon bench disb` and `load` take simulated "
                    "devices",
                    choice.name));
  }
  if (choice.name != "cpu") Open(choice);
}

void RequireModels(const BenchCommon& common, const std::vector<std::string>& models) {
  if (const Status status = bench::CheckZoo(common.zoo, models); !status) {
    Die(status.error().message);
  }
}

std::string FileOf(const std::string& folder, const std::string& name) {
  if (name.ends_with(".onnx")) return name;
  return (std::filesystem::path(folder) / (name + ".onnx")).string();
}

void RequireFiles(const std::string& folder, const std::vector<std::string>& names) {
  std::set<std::string> missing, absent;
  for (const std::string& name : names) {
    const std::string path = FileOf(folder, name);
    if (!std::filesystem::exists(path)) (path == name ? absent : missing).insert(name);
  }
  if (!absent.empty()) Die(fmt::format("there is no file {}", fmt::join(absent, ", ")));
  if (missing.empty()) return;
  Die(fmt::format("'{}' has no file of {}: `./run corpus --make --only '{}'` makes what is missing",
                  folder, fmt::join(missing, ", "), fmt::join(missing, ",")));
}

CLI::App* AddBenchmark(CLI::App& bench, const std::string& name, const std::string& description,
                       BenchCommon& common, bool has_comparator) {
  CLI::App* command = AddSimulation(bench, name, description, common);
  command->add_option("--zoo", common.zoo, "Folder of models (./run models makes it)")
      ->capture_default_str();
  if (!has_comparator) return command;
  AddPlot(*command, common);
  command->add_flag("--no-onnxruntime", common.no_onnxruntime, "Do not measure ONNX Runtime");
  command->add_option("--comparator-worker", common.worker, "Script that runs other engines")
      ->capture_default_str();
  return command;
}

CLI::App* AddSimulation(CLI::App& bench, const std::string& name, const std::string& description,
                        BenchCommon& common) {
  CLI::App* command = bench.add_subcommand(name, description);
  common.command = command;
  command->add_option("--json", common.json, "Write the report to this file instead of stdout");
  command->add_option("--csv", common.csv, "Also write the metrics as rows of a CSV file");
  return command;
}

void AddSamples(CLI::App& command, BenchCommon& common) {
  command.add_option("--samples", common.samples,
                     "Write the latency of every request as a row of a CSV file");
}

void AddPlot(CLI::App& command, BenchCommon& common) {
  command.add_option("--plot", common.plot, "Draw the report of --json into this folder");
  AddPython(command, common.python);
}

void AddModelNames(CLI::App& command, std::vector<std::string>& models) {
  command.add_option("--models", models, "Names in the zoo")->delimiter(',')->capture_default_str();
}

void AddSchedulers(CLI::App& command, std::vector<std::string>& schedulers) {
  schedulers = {"sequential", "streams", "wait", "one-kernel", "reset", "reef", "lagoon"};
  const auto split = [&schedulers](const std::vector<std::string>& words) {
    schedulers.clear();
    for (const std::string& word : words) {
      for (std::string& one : SplitSchedulers(word)) {
        if (std::ranges::find(schedulers, one) != schedulers.end()) {
          throw CLI::ValidationError("--schedulers", fmt::format("has '{}' twice", one));
        }
        schedulers.push_back(std::move(one));
      }
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--schedulers", split, "Schedulers to compare (docs/guide/schedulers.md)")
      ->check(CheckSchedulers())
      ->default_str(CLI::detail::join(schedulers, ","));
}

void AddRounds(CLI::App& command, int& rounds, int least) {
  command.add_option("--rounds", rounds, "Measurements of each case")
      ->check(CLI::Range(least, 1'000'000))
      ->capture_default_str();
}

void AddSeconds(CLI::App& command, double& seconds) {
  command
      .add_option("--seconds", seconds,
                  "Length of each measurement (on simulated devices in virtual seconds)")
      ->check(NumberBetween(0.01, 3600.0))
      ->capture_default_str();
}

CLI::Option* AddWindows(CLI::App& command, int& windows) {
  return command.add_option("--windows", windows, "Windows of each case; the cases take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void AddRequests(CLI::App& command, int& requests) {
  command
      .add_option("--requests", requests,
                  "Requests of each case, all rounds or windows together (p99 from 1000 on)")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
}

void AddPython(CLI::App& command, std::string& python) {
  command.add_option("--python", python, "Python with the packages of requirements.txt")
      ->capture_default_str();
}

Json Configurations(const std::vector<std::string>& schedulers) {
  Json configurations;
  for (const std::string& name : schedulers) {
    const SchedulerConfig config = MakeScheduler(name)->config;
    Json parameters = Json::object();
    for (const auto& [parameter, value] : ParametersOf(config)) {
      parameters[std::string(parameter->name)] = value;
    }
    configurations[name] = {
        {"parameters", std::move(parameters)},
        {"streams", static_cast<int>(config.streams)},
        {"preemption", static_cast<int>(config.preemption)},
        {"ranks", static_cast<int>(config.ranks)},
        {"max_active_jobs", config.max_active_jobs},
        {"depth", config.depth},
        {"max_kernels", config.max_kernels},
        {"extra_blocks", config.extra_blocks ? Json(*config.extra_blocks) : Json(nullptr)},
        {"padding_kernels", config.padding_kernels}};
  }
  return configurations;
}

Json GpuModelJson(const GpuModel& gpu) {
  Json constants;
  for (const SimConstantInfo& info : SimConstantTable()) {
    constants[std::string(info.name)] = gpu.constants.*info.member;
  }
  Json model = {{"name", gpu.name}, {"constants", std::move(constants)}};
  if (gpu.background) model["background"] = true;
  return model;
}

}  // namespace lagoon

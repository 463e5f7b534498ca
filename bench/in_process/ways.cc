#include "bench/in_process/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/measure/seconds.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

// All processes have read a command when it begins.
constexpr auto kSoon = std::chrono::milliseconds(30);

constexpr InProcessWay kWays[] = {
    {"ort", "ONNX Runtime as it comes", "ort"},
    {"ort_one_thread", "ONNX Runtime, a thread for each session, without spinning", "ort", 1,
     false},
    {"ort_nice19",
     "ONNX Runtime without spinning, the other models in processes of their own at nice 19", "ort",
     0, false, true},
    {"plugin", "ONNX Runtime with Lagoon's plug-in", "plugin"},
    {"lagoon", "liblagoon", "lagoon"}};

std::int64_t StampOf(TimePoint time) { return time.time_since_epoch().count(); }

}  // namespace

std::span<const InProcessWay> InProcessWays() { return kWays; }

Nanoseconds PeriodOf(const RobotLoad& load) { return FromSeconds(1 / load.scenario.rate); }

Result<std::unique_ptr<RunningWay>> RunningWay::Open(const InProcessWay& way,
                                                     const InProcessPrograms& programs,
                                                     const RobotLoad& load) {
  std::unique_ptr<RunningWay> opened(new RunningWay(programs, load));
  std::vector<std::size_t> models(load.models.size());
  std::iota(models.begin(), models.end(), std::size_t{0});
  if (way.nice_neighbours) {
    for (const std::size_t model : models) LAGOON_RETURN_IF_ERROR(opened->Start(way, {model}));
  } else {
    LAGOON_RETURN_IF_ERROR(opened->Start(way, models));
  }
  for (const Process& process : opened->processes_) {
    LAGOON_RETURN_IF_ERROR(process.process->Send({{"cmd", "info"}}));
  }
  for (const Process& process : opened->processes_) {
    LAGOON_ASSIGN_OR_RETURN(Json info, process.process->Receive());
    info.erase("ok");
    opened->info_.push_back(std::move(info));
  }
  return opened;
}

Status RunningWay::Start(const InProcessWay& way, const std::vector<std::size_t>& models) {
  const std::string engine = way.engine;
  const std::uint32_t threads = engine == "ort" ? way.threads : programs_.workers;
  std::vector<std::string> words = {
      programs_.python, programs_.worker,        engine,
      "--threads",      std::to_string(threads), way.spinning ? "--spinning" : "--no-spinning"};
  if (engine == "plugin") {
    words.insert(words.end(), {"--library", programs_.plugin, "--deadline-us",
                               fmt::format("{:.0f}", ToMicroseconds(PeriodOf(load_)))});
  }
  if (engine == "lagoon") words.insert(words.end(), {"--library", programs_.library});
  const bool neighbour = way.nice_neighbours && models.front() != 0;
  if (neighbour) words.insert(words.end(), {"--nice", "19"});
  for (const std::size_t index : models) {
    const RobotModel& model = load_.models[index];
    words.insert(words.end(),
                 {"--model", model.name, model.file, index == 0 ? "real-time" : "best-effort"});
    for (const InputFile& input : model.inputs) {
      words.insert(words.end(), {"--input", model.name, input.name,
                                 fmt::format("{}", fmt::join(input.dims, "x")), input.file});
    }
  }
  Result<std::unique_ptr<LineProcess>> started =
      LineProcess::Start(fmt::format("way {}", way.name), std::move(words));
  if (!started) {
    started.error().message += "; --python names another";
    return tl::unexpected<Error>(std::move(started).error());
  }
  processes_.push_back({*std::move(started), models});
  return {};
}

Result<InProcessWindow> RunningWay::Window(bool control, const std::vector<std::size_t>& loops,
                                           Nanoseconds length) {
  const TimePoint start = Now() + kSoon;
  std::vector<const Process*> active;
  for (const Process& process : processes_) {
    Json names = Json::array();
    bool controls = false;
    for (const std::size_t model : process.models) {
      if (std::ranges::count(loops, model) > 0) names.push_back(load_.models[model].name);
      controls = controls || (control && model == 0);
    }
    if (names.empty() && !controls) continue;
    LAGOON_RETURN_IF_ERROR(process.process->Send(
        {{"cmd", "window"},
         {"start_ns", StampOf(start)},
         {"end_ns", StampOf(start + length)},
         {"loops", std::move(names)},
         {"control", controls ? Json(load_.models.front().name) : Json(nullptr)},
         {"period_ns", PeriodOf(load_).count()}}));
    active.push_back(&process);
  }
  InProcessWindow window;
  window.loops.resize(load_.models.size());
  for (const Process* const process : active) {
    LAGOON_ASSIGN_OR_RETURN(const Json reply, process->process->Receive());
    for (const std::size_t model : process->models) {
      const auto loop = reply.at("loops").find(load_.models[model].name);
      if (loop == reply.at("loops").end()) continue;
      std::vector<double> latencies = loop->get<std::vector<double>>();
      const double all_us = std::reduce(latencies.begin(), latencies.end());
      const double runs = static_cast<double>(latencies.size());
      window.loops[model] = {std::move(latencies), runs * 1e6 / all_us};
    }
    const Json& controlled = reply.at("control");
    if (controlled.is_null()) continue;
    window.latencies_us = controlled.at("latencies_us").get<std::vector<double>>();
    window.runs_us = controlled.at("runs_us").get<std::vector<double>>();
    window.late = controlled.at("late").get<int>();
    window.given_up = controlled.at("given_up").get<int>();
    window.skipped = controlled.at("skipped").get<int>();
  }
  return window;
}

Result<std::vector<std::vector<double>>> RunningWay::InTurn(Nanoseconds length) {
  LineProcess& process = *processes_.front().process;
  LAGOON_RETURN_IF_ERROR(
      process.Send({{"cmd", "in_turn"}, {"end_ns", StampOf(Now() + kSoon + length)}}));
  LAGOON_ASSIGN_OR_RETURN(const Json reply, process.Receive());
  std::vector<std::vector<double>> latencies;
  for (const RobotModel& model : load_.models) {
    latencies.push_back(reply.at("latencies_us").at(model.name).get<std::vector<double>>());
  }
  return latencies;
}

Result<std::vector<double>> RunningWay::Empty(int runs, Nanoseconds apart) {
  LineProcess& process = *processes_.front().process;
  LAGOON_RETURN_IF_ERROR(
      process.Send({{"cmd", "empty"}, {"runs", runs}, {"apart_ns", apart.count()}}));
  LAGOON_ASSIGN_OR_RETURN(const Json reply, process.Receive());
  return reply.at("latencies_us").get<std::vector<double>>();
}

}  // namespace lagoon::bench

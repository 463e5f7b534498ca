#include "bench/robot/systems.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/client/line_process.h"
#include "bench/client/onnxruntime_beside.h"
#include "bench/client/schedule_class.h"
#include "bench/client/server_process.h"
#include "bench/client/temporary_repository.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kRealTime = "optimization { priority: PRIORITY_MAX }\n";
constexpr int kWarmUp = 5;

std::int64_t Nanos(TimePoint time) { return time.time_since_epoch().count(); }

// The answers within the window, of a second. `ends_us` counts from the start.
double PerSecond(const std::vector<double>& ends_us, const RobotWindow& window) {
  const double from = ToMicroseconds(window.begin - window.start);
  const double until = ToMicroseconds(window.end - window.start);
  const auto count =
      std::ranges::count_if(ends_us, [&](double end) { return end >= from && end < until; });
  return static_cast<double>(count) * 1e6 / (until - from);
}

std::vector<double> Milliseconds(std::vector<double> times_us) {
  for (double& time : times_us) time /= 1e3;
  return times_us;
}

void CountUnsent(const RobotWindow& window, std::size_t stream, StreamAnswers& answers) {
  if (stream >= window.arrivals_us.size()) return;  // of the background
  const auto sent = static_cast<int>(answers.latencies_ms.size()) + answers.failed;
  answers.unsent = static_cast<int>(window.arrivals_us[stream].size()) - sent;
}

// ---- Lagoon: a server and a client for each stream, or all in one process

class LagoonSystem final : public RobotSystem {
 public:
  static Result<std::unique_ptr<RobotSystem>> Open(const RobotSystemName& system,
                                                   const RobotOptions& options,
                                                   const RobotLoad& load) {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    for (const RobotModel& model : load.models) {
      const bool real_time = &model == &load.models.front();
      LAGOON_RETURN_IF_ERROR(
          repository.AddFile(model.name, model.file, real_time ? kRealTime : ""));
    }
    std::unique_ptr<LagoonSystem> opened(new LagoonSystem(std::move(repository), load));
    LAGOON_RETURN_IF_ERROR(system.transport == "process" ? opened->OpenWhole(system, options)
                                                         : opened->OpenServed(system, options));
    return opened;
  }

  Result<std::vector<StreamAnswers>> Measure(const RobotWindow& window) override {
    for (const Client& client : clients_) {
      Json streams = Json::array();
      for (const std::size_t stream : client.streams) streams.push_back(Words(window, stream));
      LAGOON_RETURN_IF_ERROR(client.process->Send({{"streams", streams}}));
    }
    std::vector<StreamAnswers> all(load_.streams());
    for (const Client& client : clients_) {
      LAGOON_ASSIGN_OR_RETURN(const Json reply, client.process->Receive());
      for (std::size_t i = 0; i < client.streams.size(); ++i) {
        const Json& said = reply.at("streams").at(i);
        if (said.is_null()) continue;
        StreamAnswers& answers = all[client.streams[i]];
        answers.failed = said.at("failed");
        answers.error = said.at("error").get<std::string>();
        answers.latencies_ms = Milliseconds(said.at("latencies_us"));
        answers.per_second = PerSecond(said.at("ends_us"), window);
        CountUnsent(window, client.streams[i], answers);
      }
    }
    return all;
  }

 private:
  struct Client {
    std::unique_ptr<LineProcess> process;
    std::vector<std::size_t> streams;
  };

  LagoonSystem(TemporaryRepository repository, const RobotLoad& load)
      : repository_(std::move(repository)), load_(load) {}

  Status OpenServed(const RobotSystemName& system, const RobotOptions& options) {
    std::vector<std::string> words = {"--models", repository_.path(), "--scheduler",
                                      system.scheduler};
    if (options.workers > 0) {
      words.insert(words.end(), {"--workers", std::to_string(options.workers)});
    }
    LAGOON_ASSIGN_OR_RETURN(server_, ServerProcess::Start(options.lagoon, std::move(words)));
    for (std::size_t stream = 0; stream < load_.streams(); ++stream) {
      const Json first = {{"transport", system.transport},
                          {"port", server_->port(system.transport)},
                          {"streams", Json::array({StreamWords(stream)})}};
      const ScheduleClass schedule_class =
          load_.RealTime(stream) ? ScheduleClass::kNormal : options.background_class;
      LAGOON_RETURN_IF_ERROR(AddClient(options, first, schedule_class, {stream}));
    }
    return {};
  }

  Status OpenWhole(const RobotSystemName& system, const RobotOptions& options) {
    Json first = {{"transport", system.transport},
                  {"repository", repository_.path()},
                  {"scheduler", system.scheduler},
                  {"workers", options.workers},
                  {"streams", Json::array()}};
    std::vector<std::size_t> streams;
    for (std::size_t stream = 0; stream < load_.streams(); ++stream) {
      first["streams"].push_back(StreamWords(stream));
      streams.push_back(stream);
    }
    return AddClient(options, first, ScheduleClass::kNormal, std::move(streams));
  }

  Json StreamWords(std::size_t stream) const {
    const RobotModel& model = load_.ModelOf(stream);
    Json inputs = Json::array();
    for (const InputFile& input : model.inputs) {
      inputs.push_back(
          {{"name", input.name}, {"type", input.type}, {"dims", input.dims}, {"file", input.file}});
    }
    return {{"model", model.name},
            {"connections", load_.RealTime(stream) ? load_.scenario.burst : 1},
            {"inputs", std::move(inputs)}};
  }

  Status AddClient(const RobotOptions& options, const Json& first, ScheduleClass schedule_class,
                   std::vector<std::size_t> streams) {
    const auto named = std::ranges::find_if(
        kScheduleClasses, [&](const auto& one) { return one.second == schedule_class; });
    const std::string name = fmt::format("the client of '{}'", load_.ModelOf(streams.front()).name);
    LAGOON_ASSIGN_OR_RETURN(auto process, LineProcess::Start(name, {options.client, "robot-client",
                                                                    "--class", named->first}));
    LAGOON_RETURN_IF_ERROR(process->Send(first));
    LAGOON_RETURN_IF_ERROR(process->Receive());
    clients_.push_back({std::move(process), std::move(streams)});
    return {};
  }

  Json Words(const RobotWindow& window, std::size_t stream) const {
    if (!window.active[stream]) return nullptr;
    if (load_.RealTime(stream)) {
      return {{"start_ns", Nanos(window.begin)},
              {"give_up_ns", Nanos(window.give_up())},
              {"arrivals_us", window.arrivals_us[stream]}};
    }
    return {{"start_ns", Nanos(window.start)}, {"end_ns", Nanos(window.end)}};
  }

  const TemporaryRepository repository_;
  const RobotLoad& load_;
  std::unique_ptr<ServerProcess> server_;  // null: the client has the models itself
  std::vector<Client> clients_;            // ended before the server
};

// ---- ONNX Runtime: a process for each stream

class OnnxRuntimeSystem final : public RobotSystem {
 public:
  static Result<std::unique_ptr<RobotSystem>> Open(const RobotSystemName& system,
                                                   const RobotOptions& options,
                                                   const RobotLoad& load) {
    std::unique_ptr<OnnxRuntimeSystem> opened(new OnnxRuntimeSystem(load));
    LAGOON_ASSIGN_OR_RETURN(opened->processes_, OnnxRuntimeBeside::Open(system.setting));
    for (std::size_t stream = 0; stream < load.streams(); ++stream) {
      Status added = opened->Add(stream, options);
      if (added) continue;
      added.error().message += "; --systems without onnxruntime leaves it out";
      return tl::unexpected<Error>(std::move(added).error());
    }
    return opened;
  }

  Result<std::vector<StreamAnswers>> Measure(const RobotWindow& window) override {
    for (std::size_t stream = load_.streams(); stream-- > 0;) {  // the background first
      if (!window.active[stream]) continue;
      ComparatorProcess& process = (*processes_)[stream];
      LAGOON_RETURN_IF_ERROR(load_.RealTime(stream)
                                 ? process.BeginOpenLoop(window.begin, window.arrivals_us[stream],
                                                         /*newest=*/false, window.give_up())
                                 : process.BeginLoop(window.start, window.end));
    }
    std::vector<StreamAnswers> all(load_.streams());
    for (std::size_t stream = 0; stream < load_.streams(); ++stream) {
      if (!window.active[stream]) continue;
      if (load_.RealTime(stream)) {
        LAGOON_ASSIGN_OR_RETURN(auto answers, (*processes_)[stream].EndOpenLoop());
        all[stream].latencies_ms = Milliseconds(std::move(answers.from_arrival_us));
        CountUnsent(window, stream, all[stream]);
      } else {
        LAGOON_ASSIGN_OR_RETURN(const std::vector<double> ends_us, (*processes_)[stream].EndLoop());
        all[stream].per_second = PerSecond(ends_us, window);
      }
    }
    return all;
  }

 private:
  explicit OnnxRuntimeSystem(const RobotLoad& load) : load_(load) {}

  Status Add(std::size_t stream, const RobotOptions& options) {
    const RobotModel& model = load_.ModelOf(stream);
    ComparatorOptions own = options.onnxruntime;
    own.inputs = model.inputs;
    LAGOON_RETURN_IF_ERROR(processes_->Add(model.file, load_.RealTime(stream), own));
    const auto warm = (*processes_)[stream].Run(1, kWarmUp);
    return warm ? Status() : tl::unexpected<Error>(warm.error());
  }

  const RobotLoad& load_;
  std::unique_ptr<OnnxRuntimeBeside> processes_;  // by stream
};

std::optional<RobotSystemName> ParseRobotSystem(const std::string& word) {
  constexpr std::string_view kLagoon = "lagoon:", kOnnxRuntime = "onnxruntime:";
  if (word.starts_with(kLagoon)) {
    return RobotSystemName{word, word.substr(kLagoon.size()), {}, {}};
  }
  if (!word.starts_with(kOnnxRuntime)) return {};
  RobotSystemName system{word, {}, {}, word.substr(kOnnxRuntime.size())};
  if (!IsOsSetting(system.setting)) return {};
  return system;
}

}  // namespace

Result<std::vector<RobotSystemName>> ParseRobotSystems(const std::vector<std::string>& words,
                                                       const std::vector<std::string>& transports) {
  std::vector<RobotSystemName> systems;
  for (const std::string& word : words) {
    const std::optional<RobotSystemName> system = ParseRobotSystem(word);
    if (!system) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no system: lagoon:SCHEDULER or onnxruntime:{}", word,
                              fmt::join(kOsSettings, "|")));
    }
    if (!system->lagoon()) systems.push_back(*system);
    for (const std::string& transport : transports) {
      if (!system->lagoon()) break;
      RobotSystemName& added = systems.emplace_back(*system);
      added.transport = transport;
      if (transports.size() > 1) added.name += "@" + transport;
    }
  }
  return systems;
}

Result<std::unique_ptr<RobotSystem>> OpenRobotSystem(const RobotSystemName& system,
                                                     const RobotOptions& options,
                                                     const RobotLoad& load) {
  return system.lagoon() ? LagoonSystem::Open(system, options, load)
                         : OnnxRuntimeSystem::Open(system, options, load);
}

}  // namespace lagoon::bench

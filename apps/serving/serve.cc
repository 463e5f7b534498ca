#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "apps/command.h"
#include "apps/load.h"
#include "apps/serving/listening.h"
#include "apps/serving/spans.h"
#include "apps/serving/triton_words.h"
#include "apps/tracing.h"
#include "apps/version.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "policies/registry.h"
#include "server/oip_json.h"
#include "server/remote/connect.h"
#include "server/server.h"
#include "server/telemetry/traced_core.h"
#include "serving/core/fleet_control.h"
#include "serving/core/scheduler_control.h"
#include "serving/fleet/open_fleet.h"
#include "serving/late/late_log.h"
#include "serving/open_core.h"
#include "serving/repository_poll.h"

namespace lagoon {
namespace {

// How long a front waits at its start for what its members have.
constexpr std::chrono::seconds kMostMemberWait{5};
// Measured: with less than 0.3 MiB left, a server hung or crashed while it stopped.
constexpr std::size_t kReserveBytes = 4 << 20;

struct ServeWords {
  CoreOptions core;
  std::string fleet;  // empty: one device
  std::string placer = "static";
  int lost_after_ms = 2000;
  std::string control = "none";  // --model-control
  double poll_seconds = 15;
  bool exit_on_error = false;
  std::vector<std::string> load_models;
  ListenWords listen;
  std::string example;  // a folder of request bodies for the model 'digits'
  Tracing tracing;
  std::string late_file;  // empty: no records of late requests
  SpanWords spans;
};

nlohmann::json Describe(const Inference& core, const Server& server) {
  nlohmann::json json = PortsOf(server);
  for (const ModelStatus& model : core.Models()) {
    json["models"][model.name] = {{"ready", model.state == ModelState::kReady},
                                  {"version", model.version},
                                  {"load_ms", model.load_ms},
                                  {"standalone_ms", ToMilliseconds(model.standalone)}};
  }
  return json;
}

std::string FirstExample(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  return files.empty() ? std::string() : *std::min_element(files.begin(), files.end());
}

void PrintDevice(Inference& core) {
  const SchedulerControl* const schedulers = core.schedulers();
  if (schedulers == nullptr) {
    std::printf("\nLagoon %s, in front of other servers\n\n", kVersion);
    return;
  }
  const DeviceInfo device = schedulers->device();
  std::printf("\nLagoon %s on %s, %u %s, scheduler '%s'\n\n", kVersion, device.description.c_str(),
              device.units, device.name == "cpu" ? "workers" : "multiprocessors",
              ChoiceOf(schedulers->scheduler()).Text().c_str());
}

void PrintBanner(const ServeWords& words, Inference& core, const Server& server) {
  PrintDevice(core);
  std::printf("  %-20s %-8s %-13s %10s %10s  %s\n", "model", "version", "class", "load ms",
              "alone ms", "alone for");
  for (const ModelStatus& model : core.Models()) {
    if (model.state != ModelState::kReady) {
      std::printf("  %-20s not served: %s\n", OneLine(model.name).c_str(),
                  OneLine(model.reason).c_str());
      continue;
    }
    std::printf("  %-20s %-8s %-13s %10.1f %10.2f  %s\n", model.name.c_str(), model.version.c_str(),
                model.job_class == JobClass::kRealTime ? "real-time" : "best-effort", model.load_ms,
                ToMilliseconds(model.standalone), OneLine(model.standalone_for).c_str());
  }
  PrintPorts(words.listen, server);
  const std::string example = words.example.empty() ? "" : FirstExample(words.example);
  if (!example.empty()) {
    std::printf(
        "\nClassify a handwritten digit:\n  curl -s -d @%s http://%s:%d/v2/models/digits/infer\n",
        example.c_str(), words.listen.server.address.c_str(), server.http_port());
  }
  std::printf("\nCtrl-C drains and stops.\n");
  std::fflush(stdout);
}

Result<std::unique_ptr<Inference>> OpenServed(const ServeWords& words) {
  if (words.fleet.empty()) return OpenCore(words.core);
  LAGOON_ASSIGN_OR_RETURN(const FleetWords devices, ParseFleet(words.fleet, words.core.device));
  FleetOptions options;
  options.placer = words.placer;
  RemoteOptions remote;
  remote.poll_timeout = std::chrono::milliseconds(words.lost_after_ms);
  remote.version = ServerVersion();
  remote.loads = !words.core.repository.empty();  // else the fleet does not know the models
  options.connect = ConnectServers(remote);
  return OpenFleet(words.core, devices, std::move(options));
}

/// Dies for words of --fleet with which other options go wrong, or have no effect.
void CheckFleet(const CLI::App& command, const ServeWords& words) {
  if (command.count("--fleet") == 0) return;
  const Result<FleetWords> fleet = ParseFleet(words.fleet, words.core.device);
  if (!fleet) Die("--fleet: " + fleet.error().message);
  if (!fleet->devices.empty()) {
    if (words.core.repository.empty()) {
      Die("--fleet: its devices serve the models of --models, which is missing");
    }
    return;
  }
  for (const char* const option :
       {"--device", "--workers", "--cuda-driver", "--gpu-silence", "--engine", "--python",
        "--scheduler", "--shares", "--profiles", "--max-wait", "--split-long",
        "--best-effort-minimum", "--late-file"}) {
    if (command.count(option) == 0) continue;
    Die(
        fmt::format("{}: is for a device, and a front of servers has none: give it to the servers "
                    "of --fleet",
                    option));
  }
}

/// Dies for options that do not go together.
void CheckWords(ServeWords& words) {
  if (words.core.repository.find('\n') != std::string::npos) {
    Die("--models (--model-repository): is given twice: a server has one repository; put links to "
        "the folders of all models into one folder");
  }
  if (!words.fleet.empty() && words.control != "none") {
    Die(
        fmt::format("--fleet: the placer loads and unloads models, so that --model-control {} "
                    "cannot",
                    words.control));
  }
  if (!words.fleet.empty() && words.tracing.wanted()) {
    Die("--fleet: a trace is of one device; leave --trace away");
  }
  if (words.core.repository.empty() && words.fleet.empty()) Die("--models: is required");
  if (!words.load_models.empty() && words.control != "explicit") {
    Die("--load-model: takes effect with --model-control explicit only");
  }
  if (words.control != "explicit") return;
  words.listen.server.model_control = true;
  const bool all = std::ranges::find(words.load_models, "*") != words.load_models.end();
  if (!all) words.core.models = words.load_models;
}

/// Waits until the fleet knows what its members have, so that a client who waits for --ports-file
/// is answered. A member that does not tell must not keep the others from their clients, and a
/// signal that stops the server ends the waiting.
void AwaitMembers(Inference& core, const sigset_t& signals) {
  const FleetControl* const fleet = core.fleet();
  if (fleet == nullptr) return;
  const TimePoint until = Now() + kMostMemberWait;
  const auto stopped = [&signals] {
    sigset_t pending;
    sigpending(&pending);
    const auto stops = [&](int signal) {
      return sigismember(&signals, signal) == 1 && sigismember(&pending, signal) == 1;
    };
    return std::ranges::any_of(std::array{SIGINT, SIGTERM, SIGHUP}, stops);
  };
  for (;;) {
    std::string silent;
    for (const FleetDeviceReport& member : fleet->ReadFleet().devices) {
      if (!member.told) silent += (silent.empty() ? "" : ", ") + Quoted(member.name);
    }
    if (silent.empty() || stopped()) return;
    if (Now() >= until) {
      spdlog::warn(
          "fleet: what {} serve is not known after {} s; requests for that are answered "
          "503 until then",
          silent, kMostMemberWait.count());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Dies if a model failed to load.
void CheckModels(const Inference& core) {
  std::string failed;
  for (const ModelStatus& model : core.Models()) {
    if (model.state == ModelState::kReady || model.reason == kNotLoaded) continue;
    failed += fmt::format("\n  {}: {}", OneLine(model.name), OneLine(model.reason));
  }
  if (!failed.empty()) Die("--exit-on-error: these models failed to load:" + failed);
}

void Serve(const ServeWords& words) {
  spdlog::set_level(spdlog::level::from_str(words.listen.log_level));
  const sigset_t signals = BlockStopSignals();
  MemoryReserve reserve(kReserveBytes);
  const Status ports = Server::Check(words.listen.server);
  if (!ports) Die(ports.error().message);
  const std::unique_ptr<SpanExporter> spans = OpenSpans(words.spans);
  std::optional<RepositoryFolder> folder;  // looked at before the models are loaded
  if (words.control == "poll") folder.emplace(words.core.repository);
  Result<std::unique_ptr<Inference>> core = OpenServed(words);
  if (!core) {
    const std::string& path = words.core.repository;
    const bool missing = !path.empty() && !std::filesystem::exists(path);
    Die(core.error().message + (missing ? HowToMake(path) : ""));
  }
  if (words.exit_on_error) CheckModels(**core);
  std::optional<TracedCore> traced;
  if (spans != nullptr) traced.emplace(**core, *spans, words.spans.rate);
  ServerOptions options = words.listen.server;
  options.spans = spans.get();
  Inference& served = traced ? *traced : **core;
  KeepFreedMemory();
  Result<std::unique_ptr<Server>> server = Server::Start(served, options);
  if (!server) Die(server.error().message);
  AwaitMembers(**core, signals);
  PrintBanner(words, **core, **server);
  // Kept to the end: its destructor allocates, and may not fail.
  const nlohmann::json ports_and_models = Describe(**core, **server);
  WritePorts(words.listen, ports_and_models, reserve);
  std::optional<RepositoryPoll> poll;
  if (folder) {
    poll.emplace(
        *folder, *(*core)->repository(),
        std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(words.poll_seconds)));
  }
  StopOnSignal(**core, **server, signals, words.listen.drain_seconds, reserve);
}

void RunServe(ServeWords& words) {
  CheckWords(words);
  words.core.trace = words.tracing.Start();
  std::unique_ptr<LateLog> late;
  if (!words.late_file.empty()) {
    Result<std::unique_ptr<LateLog>> opened = LateLog::Open({.path = words.late_file});
    if (!opened) Die("--late-file: " + opened.error().message);
    late = *std::move(opened);
  }
  words.core.late = late.get();
  words.listen.server.tracing = words.tracing.wanted();
  std::atomic<bool> gone{false};
  // The other devices of a fleet serve on.
  if (words.exit_on_error && words.fleet.empty()) {
    words.core.on_gone = [&gone](const std::string&) {
      gone.store(true);
      kill(getpid(), SIGTERM);
    };
  }
  Serve(words);
  words.tracing.Finish();
  if (gone.load()) {
    Die("--exit-on-error: the device was lost and does not open again; the log says why");
  }
}

void AddFleet(CLI::App& command, const std::shared_ptr<ServeWords>& words) {
  command.add_option("--fleet", words->fleet,
                     "Several devices in place of --device: cpu:N with the number of workers, "
                     "cuda:N with the number of a GPU, or HOST:PORT of another server's gRPC, "
                     "separated by commas; open: servers join later, at /v2/fleet/members");
  command
      .add_option("--lost-after-ms", words->lost_after_ms,
                  "A server of the fleet that does not answer for so long is lost: the requests "
                  "that it has are sent to another")
      ->check(CLI::Range(10, 600'000))
      ->capture_default_str();
  command
      .add_option("--placer", words->placer,
                  "Which device of a fleet serves which model: decided once a second")
      ->check(CLI::IsMember(FleetPlacers()))
      ->capture_default_str();
  command
      .add_option("--model-control,--model-control-mode", words->control,
                  "none: all models are loaded when the server starts, and stay; poll: so too, and "
                  "then the server follows what changes in the folder of --models; explicit: only "
                  "those of --load-model, and clients load and unload models")
      ->check(CLI::IsMember({"none", "poll", "explicit"}))
      ->capture_default_str();
  command
      .add_option("--repository-poll-secs", words->poll_seconds,
                  "With --model-control poll: seconds between two looks at the folder of --models")
      ->check(NumberBetween(0.1, 86'400))
      ->capture_default_str();
  command.add_option("--load-model", words->load_models,
                     "With --model-control explicit: a model to load when the server starts; *: "
                     "all. May be given several times");
}

}  // namespace

void AddServe(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model repository over HTTP, gRPC and metrics");
  auto words = std::make_shared<ServeWords>();
  command
      ->add_option("--models,--model-repository,--model-store", words->core.repository,
                   "Repository: DIR/<model>/<version>/model.onnx. Required, but with --fleet of "
                   "servers alone: then each of them keeps the models that it has")
      ->multi_option_policy(CLI::MultiOptionPolicy::Join);  // CheckWords() refuses several
  AddDevice(*command, words->core.device);
  command
      ->add_option_function<double>(
          "--gpu-silence",
          [words](const double& seconds) {
            words->core.device.cuda_silence =
                std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
          },
          "Seconds after which a GPU that has work and reports nothing is lost; 0: without a limit")
      ->check(NumberBetween(0, 1e6))
      ->default_str("30");
  AddFleet(*command, words);
  AddEngine(*command, words->core.engine);
  AddModelsPython(*command, words->core.python);
  AddScheduler(*command, words->core.scheduler);
  command
      ->add_option_function<std::string>(
          "--shares",
          [words](const std::string& word) {
            if (word != "auto") {
              words->core.shares = word == "units" ? ShareKind::kUnits : ShareKind::kWeight;
            }
          },
          "What the shares of models are (lagoon.share): units of the device; weight, a part of "
          "its time under the scheduler 'weighted'; auto: weight under that scheduler, else units")
      ->check(CLI::IsMember({"auto", "units", "weight"}))
      ->default_str("auto");
  command
      ->add_option_function<std::string>(
          "--shares-surplus",
          [words](const std::string& word) { words->core.share_surplus = word == "proportional"; },
          "Where the part that no share needs goes: to nobody, or to all tuned shares")
      ->check(CLI::IsMember({"none", "proportional"}))
      ->default_str("proportional");
  words->core.profile.store = {DefaultProfileFolder(), Build()};
  command
      ->add_option("--profiles", words->core.profile.store.folder,
                   "Folder of the profiles of `lagoon profile`; empty: use no profiles")
      ->capture_default_str();
  command
      ->add_option_function<double>(
          "--max-wait",
          [words](const double& seconds) {
            words->core.max_wait =
                std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
          },
          "Seconds that a best-effort request may wait until it begins; then it is refused (503). "
          "0: without a limit")
      ->check(NumberBetween(0, 1e6))
      ->default_str("30");
  command
      ->add_option_function<double>(
          "--split-long",
          [words](const double& ms) {
            words->core.split_long = std::chrono::duration_cast<Nanoseconds>(
                std::chrono::duration<double, std::milli>(ms));
          },
          "Models that take more milliseconds alone run in parts (scheduler 'split'), unless "
          "lagoon.parts says otherwise; 0: none")
      ->check(NumberBetween(0, 1e6))
      ->default_str("0");
  command
      ->add_option_function<double>(
          "--best-effort-minimum",
          [words](const double& percent) { words->core.best_effort_minimum = percent / 100; },
          "Percent of the device's time that best-effort models get, in slices of 10 ms, where "
          "real-time models take more than they leave; 0: real-time models may take all")
      ->check(NumberBetween(0, 50))
      ->default_str("1");
  command
      ->add_option_function<std::string>(
          "--tenants",
          [words](const std::string& source) {
            words->core.tenants = source == "parameter" ? TenantSource::kParameter
                                  : source == "header"  ? TenantSource::kHeader
                                                        : TenantSource::kNone;
          },
          "Where requests say whose they are, so that 'lagoon' and 'paella' are fair among "
          "tenants: "
          "parameter, lagoon_tenant; header, lagoon-tenant, which a proxy must set; none")
      ->check(CLI::IsMember({"none", "parameter", "header"}))
      ->default_str("none");
  AddListening(*command, words->listen);
  command->add_flag("--strict-readiness", words->listen.server.strict_readiness,
                    "The server is ready only if no model failed to load");
  command->add_flag("--exit-on-error", words->exit_on_error,
                    "Do not start if a model fails to load; end if the device (not one of --fleet) "
                    "is lost and does not open again within half a minute");
  command->add_flag(
      "--allow-admin-on-http", words->listen.server.admin_on_http,
      "Let clients of the HTTP and gRPC ports change the server too, not only those of "
      "the metrics port");
  command
      ->add_option_function<std::string>(
          "--shared-memory",
          [words](const std::string& word) {
            if (word != "auto") words->listen.server.shared_memory = word == "on";
          },
          "Whether clients on this machine may register shared memory for their tensors; auto: if "
          "--address is a loopback address")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->default_str("auto");
  command->add_option(
      "--channel", words->listen.server.channel,
      "Path of a socket for clients on this machine and of this user, whose requests "
      "and tensors lie in memory that they share with the server");
  command->add_option("--example", words->example,
                      "Folder of requests for model 'digits'; the banner shows a curl command for "
                      "the first one");
  command->add_option("--late-file", words->late_file,
                      "Write a line of JSON here for each request that misses its deadline: how "
                      "long it waited for what, and which jobs ran instead. At most 100 a second; "
                      "at 64 MiB the file is renamed to FILE.1");
  AddSpans(*command, words->spans);
  words->tracing.AddOptions(*command);
  AddTritonWords(*command, words->listen);
  command->callback([words, command] {
    CheckFleet(*command, *words);
    RunServe(*words);
  });
}

}  // namespace lagoon

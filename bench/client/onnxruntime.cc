#include "bench/client/onnxruntime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>

#include "base/json.h"
#include "bench/client/temporary_folder.h"

namespace lagoon::bench {
namespace {

std::int64_t Nanos(TimePoint time) { return time.time_since_epoch().count(); }

std::vector<std::string> Arguments(const std::string& model, const OnnxRuntimeOptions& options) {
  std::vector<std::string> words = {options.python,
                                    options.worker,
                                    model,
                                    "--threads",
                                    std::to_string(options.threads),
                                    options.spinning ? "--spinning" : "--no-spinning",
                                    "--nice",
                                    std::to_string(options.nice),
                                    "--batch",
                                    std::to_string(options.batch)};
  if (!options.cpus.empty()) words.insert(words.end(), {"--cpus", options.cpus});
  return words;
}

Result<OnnxRuntimeProcess::Values> ReadValues(const nlohmann::json& tensor) {
  OnnxRuntimeProcess::Values values{.name = tensor.at("name"), .bytes = {}};
  const std::string path = tensor.at("file");
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot read '{}' of ONNX Runtime", path));
  }
  const auto bytes = std::as_bytes(std::span(chars));
  values.bytes.assign(bytes.begin(), bytes.end());
  return values;
}

}  // namespace

Result<std::unique_ptr<OnnxRuntimeProcess>> OnnxRuntimeProcess::Start(
    const std::string& model, const OnnxRuntimeOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a dead worker fails instead of killing us
  std::unique_ptr<OnnxRuntimeProcess> process(new OnnxRuntimeProcess);
  process->model_ = model;
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kInternal, "no pipe for ONNX Runtime's process");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<std::string> words = Arguments(model, options);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failed = posix_spawnp(&process->pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  process->to_ = to[1];
  process->from_ = fdopen(from[0], "r");
  if (failed != 0) {
    process->pid_ = -1;
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("cannot start '{}' for ONNX Runtime; --python names another", options.python));
  }
  LAGOON_RETURN_IF_ERROR(process->Send({{"cmd", "info"}}));
  LAGOON_ASSIGN_OR_RETURN(process->info_, process->Receive());
  return process;
}

OnnxRuntimeProcess::~OnnxRuntimeProcess() {
  if (to_ >= 0) close(to_);  // the worker ends when its stdin is closed
  if (from_ != nullptr) std::fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

Status OnnxRuntimeProcess::Send(const nlohmann::json& command) {
  const std::string line = DumpJson(command) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t wrote = write(to_, line.data() + sent, line.size() - sent);
    if (wrote <= 0) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("ONNX Runtime's process for '{}' is gone", model_));
    }
    sent += static_cast<std::size_t>(wrote);
  }
  return {};
}

Result<nlohmann::json> OnnxRuntimeProcess::Receive() {
  char* line = nullptr;
  std::size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, from_);
  const std::unique_ptr<char, decltype(&std::free)> owned(line, &std::free);
  if (length <= 0) {
    return Fail(ErrorCode::kInternal, fmt::format("ONNX Runtime's process for '{}' died", model_));
  }
  nlohmann::json reply = nlohmann::json::parse(
      std::string_view(line, static_cast<std::size_t>(length)), nullptr, false);
  if (reply.is_discarded() || !reply.value("ok", false)) {
    return Fail(
        ErrorCode::kInternal,
        fmt::format("ONNX Runtime for '{}': {}", model_,
                    reply.is_object() ? reply.value("error", "no reason") : "answered no JSON"));
  }
  return reply;
}

Result<std::vector<double>> OnnxRuntimeProcess::Run(int runs, int warmup) {
  LAGOON_RETURN_IF_ERROR(Send({{"cmd", "run"}, {"n", runs}, {"warmup", warmup}}));
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, Receive());
  return reply.at("latencies_us").get<std::vector<double>>();
}

Result<OnnxRuntimeProcess::Example> OnnxRuntimeProcess::RunExample() {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  LAGOON_RETURN_IF_ERROR(Send({{"cmd", "values"}, {"folder", folder.path()}}));
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, Receive());
  Example example;
  for (auto [kind, values] :
       {std::pair{"inputs", &example.inputs}, std::pair{"outputs", &example.outputs}}) {
    for (const nlohmann::json& tensor : reply.at(kind)) {
      LAGOON_ASSIGN_OR_RETURN(Values read, ReadValues(tensor));
      values->push_back(std::move(read));
    }
  }
  return example;
}

Status OnnxRuntimeProcess::BeginOpenLoop(TimePoint start, const std::vector<double>& arrivals_us,
                                         bool newest) {
  return Send({{"cmd", "open_loop"},
               {"start_ns", Nanos(start)},
               {"arrivals_us", arrivals_us},
               {"newest", newest}});
}

Result<OnnxRuntimeProcess::OpenLoop> OnnxRuntimeProcess::EndOpenLoop() {
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, Receive());
  return OpenLoop{reply.at("latencies_us").get<std::vector<double>>(),
                  reply.at("from_arrival_us").get<std::vector<double>>(),
                  reply.at("ends_us").get<std::vector<double>>()};
}

Status OnnxRuntimeProcess::BeginLoop(TimePoint start, TimePoint end) {
  return Send({{"cmd", "loop"}, {"start_ns", Nanos(start)}, {"end_ns", Nanos(end)}});
}

Result<std::vector<double>> OnnxRuntimeProcess::EndLoop() {
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, Receive());
  return reply.at("completions_us").get<std::vector<double>>();
}

}  // namespace lagoon::bench

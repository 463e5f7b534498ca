#include "bench/client/comparator.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "bench/client/temporary_folder.h"

namespace lagoon::bench {
namespace {

std::int64_t Nanos(TimePoint time) { return time.time_since_epoch().count(); }

/// For "lagoon": the words of RunModelWorker()'s program.
std::vector<std::string> OwnArguments(const std::string& model, const ComparatorOptions& options) {
  std::vector<std::string> words = {"env"};
  if (!options.level.empty()) words.push_back("LAGOON_CPU=" + options.level);
  words.insert(words.end(), {options.lagoon, "model-worker", model, std::to_string(options.threads),
                             std::to_string(options.batch)});
  return words;
}

std::vector<std::string> Arguments(const std::string& model, const ComparatorOptions& options) {
  if (options.engine == "lagoon") return OwnArguments(model, options);
  std::vector<std::string> words = {options.python,
                                    options.worker,
                                    model,
                                    "--engine",
                                    options.engine,
                                    "--threads",
                                    std::to_string(options.threads),
                                    options.spinning ? "--spinning" : "--no-spinning",
                                    "--nice",
                                    std::to_string(options.nice),
                                    "--policy",
                                    options.policy,
                                    "--batch",
                                    std::to_string(options.batch)};
  if (!options.cpus.empty()) words.insert(words.end(), {"--cpus", options.cpus});
  for (const InputFile& input : options.inputs) {
    words.insert(words.end(), {"--input", input.name, fmt::format("{}", fmt::join(input.dims, "x")),
                               input.file});
  }
  return words;
}

Result<ComparatorProcess::Values> ReadValues(const nlohmann::json& tensor) {
  ComparatorProcess::Values values{.name = tensor.at("name"), .bytes = {}};
  const std::string path = tensor.at("file");
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot read '{}' of the other engine", path));
  }
  const auto bytes = std::as_bytes(std::span(chars));
  values.bytes.assign(bytes.begin(), bytes.end());
  return values;
}

}  // namespace

Result<std::unique_ptr<ComparatorProcess>> ComparatorProcess::Start(
    const std::string& model, const ComparatorOptions& options) {
  Result<std::unique_ptr<LineProcess>> started = LineProcess::Start(
      fmt::format("{} for '{}'", options.engine, model), Arguments(model, options));
  if (!started) {
    if (options.engine != "lagoon") started.error().message += "; --python names another";
    return tl::unexpected<Error>(std::move(started).error());
  }
  std::unique_ptr<ComparatorProcess> process(
      new ComparatorProcess(options.engine, *std::move(started)));
  LAGOON_RETURN_IF_ERROR(process->process_->Send({{"cmd", "info"}}));
  LAGOON_ASSIGN_OR_RETURN(process->info_, process->process_->Receive());
  return process;
}

Result<std::vector<double>> ComparatorProcess::Run(int runs, int warmup) {
  LAGOON_RETURN_IF_ERROR(process_->Send({{"cmd", "run"}, {"n", runs}, {"warmup", warmup}}));
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, process_->Receive());
  return reply.at("latencies_us").get<std::vector<double>>();
}

Result<ComparatorProcess::Example> ComparatorProcess::RunExample() {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  LAGOON_RETURN_IF_ERROR(process_->Send({{"cmd", "values"}, {"folder", folder.path()}}));
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, process_->Receive());
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

Status ComparatorProcess::BeginOpenLoop(TimePoint start, const std::vector<double>& arrivals_us,
                                        bool newest, TimePoint give_up) {
  return process_->Send({{"cmd", "open_loop"},
                         {"start_ns", Nanos(start)},
                         {"arrivals_us", arrivals_us},
                         {"newest", newest},
                         {"give_up_ns", Nanos(give_up)}});
}

Result<ComparatorProcess::OpenLoop> ComparatorProcess::EndOpenLoop() {
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, process_->Receive());
  return OpenLoop{reply.at("latencies_us").get<std::vector<double>>(),
                  reply.at("from_arrival_us").get<std::vector<double>>(),
                  reply.at("ends_us").get<std::vector<double>>()};
}

Status ComparatorProcess::BeginLoop(TimePoint start, TimePoint end) {
  return process_->Send({{"cmd", "loop"}, {"start_ns", Nanos(start)}, {"end_ns", Nanos(end)}});
}

Result<std::vector<double>> ComparatorProcess::EndLoop() {
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, process_->Receive());
  return reply.at("completions_us").get<std::vector<double>>();
}

}  // namespace lagoon::bench

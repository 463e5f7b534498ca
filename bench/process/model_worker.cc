#include "bench/process/model_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "bench/client/bound_model.h"
#include "bench/report/report.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostRuns = 1'000'000;

class ModelWorker {
 public:
  /// Loads the model and runs it once, as the other engines do before they answer.
  static Result<std::unique_ptr<ModelWorker>> Load(const ModelWorkerOptions& options) {
    std::unique_ptr<ModelWorker> worker(new ModelWorker);
    const TimePoint begin = Now();
    LAGOON_ASSIGN_OR_RETURN(worker->on_, OpenDevice({.workers = options.workers}));
    LAGOON_ASSIGN_OR_RETURN(
        worker->model_,
        BoundModel::Load(options.file, options.file, worker->on_, {.batch = options.batch}));
    worker->load_ms_ = ToMilliseconds(Now() - begin);
    LAGOON_RETURN_IF_ERROR(worker->model_->Run(*worker->on_.device));
    return worker;
  }

  Result<Json> Answer(const Json& request) {
    const Json command = request.is_object() ? request.value("cmd", Json()) : Json();
    if (command == "info") return Info();
    if (command == "run") return Run(request);
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("unknown cmd {}, known: info, run, quit", DumpJson(command)));
  }

 private:
  ModelWorker() = default;

  Json Info() const {
    const int pid = getpid();
    return {{"load_ms", load_ms_},
            {"rss_kib", RssMib(pid) * 1024},
            {"peak_rss_kib", PeakRssMib(pid) * 1024},
            {"pid", pid}};
  }

  static Result<std::int64_t> Count(const Json& request, const char* key, std::int64_t otherwise) {
    const Json value = request.value(key, Json(otherwise));
    if (value.is_number_integer() && value >= 0 && value <= kMostRuns) {
      return value.get<std::int64_t>();
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is {}, must be an integer from 0 to {}", key, DumpJson(value),
                            kMostRuns));
  }

  Result<Json> Run(const Json& request) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t runs, Count(request, "n", 1));
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t warmup, Count(request, "warmup", 0));
    std::vector<double> latencies_us;
    for (std::int64_t i = -warmup; i < runs; ++i) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(model_->Run(*on_.device));
      if (i >= 0) latencies_us.push_back(ToMicroseconds(Now() - begin));
    }
    return Json{{"latencies_us", latencies_us}};
  }

  ComputeDevice on_;  // outlives the model, which has memory of the device
  std::unique_ptr<BoundModel> model_;
  double load_ms_ = 0;
};

Json Refusal(const Error& error) { return {{"ok", false}, {"error", error.message}}; }

}  // namespace

Status RunModelWorker(const ModelWorkerOptions& options, std::istream& in, std::ostream& out) {
  const auto reply = [&out](const Json& answer) { out << DumpJson(answer) << std::endl; };
  Result<std::unique_ptr<ModelWorker>> worker = ModelWorker::Load(options);
  if (!worker) {
    reply(Refusal(worker.error()));
    return tl::unexpected<Error>(std::move(worker).error());
  }
  for (std::string line; std::getline(in, line);) {
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_object() && request.value("cmd", Json()) == "quit") break;
    Result<Json> answer = (*worker)->Answer(request);
    if (answer) (*answer)["ok"] = true;
    reply(answer ? *answer : Refusal(answer.error()));
  }
  return {};
}

}  // namespace lagoon::bench

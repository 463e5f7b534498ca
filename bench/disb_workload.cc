#include "bench/disb_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/json_fields.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;
using Kind = DisbLoad::Kind;

constexpr std::size_t kMaxClients = 64;
constexpr std::size_t kMaxTrace = 1'000'000;
constexpr double kMaxPerSecond = 1e6;
constexpr double kMaxTraceMs = 3'600'000;

Nanoseconds FromSeconds(double seconds) {
  return std::chrono::duration_cast<Nanoseconds>(Seconds(seconds));
}

// Models that take the roles of ResNet-152, VGG-19, YOLOv3, BERT-base and GPT-2.
std::array<std::string, 5> ModelsOf(DisbScale scale) {
  switch (scale) {
    case DisbScale::kPaper:
      return {"resnet152", "vgg19", "yolov3", "bert_base", "gpt2_prefill"};
    case DisbScale::kSmall:
      return {"googlenet", "resnet18", "squeezenet1_1", "bert_tiny", "mobilenet_v2"};
    case DisbScale::kSimulated:
      return {"resnet152", "vgg19", "yolov3", "bert", "gpt2"};
  }
  CheckFailed("a known DisbScale", __FILE__, __LINE__);
}

// Bursts: a request is followed by the next one after a short gap, or after a long one.
struct Bursts {
  double per_second;    // mean rate
  double short_gap_ms;  // median within a burst
  double long_share;    // share of the long gaps, each of which ends a burst
};

// Rates and burstiness of the trace that DISB publishes (38 s; requests a second of each of its
// five clients, and 7 ms between the frames of its camera).
constexpr Bursts kReal[5] = {
    {9.7, 100, 0.05}, {14.7, 7, 0.3}, {5.2, 150, 0.1}, {9.7, 100, 0.05}, {4.4, 200, 0.1}};

DisbLoad RealTrace(const Bursts& bursts, std::mt19937& random) {
  constexpr double kSeconds = 38;
  std::lognormal_distribution<double> short_gap(std::log(bursts.short_gap_ms), 0.2);
  const double rest_ms =
      (1e3 / bursts.per_second - (1 - bursts.long_share) * bursts.short_gap_ms) / bursts.long_share;
  std::exponential_distribution<double> long_gap(1 / std::max(rest_ms, bursts.short_gap_ms));
  std::bernoulli_distribution ends(bursts.long_share);
  DisbLoad load;
  load.kind = Kind::kTrace;
  load.period = FromSeconds(kSeconds);
  for (double ms = 0; ms < kSeconds * 1e3;
       ms += ends(random) ? long_gap(random) : short_gap(random)) {
    load.trace.push_back(FromSeconds(ms / 1e3));
  }
  return load;
}

DisbLoad Relative(Kind kind, double fraction) {
  DisbLoad load;
  load.kind = kind;
  load.fraction = fraction;
  return load;
}

// Finds a key that is not known. Such a key is an error: to ignore it would change the workload.
std::optional<std::string> UnknownKey(const Json& object,
                                      std::initializer_list<const char*> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) return key;
  }
  return std::nullopt;
}

class TaskParser {
 public:
  TaskParser(const std::string& workload, std::string task, double seconds)
      : workload_(workload), task_(std::move(task)), seconds_(seconds) {}

  Result<DisbClient> Parse(const Json& task) {
    if (!task.is_object() || !task.contains("load") || !task.contains("client") ||
        !task["load"].is_object() || !task["client"].is_object()) {
      return Refused("needs the objects 'load' and 'client'");
    }
    const Json& client = task["client"];
    for (const auto& unknown :
         {UnknownKey(task, {"id", "load", "client"}),
          UnknownKey(task["load"], {"type", "priority", "frequency", "trace"}),
          UnknownKey(client, {"name", "model_name", "batch_size", "priority", "tfs_grpc_addr",
                              "triton_grpc_addr"})}) {
      if (unknown) return Refused(fmt::format("unknown key '{}'", *unknown));
    }
    if (!client.contains("model_name") || !client["model_name"].is_string()) {
      return Refused("'model_name' must be a string");
    }
    if (client.value("batch_size", Json(1)) != Json(1)) {
      return Refused(fmt::format("'batch_size' is {}, must be 1", DumpJson(client["batch_size"])));
    }
    DisbClient parsed;
    parsed.name = task_;
    parsed.model = client["model_name"];
    // In DISB's files the model's name ends in the data set that the model was trained on.
    if (const auto data = parsed.model.rfind("-imagenet"); data != std::string::npos) {
      parsed.model.resize(data);
    }
    LAGOON_ASSIGN_OR_RETURN(parsed.job_class, ParseClass(client));
    LAGOON_ASSIGN_OR_RETURN(parsed.load, ParseLoad(task["load"]));
    return parsed;
  }

 private:
  tl::unexpected<Error> Refused(const std::string& why) const {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("workload '{}', task '{}': {}", workload_, task_, why));
  }

  Result<JobClass> ParseClass(const Json& client) const {
    if (client.contains("priority")) {
      if (client["priority"] == Json(0)) return JobClass::kRealTime;
      if (client["priority"] == Json(1)) return JobClass::kBestEffort;
      return Refused(fmt::format("'priority' is {}, must be 0 (real-time) or 1",
                                 DumpJson(client["priority"])));
    }
    if (task_.ends_with("_rt")) return JobClass::kRealTime;
    if (task_.ends_with("_be")) return JobClass::kBestEffort;
    return Refused("has no 'priority', and its id ends neither in _rt nor in _be");
  }

  Result<DisbLoad> ParseLoad(const Json& json) const {
    const Json type = json.value("type", Json());
    DisbLoad load;
    if (type == "continuous") return load;
    if (type == "trace") return ParseTrace(json);
    if (type != "periodic" && type != "poisson") {
      return Refused(fmt::format(
          "load 'type' is {}, must be \"continuous\", \"periodic\", \"poisson\" or \"trace\"",
          DumpJson(type)));
    }
    load.kind = type == "periodic" ? Kind::kUniform : Kind::kPoisson;
    const Json frequency = json.value("frequency", Json());
    load.per_second = frequency.is_number() ? frequency.get<double>() : 0;
    if (!(load.per_second > 0 && load.per_second <= kMaxPerSecond)) {
      return Refused(fmt::format("'frequency' is {}, must be a number above 0 and at most {}",
                                 DumpJson(frequency), kMaxPerSecond));
    }
    return load;
  }

  Result<DisbLoad> ParseTrace(const Json& json) const {
    const Json trace = json.value("trace", Json());
    if (!trace.is_array() || trace.empty() || trace.size() > kMaxTrace) {
      return Refused(fmt::format("'trace' must be a list of 1 to {} times in ms", kMaxTrace));
    }
    DisbLoad load;
    load.kind = Kind::kTrace;
    for (const Json& time : trace) {
      const double ms = time.is_number() ? time.get<double>() : -1;
      const Nanoseconds at = FromSeconds(ms / 1e3);
      if (!(ms >= 0 && ms <= kMaxTraceMs) || (!load.trace.empty() && at < load.trace.back())) {
        return Refused(
            fmt::format("time {} of the trace is not from 0 to {} ms, or before the last",
                        DumpJson(time), kMaxTraceMs));
      }
      load.trace.push_back(at);
    }
    load.period = std::max(FromSeconds(seconds_), load.trace.back() + Nanoseconds(1));
    return load;
  }

  const std::string& workload_;
  std::string task_;
  double seconds_;
};

}  // namespace

Result<DisbWorkload> NamedDisbWorkload(std::string_view name, DisbScale scale, unsigned seed) {
  const std::array<std::string, 5> models = ModelsOf(scale);
  const std::string& resnet = models[0];
  const std::string& vgg = models[1];
  DisbWorkload workload;
  workload.name = name;
  const auto add = [&](const std::string& model, JobClass job_class, DisbLoad load) {
    const char* ending = job_class == JobClass::kRealTime ? "rt" : "be";
    workload.clients.push_back({model + "_" + ending, model, job_class, std::move(load)});
  };
  const auto add_all = [&](JobClass job_class, const DisbLoad& load) {
    for (const std::string& model : models) add(model, job_class, load);
  };
  const DisbLoad continuous = Relative(Kind::kContinuous, 0);
  if (name == "A" || name == "C") add(vgg, JobClass::kRealTime, Relative(Kind::kUniform, 0.5));
  if (name == "B") add(vgg, JobClass::kRealTime, continuous);
  if (name == "D") add_all(JobClass::kRealTime, Relative(Kind::kUniform, 0.1));
  if (name == "E") add_all(JobClass::kRealTime, Relative(Kind::kPoisson, 0.1));
  if (name == "REAL") {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < models.size(); ++i) {
      add(models[i], JobClass::kRealTime, RealTrace(kReal[i], random));
    }
  }
  if (workload.clients.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no workload '{}'; there are A, B, C, D, E, REAL, and files "
                            "of DISB's form (.json)",
                            name));
  }
  if (name == "A" || name == "B") {
    add(resnet, JobClass::kBestEffort, continuous);
  } else {
    add_all(JobClass::kBestEffort, continuous);
  }
  return workload;
}

Result<DisbWorkload> ParseDisbWorkload(const std::string& name, const Json& document) {
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("workload '{}': {}", name, why));
  };
  if (!document.is_object() || !document.contains("tasks") || !document["tasks"].is_array()) {
    return refuse("is not an object with a list 'tasks'");
  }
  if (const auto unknown = UnknownKey(document, {"time", "tasks"})) {
    return refuse(fmt::format("unknown key '{}'", *unknown));
  }
  const Json time = document.value("time", Json(60));
  if (!time.is_number() || !(time.get<double>() > 0 && time.get<double>() <= 3600)) {
    return refuse(fmt::format("'time' is {}, must be above 0 and at most 3600 s", DumpJson(time)));
  }
  const Json& tasks = document["tasks"];
  if (tasks.empty() || tasks.size() > kMaxClients) {
    return refuse(fmt::format("has {} tasks, must have 1 to {}", tasks.size(), kMaxClients));
  }
  DisbWorkload workload;
  workload.name = name;
  std::set<std::string> ids;
  for (const Json& task : tasks) {
    const Json id = task.is_object() ? task.value("id", Json()) : Json();
    if (!id.is_string() || id.get<std::string>().empty()) {
      return refuse(fmt::format("task {} has no 'id'", workload.clients.size()));
    }
    if (!ids.insert(id).second) return refuse(fmt::format("two tasks are called {}", DumpJson(id)));
    TaskParser parser(name, id, time.get<double>());
    LAGOON_ASSIGN_OR_RETURN(DisbClient client, parser.Parse(task));
    workload.clients.push_back(std::move(client));
  }
  return workload;
}

Result<DisbWorkload> ReadDisbWorkload(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return Fail(ErrorCode::kNotFound, fmt::format("cannot read '{}'", file));
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const Result<Json> document = ParseJson(text);
  if (!document) return Annotate(fmt::format("'{}'", file), document.error());
  return ParseDisbWorkload(std::filesystem::path(file).stem(), *document);
}

std::string ZooNameOf(const std::string& model) {
  struct Spelling {
    std::string_view other, zoo;
  };
  static constexpr std::array kSpellings{
      Spelling{"inceptionv3", "inception_v3"}, Spelling{"bert", "bert_base"},
      Spelling{"gpt2", "gpt2_prefill"},        Spelling{"mobilenetv2", "mobilenet_v2"},
      Spelling{"squeezenet", "squeezenet1_1"},
  };
  const auto* const found = std::ranges::find(kSpellings, model, &Spelling::other);
  return found == kSpellings.end() ? model : std::string(found->zoo);
}

double RateOf(const DisbLoad& load, Nanoseconds standalone) {
  switch (load.kind) {
    case Kind::kContinuous:
      return 0;
    case Kind::kUniform:
    case Kind::kPoisson:
      return load.per_second > 0 ? load.per_second : load.fraction / Seconds(standalone).count();
    case Kind::kTrace:
      return static_cast<double>(load.trace.size()) / Seconds(load.period).count();
  }
  return 0;
}

std::vector<Nanoseconds> Arrivals(const DisbLoad& load, Nanoseconds standalone, Nanoseconds span,
                                  std::mt19937& random) {
  std::vector<Nanoseconds> times;
  if (load.kind == Kind::kTrace) {
    for (Nanoseconds base{0}; base < span; base += load.period) {
      for (const Nanoseconds offset : load.trace) {
        if (base + offset < span) times.push_back(base + offset);
      }
    }
    return times;
  }
  const double gap = 1 / RateOf(load, standalone);
  std::exponential_distribution<double> poisson(1 / gap);
  const auto next = [&] { return load.kind == Kind::kPoisson ? poisson(random) : gap; };
  double at = load.kind == Kind::kPoisson ? poisson(random)
                                          : std::uniform_real_distribution<double>(0, gap)(random);
  for (; FromSeconds(at) < span; at += next()) times.push_back(FromSeconds(at));
  return times;
}

}  // namespace lagoon::bench

#pragma once

// DISB, the DNN inference serving benchmark (REEF 6.1, Table 2): who sends what, and when.

#include <nlohmann/json_fwd.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "sched/job.h"

namespace lagoon::bench {

struct DisbLoad {
  enum class Kind : std::uint8_t {
    kContinuous,  // the next request when the last one is answered
    kUniform,     // evenly spaced, with a random phase
    kPoisson,
    kTrace,  // at the given times, over and over
  };
  Kind kind = Kind::kContinuous;
  /// Of the model's standalone maximum (Table 2). Not used where `per_second` is given.
  double fraction = 0;
  double per_second = 0;
  std::vector<Nanoseconds> trace;  // ascending offsets
  Nanoseconds period{0};           // of the trace
};

struct DisbClient {
  std::string name;
  std::string model;  // a folder of the zoo
  JobClass job_class = JobClass::kBestEffort;
  DisbLoad load;
};

struct DisbWorkload {
  std::string name;
  std::vector<DisbClient> clients;
};

/// The five models. `paper`: ResNet-152, VGG-19, YOLOv3, BERT-base, GPT-2; `small`: five of
/// ResNet-18's size or less; `simulated`: the paper's as device/sim/models.h calls them.
enum class DisbScale : std::uint8_t { kPaper, kSmall, kSimulated };

/// "A" to "E" of the paper's Table 2; "REAL": five real-time clients with bursty arrivals of the
/// statistics of DISB's published trace (generated, seeded), beside the best-effort clients of C.
/// kNotFound lists the names.
Result<DisbWorkload> NamedDisbWorkload(std::string_view name, DisbScale scale, unsigned seed);

/// DISB's own JSON: {"time", "tasks": [{"id", "load": {"type", "frequency", "trace"}, "client":
/// {"name", "model_name", "priority"}}]}. The class is `priority` 0 (real-time) or 1, else the
/// ending of the id, "_rt" or "_be". A trace's times are milliseconds; "-imagenet" at the end of a
/// model's name is dropped. kInvalidArgument names the task, key and value.
Result<DisbWorkload> ParseDisbWorkload(const std::string& name, const nlohmann::json& document);
Result<DisbWorkload> ReadDisbWorkload(const std::string& file);

/// Intended arrivals in [0, span), ascending; `standalone`: the model's latency alone on the
/// device. Not for kContinuous.
std::vector<Nanoseconds> Arrivals(const DisbLoad& load, Nanoseconds standalone, Nanoseconds span,
                                  std::mt19937& random);

/// Requests a second; 0 for kContinuous.
double RateOf(const DisbLoad& load, Nanoseconds standalone);

}  // namespace lagoon::bench

#pragma once

// DISB, the DNN inference serving benchmark (REEF 6.1, Table 2): its clients, their models and
// arrivals.

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
    kContinuous,  // closed loop: the next request when the last one is answered
    kUniform,     // evenly spaced, with a random phase
    kPoisson,
    kTrace,  // at the times of `trace`, repeated every `period`
  };
  /// What an open loop does with requests that are due while its last one runs.
  enum class Late : std::uint8_t {
    kQueue,   // sends each at its time: they wait in the server's queue
    kNewest,  // DISB's client: has one request under way; when it is free it sends the newest
              // request that is due and drops the older ones
  };
  Kind kind = Kind::kContinuous;
  Late late = Late::kQueue;
  /// Rate as a part of the model's standalone maximum (Table 2). Not used if `per_second` is given.
  double fraction = 0;
  double per_second = 0;
  std::vector<Nanoseconds> trace;  // ascending offsets
  Nanoseconds period{0};           // length of the trace
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

/// Which five models play: kPaper: ResNet-152, VGG-19, YOLOv3, BERT-base, GPT-2; kSmall: five
/// models of ResNet-18's size or less; kSimulated: the paper's, by their names in
/// bench/sim/kernel_lists.h.
enum class DisbScale : std::uint8_t { kPaper, kSmall, kSimulated };

/// `name`: "A" to "E", the workloads of the paper's Table 2; or "REAL": five real-time clients
/// beside the best-effort clients of C, with bursty arrivals that are generated from `seed` with
/// the statistics of DISB's published trace. Any other name: kNotFound, with a message that lists
/// the names.
Result<DisbWorkload> NamedDisbWorkload(std::string_view name, DisbScale scale, unsigned seed);

/// Reads DISB's own JSON: {"time", "tasks": [{"id", "load": {"type", "frequency", "trace"},
/// "client": {"name", "model_name", "priority"}}]}. The job class follows from `priority`
/// (0: real-time, 1: best-effort); without it, from the ending of the id, "_rt" or "_be". A trace's
/// times are milliseconds. "-imagenet" at the end of a model's name is dropped. Errors are
/// kInvalidArgument and name the task, key and value.
Result<DisbWorkload> ParseDisbWorkload(const std::string& name, const nlohmann::json& document);
Result<DisbWorkload> ReadDisbWorkload(const std::string& file);

/// The zoo's name of a model that DISB's files or the simulators' kernel lists spell otherwise
/// ("inceptionv3": "inception_v3"). Any other name is returned as it is.
std::string ZooNameOf(const std::string& model);

/// Intended arrivals in [0, span), ascending; `standalone`: the model's latency alone on the
/// device. Not for kContinuous.
std::vector<Nanoseconds> Arrivals(const DisbLoad& load, Nanoseconds standalone, Nanoseconds span,
                                  std::mt19937& random);

/// Requests a second; 0 for kContinuous.
double RateOf(const DisbLoad& load, Nanoseconds standalone);

}  // namespace lagoon::bench

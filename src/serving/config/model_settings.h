#pragma once

// How a model is served: the contents of config.pbtxt except names and shapes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "plan/precision.h"
#include "plan/tensor.h"
#include "sched/job.h"
#include "serving/config/batching_settings.h"
#include "serving/config/ensemble_settings.h"
#include "serving/config/model_config.pb.h"
#include "serving/config/sequence_settings.h"
#include "serving/config/share_settings.h"
#include "serving/config/warmup_settings.h"

namespace lagoon {

inline constexpr std::uint32_t kMaxInstances = 64;
/// The backend of models that are job programs (docs/guide/jobs.md).
inline constexpr std::string_view kProgramBackend = "lagoon_job";
/// The backend of models that are programs in Python, as Triton names it.
inline constexpr std::string_view kPythonBackend = "python";
/// Coroutines of a job program that run at once, unless instance_group gives another number.
inline constexpr std::uint32_t kDefaultCoroutines = 16;
inline constexpr std::size_t kDefaultQueueSize = 64;
/// Plans of a model that are kept, for as many input shapes. Those of lagoon.shapes and of batches
/// of up to kReadyRows rows count, and always stay. Larger batch sizes have room of their own.
inline constexpr std::size_t kDefaultPlans = 64;
inline constexpr std::size_t kMaxPlans = 4096;
inline constexpr std::size_t kMaxBuckets = 64;
inline constexpr std::int64_t kMaxBucket = std::int64_t{1} << 24;
/// As each batch size has a plan of its own.
inline constexpr std::int32_t kMaxBatchSize = kMaxPlans;
inline constexpr std::size_t kMaxQueueSize = 65536;

struct ModelSettings {
  JobClass job_class = JobClass::kBestEffort;  // optimization.priority
  std::uint32_t instances = 1;                 // sum of instance_group.count
  std::size_t max_queue_size = kDefaultQueueSize;
  Overflow overflow = Overflow::kReject;           // lagoon.overflow
  Nanoseconds deadline{0};                         // lagoon.deadline_ms; 0: none
  BatchingSettings batching;                       // dynamic_batching, lagoon.places
  std::optional<SequenceSettings> sequences;       // sequence_batching
  std::optional<EnsembleSettings> ensemble;        // ensemble_scheduling
  ShareSettings share;                             // lagoon.share, lagoon.weight
  std::map<std::string, std::int64_t> dimensions;  // lagoon.dimension.NAME: sizes of symbolic dims
  Precision precision = Precision::kFp32;          // precision
  Restart restart = Restart::kByClaims;            // lagoon.restart
  /// lagoon.shapes: shapes by input, for which plans are ready when the server starts.
  std::vector<std::map<std::string, Dims>> shapes;
  /// lagoon.buckets.NAME: sizes to which the open dim NAME is rounded up, ascending.
  std::map<std::string, std::vector<std::int64_t>> buckets;
  bool refuse_other_shapes = false;       // lagoon.other_shapes
  std::size_t max_plans = kDefaultPlans;  // lagoon.max_plans
  /// lagoon.parts: kAutoParts or the number of parts of each plan. Nothing: those of its profile.
  std::optional<std::uint32_t> parts;
  std::string filename = "model.onnx";  // default_model_filename, in the version's folder
  bool program = false;                 // a job program: backend kProgramBackend
  bool python = false;                  // a program in Python: backend kPythonBackend
  Nanoseconds python_timeout = std::chrono::minutes(5);  // lagoon.python_timeout_ms
  Nanoseconds python_start = std::chrono::minutes(10);   // lagoon.python_start_ms
  bool decoupled = false;  // any number of answers; programs only, in C++ or Python
  Nanoseconds max_unread = std::chrono::seconds(10);  // lagoon.max_unread_ms; the same
  std::map<std::string, std::string> models;      // lagoon.model.ROLE: models that the program runs
  std::map<std::string, std::string> parameters;  // job.NAME: parameters for the program
  std::vector<WarmupRequest> warmup;              // model_warmup; programs in C++ only

  /// The most requests of a priority level that wait for a batch or a program.
  std::size_t MostWaiting(std::uint32_t level) const {
    const std::size_t own = batching.PolicyOf(level).max_waiting;
    return own > 0 ? own : max_queue_size;
  }
};

/// Reads the settings from `config`. Values out of range, an unknown "lagoon." parameter and a
/// model for another backend are errors that name field and value. Adds a warning for each
/// parameter that is not Lagoon's.
Result<ModelSettings> ReadSettings(const inference::ModelConfig& config,
                                   std::vector<std::string>& warnings);

}  // namespace lagoon

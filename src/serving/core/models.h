#pragma once

// What a core says about its models.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "plan/tensor.h"
#include "sched/job.h"
#include "serving/core/histogram.h"

namespace lagoon {

inline constexpr std::size_t kMostModelNameBytes = 128;
/// True for names that are safe in URLs, metrics and logs: letters, digits, '.', '_' and '-',
/// and no '.' in front, as hidden folders are no models.
bool IsModelName(std::string_view name);
/// Whether the text may name the version of a model: digits.
bool IsVersion(std::string_view text);

/// Whether version `a` is higher than `b`. Both are versions, or empty: lower than all.
inline bool IsHigherVersion(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

/// Triton's statistics of one stage.
struct StageStatistics {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
};

/// Triton's statistics of the executions of one batch size.
struct BatchStatistics {
  std::uint64_t batch_size = 0;
  StageStatistics compute_input, compute_infer, compute_output;
};

struct ModelStatistics {
  std::string name;
  std::string version;
  JobClass job_class = JobClass::kBestEffort;  // of the model; of a request it may be lower
  std::uint64_t last_inference_ms = 0;         // Unix time; 0: never
  std::uint64_t inference_count = 0;           // rows of all executions
  std::uint64_t execution_count = 0;
  std::vector<BatchStatistics> batches;  // the batch sizes that have run, ascending
  StageStatistics success, fail, queue, compute_input, compute_infer, compute_output;
  /// By JobClass: the class that the request had. Their sums are those of the stages above, but a
  /// server of a fleet does not tell its histograms to the front: there they are empty.
  std::array<StageHistograms, 2> histograms;
  // Failures by reason, as Triton's metric names them.
  std::uint64_t rejected = 0, cancelled = 0, backend = 0, other = 0;
  std::uint64_t deadline_misses = 0;  // expired, or finished after the deadline
  std::uint64_t superseded = 0;
  std::uint64_t too_late = 0;  // refused, because they would have missed their deadline
  std::uint64_t revocations = 0;
  std::uint64_t resumed_blocks = 0;
  std::uint64_t repeated_kernels = 0;
  std::uint64_t pending = 0;   // requests that wait now
  std::int64_t most_rows = 0;  // of a batch of joined requests, now; 0: requests are not joined
  double share = 0;            // part of the device; 0: the model has no share
  std::uint64_t share_moves = 0;
  Nanoseconds opaque_max{0};  // the longest run of a kernel of an engine; 0: there is none
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;  // "onnxruntime_onnx" models of Triton are served as "lagoon_plan"
  std::vector<TensorSpec> inputs;  // a dim of -1 takes any size
  std::vector<TensorSpec> outputs;
  /// Above 0: the first dim of every tensor is the batch, from 1 to this number.
  std::int64_t max_batch = 0;
};

enum class ModelState { kReady, kUnavailable };

/// ModelStatus::reason of a model that nobody asked to load.
inline constexpr std::string_view kNotLoaded = "not loaded";

/// One row of the repository: what loaded and what did not, with the reason.
struct ModelStatus {
  std::string name;
  std::string version = {};
  ModelState state = ModelState::kUnavailable;
  std::string reason;  // why it is unavailable; names paths of the server: not for remote clients
  /// It serves, but not quite as configured: fields without effect, a standalone latency above its
  /// deadline, ops that an engine runs. They name paths of the server: not for remote clients.
  std::vector<std::string> warnings = {};
  double load_ms = 0;
  Nanoseconds standalone{0};  // measured at load
  JobClass job_class = JobClass::kBestEffort;
  std::string standalone_for = {};  // "image [1,3,224,224]": first inputs; a size may be a guess
  /// For a model of another server: changes when that server tells anew what the model is.
  std::uint64_t told = 0;
};

}  // namespace lagoon

#pragma once

// Which device serves which model: the interface of all placers (InSS 5), and what they see.
// Devices are called GPUs here, as in the paper; a CPU is one too.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cluster/interference/latency_model.h"

namespace lagoon {

/// A model as a placer sees it.
struct ModelView {
  std::string name;
  Nanoseconds slo{0};     // of a request, from its arrival to its answer; 1 us to 1 h
  double rate = 0;        // rows per second that arrive, as measured; 0 or more
  double rate_error = 0;  // standard error of `rate`, 0 or more
  double queued = 0;      // rows that wait
  const LatencyModel* latency = nullptr;  // borrowed as long as the view is used
  /// By which factor batches take longer than `latency` says, as measured; 0.01 to 100.
  double slowdown = 1;
  /// Mean time of a batch, as measured; 0: not known.
  double measured_ms = 0;
  std::int64_t memory_bytes = 0;  // of each replica, with a batch of one row
  std::int64_t row_bytes = 0;     // more for each further row
  std::int64_t most_rows = 32;    // of a batch, 1 to 1024

  /// What times by `latency` must keep: `slo`, less what batches take longer than that.
  double SloMs() const { return ToMilliseconds(slo) / slowdown; }
};

struct GpuView {
  std::uint32_t granules = 100;  // the device is shared in whole granules
  std::int64_t memory_bytes = 0;
  /// Tells GPUs of the same size apart while others come and go. Empty: the place in the view does.
  std::string name = {};
};

/// A copy of a model on a GPU.
struct PlacedReplica {
  std::size_t model = 0, gpu = 0;  // indices in PlacementView
  std::uint32_t granules = 0;      // at least 1
  std::int64_t rows = 1;           // limit of a batch, 1 to ModelView::most_rows
  double fraction = 1;             // of the model's arrivals; those of a model add up to 1

  bool operator==(const PlacedReplica&) const = default;
};

struct RefusedModel {
  std::size_t model = 0;
  std::string reason;

  bool operator==(const RefusedModel&) const = default;
};

struct Assignment {
  /// At most one replica of a model on a GPU. In order of `model`, then `gpu`.
  std::vector<PlacedReplica> replicas;
  /// Models that no GPU can hold.
  std::vector<RefusedModel> refused;

  bool operator==(const Assignment&) const = default;
};

struct PlacementView {
  std::vector<ModelView> models;
  /// Keeps ModelView::latency alive where nothing else does.
  std::vector<std::shared_ptr<const LatencyModel>> latencies = {};
  std::vector<GpuView> gpus;
  /// What serves now. Empty at first.
  Assignment current;
};

/// Decides about all replicas at once. Deterministic: the same views in the same order give the
/// same assignments. Not thread-safe. May keep what it has computed about a LatencyModel by its
/// id(), so a model that is measured anew gets a LatencyModel of its own.
class Placer {
 public:
  virtual ~Placer() = default;
  /// As in the registry.
  virtual std::string_view name() const = 0;
  /// If false, the placer chooses only devices; ignore the granules and rows of its assignments.
  virtual bool DecidesShares() const { return true; }
  /// `view` is valid (CheckView). The result passes CheckAssignment.
  virtual Assignment Place(const PlacementView& view) = 0;
};

/// kInvalidArgument names the model or GPU, the field and its value.
Status CheckView(const PlacementView& view);

/// Memory of a replica whose batches have up to `rows` rows.
std::int64_t MemoryOf(const ModelView& model, std::int64_t rows);

/// The GPU for messages: its name in quotes, or "GPU 3" where it has none.
std::string NameOf(const PlacementView& view, std::size_t gpu);

/// kInvalidArgument: an index, a number of granules or rows, or a fraction is out of its range, a
/// model has two replicas on a GPU, the fractions of a model do not add up to 1, or a model is
/// neither placed nor refused. kResourceExhausted: a GPU cannot hold its granules or its memory.
/// The message names the model and the GPU.
Status CheckAssignment(const PlacementView& view, const Assignment& assignment);

/// The model and the GPU of each replica, sorted.
std::vector<std::pair<std::size_t, std::size_t>> PlacesOf(const Assignment& assignment);

/// Sorts the replicas as Assignment says.
void SortReplicas(Assignment& assignment);

}  // namespace lagoon

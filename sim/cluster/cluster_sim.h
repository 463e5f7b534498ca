#pragma once

// The batch-level simulator: many models on many devices, in virtual time. Its unit is a batch. How
// long a batch takes alone comes from a surface; kernels and blocks do not exist here
// (sim/device has these). docs/design/simulator.md says what this means for its results.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "sim/cluster/arrivals.h"
#include "sim/cluster/batch_device.h"
#include "sim/cluster/cluster_spec.h"
#include "sim/cluster/event_heap.h"
#include "sim/cluster/sim_replica.h"
#include "sim/cluster/sim_report.h"

namespace lagoon {

class ClusterSim;

struct BatchEnded {
  std::size_t replica = 0, model = 0;
  std::int64_t rows = 0;
  Nanoseconds took{0};
};

/// What adapts a cluster while it runs: a tuner of shares, or a placer of replicas. All calls come
/// from ClusterSim::Run(), and may call the methods for controllers.
class SimController {
 public:
  virtual ~SimController() = default;
  /// Every ClusterSpec::decision. All arrivals until now have been counted.
  virtual void Decide(ClusterSim& /*sim*/) {}
  virtual void OnBatch(ClusterSim& /*sim*/, const BatchEnded& /*batch*/) {}
  /// A model with a later start has begun to load. In ShareMode::kShares its replicas serve once
  /// their granules are free.
  virtual void OnStart(ClusterSim& /*sim*/, std::size_t /*model*/) {}
  virtual void OnStop(ClusterSim& /*sim*/, std::size_t /*model*/) {}
  /// The share of `replica` has changed, or a replica that was added serves.
  virtual void OnResized(ClusterSim& /*sim*/, std::size_t /*replica*/) {}
};

/// Requests of a model since the start. arrived = served + dropped + waiting + running.
struct SimCounts {
  std::uint64_t arrived = 0, served = 0, dropped = 0, waiting = 0, running = 0;
};

/// One thread. The same spec and controller give the same report, on every machine whose surfaces
/// give the same times.
class ClusterSim {
 public:
  /// `spec` is valid (CheckCluster).
  explicit ClusterSim(ClusterSpec spec);
  ClusterSim(const ClusterSim&) = delete;
  ClusterSim& operator=(const ClusterSim&) = delete;

  /// Once.
  SimReport Run(SimController& controller);

  // ---- For controllers, within Run().

  Nanoseconds now() const { return now_; }
  const ClusterSpec& spec() const { return spec_; }
  std::size_t replicas() const { return replicas_.size(); }  // with those that are gone
  const SimReplica& replica(std::size_t index) const { return replicas_[index]; }
  SimCounts Counts(std::size_t model) const;
  /// Takes the notice of the replica's batch limiter.
  BatchNotice TakeNotice(std::size_t replica);

  /// Gives a replica that serves another share, at the cost of ReconfigureSpec. Changes of one
  /// device take place in the order in which they were asked for; one that grows also waits until
  /// its granules are free. Of a replica that loads only the share changes that it will ask for.
  /// kInvalidArgument; kUnavailable: a change is under way; kResourceExhausted names the device:
  /// the shares would be more than 100 %, or the memory for both copies is missing.
  Status Resize(std::size_t replica, std::uint32_t granules);
  /// A new replica. It takes memory at once, and granules when it serves: after ModelSpec::load,
  /// and when its granules are free. Returns its index. kInvalidArgument; kResourceExhausted names
  /// the device: the memory is missing.
  Result<std::size_t> Add(const ReplicaSpec& replica);
  /// A new replica in place of `replica`, which serves until the new one is loaded; its requests
  /// that wait go to the new one. Returns the index of the new one. As Add().
  Result<std::size_t> Relocate(std::size_t replica, std::size_t gpu, std::uint32_t granules);
  /// Batches that run end. Requests that wait go to the model's other replicas, or are dropped.
  /// kInvalidArgument: it is gone already.
  Status Remove(std::size_t replica);
  /// The limit of a replica without a batch limiter, from the next batch on. kInvalidArgument.
  Status SetRows(std::size_t replica, std::int64_t rows);
  /// The replica's part of the model's arrivals from now on. kInvalidArgument.
  Status SetFraction(std::size_t replica, double fraction);
  /// Granules that no replica of the device has, or grows to. Those that load have none.
  std::uint32_t FreeGranules(std::size_t gpu) const {
    return spec_.gpus[gpu].granules - devices_[gpu].committed;
  }
  /// Granules of replicas that serve or have batches, as they are now or will be if that is more.
  std::uint32_t UsedGranules(std::size_t gpu) const {
    return std::max(devices_[gpu].used, devices_[gpu].committed);
  }

 private:
  enum class Kind : std::uint8_t {
    kBatchEnd,  // of a device; `version` says whether it is still true
    kArrival,   // of a model that has a replica with nothing to do
    kServe,     // a replica of a device may have something to do
    kStart,     // of a model
    kStop,      // of a model
    kDecision,
    kSecond,  // the end of a second of the report
  };
  struct Event {
    Kind kind = Kind::kServe;
    std::uint32_t index = 0;
    std::uint64_t version = 0;
  };
  struct Resizing {
    std::size_t replica = 0;
    std::uint32_t granules = 0;
    Nanoseconds ready{0};
  };
  struct Device {
    BatchDevice device;
    std::vector<std::size_t> replicas = {};  // that are not gone, or still have batches
    std::deque<Resizing> resizing = {};
    std::uint32_t used = 0;       // granules of replicas that serve, or whose batches still run
    std::uint32_t committed = 0;  // once every change has taken place
    std::int64_t memory = 0;
    std::uint64_t version = 0;
    std::optional<Nanoseconds> next_end = {};
    std::size_t turn = 0;  // ShareMode::kTimeSlice: index in `replicas` of the next
  };
  struct Model {
    Arrivals arrivals;
    std::optional<Nanoseconds> next = {};  // arrival
    bool armed = false;                    // there is a kArrival event
    bool stopped = false;
    std::vector<std::size_t> targets = {};  // replicas that get requests
    SimCounts counts = {};                  // but for waiting and running
  };

  // cluster_sim.cc: the loop, and batches
  void Push(Nanoseconds time, Kind kind, std::size_t index, std::uint64_t version = 0);
  void Handle(const Event& event);
  void HandleBatchEnds(std::size_t gpu);
  void HandleArrival(std::size_t model);
  void Finish(const SimBatch& batch);
  void Serve(std::size_t gpu);
  void ServeAll(Device& device);
  bool StartBatch(std::size_t index);
  std::int64_t Form(SimReplica& replica);
  bool WaitsForFull(SimReplica& replica);
  void DropLate(SimReplica& replica);
  double ShareOf(const SimReplica& replica) const;
  double ExpectedNs(const SimReplica& replica, std::int64_t rows) const;
  void Pull(std::size_t model);
  void PullAll();
  void Route(std::size_t model, Nanoseconds arrival);
  void Drop(std::size_t model, Nanoseconds at);

  // cluster_changes.cc: models and replicas that come, go and change
  void StartModel(std::size_t model);
  void StopModel(std::size_t model);
  void Load(std::size_t index, Nanoseconds ready);
  bool HasRoom(const SimReplica& replica) const;
  void Activate(std::size_t index);
  void Retire(std::size_t index);
  void FreeIfDrained(std::size_t index);
  void ApplyChanges(std::size_t gpu);
  bool ApplyResize(std::size_t gpu);
  void UpdateTargets(std::size_t model);
  void HandOver(SimReplica& from);
  Status CheckRoom(std::size_t gpu, std::uint32_t before, std::uint32_t after, bool loading) const;
  Status CheckMemory(std::size_t gpu, const ModelSpec& model) const;
  std::size_t AddReplica(const ReplicaSpec& spec);

  // Report.
  bool Measured() const { return now_ >= spec_.warmup; }
  SimSecond& SecondOf(std::size_t model, Nanoseconds time);
  void EndSecond();
  void EndSecondOfShares();
  double CapacityOf(const Device& device) const;

  const ClusterSpec spec_;
  SimController* controller_ = nullptr;
  Nanoseconds now_{0};
  EventHeap<Event> heap_;
  std::vector<Device> devices_;
  std::vector<Model> models_;
  std::deque<SimReplica> replicas_;  // references stay valid
  SimReport report_;
  double fragments_ = 0;  // these four are sums over seconds
  double gpus_used_ = 0, fragments_each_ = 0, capacity_ = 0;
  std::uint64_t measured_seconds_ = 0;
};

}  // namespace lagoon

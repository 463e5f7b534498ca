#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/observer.h"
#include "sched/observer.h"
#include "trace/ring.h"

namespace lagoon {

struct TraceOptions {
  std::size_t max_blocks = std::size_t{1} << 20;  // of all units together; 32 bytes each
  std::size_t max_events = std::size_t{1} << 20;  // of the scheduler; 40 bytes each
};

/// Keeps what a device and its dispatchers did last, in memory of fixed size: a ring a compute unit
/// and one for the scheduler. Recording allocates nothing and takes no lock; what does not fit
/// replaces the oldest and is counted. One dispatcher at a time; read it when there is none and the
/// device is idle. docs/guide/tracing.md
class TraceRecorder final : public DeviceObserver, public SchedObserver {
 public:
  struct Block {
    TimePoint begin{}, end{};
    LaunchId launch{};
    std::uint32_t tile = 0;
    std::uint16_t unit = 0;  // as DeviceBlock counts them
    bool committed = false;
  };
  static_assert(sizeof(Block) == 32 && sizeof(SchedEvent) == 40);

  /// The ops of a plan: the names of their bodies and of the nodes.
  struct PlanNames {
    std::vector<std::string> kernels, ops;
  };
  struct Queue {
    std::string name;
    JobClass job_class{};
    std::vector<PlanNames> plans;  // by batch size, as LoadedPlan::at
  };
  /// What one dispatcher did: the scheduler's records from number `first` on.
  struct Run {
    std::string scheduler;
    TimePoint begin{};
    std::uint64_t first = 0;
    std::vector<Queue> queues;  // by QueueId
  };

  explicit TraceRecorder(const TraceOptions& options = {});

  /// Becomes the observer of an idle device, which it must outlive. Once.
  void Attach(Device& device);

  const std::string& device() const { return device_; }
  std::uint32_t units() const { return units_; }
  const std::vector<Ring<Block>>& blocks() const { return blocks_; }
  const Ring<SchedEvent>& events() const { return events_; }
  const std::vector<Run>& runs() const { return runs_; }

  // DeviceObserver
  void OnPlaced(const DeviceBlock&) override {}
  void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) override;
  // SchedObserver
  void OnStart(const SchedulerConfig& config, TimePoint at) override;
  void OnQueue(QueueId queue, const QueueOptions& options) override;
  void OnEvent(const SchedEvent& event) override;

 private:
  const TraceOptions options_;
  std::string device_;
  std::uint32_t units_ = 0;
  std::vector<Ring<Block>> blocks_;  // by unit; of virtual time: one for all
  Ring<SchedEvent> events_;
  std::vector<Run> runs_;
};

}  // namespace lagoon

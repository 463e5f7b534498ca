#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/observer.h"
#include "sched/observer.h"
#include "trace/ring.h"

namespace lagoon {

struct TraceOptions {
  std::size_t max_blocks = std::size_t{1} << 20;  // kept of all units together; 32 bytes each
  std::size_t max_events = std::size_t{1} << 20;  // kept of the scheduler; 40 bytes each
};

/// Records the latest actions of a device and its dispatchers, in memory of fixed size: one ring
/// per compute unit and one for the scheduler. Recording blocks and events allocates nothing and
/// takes no lock. In a full ring a new record replaces the oldest one, which is counted. One
/// dispatcher at a time. Read the recorder when there is no dispatcher and the device is idle. See
/// docs/guide/tracing.md.
class TraceRecorder final : public DeviceObserver, public SchedObserver {
 public:
  struct Block {
    TimePoint begin{}, end{};
    LaunchId launch{};
    std::uint32_t tile = 0;
    std::uint16_t unit = 0;  // number of the unit, as in DeviceBlock
    bool committed = false;
  };
  static_assert(sizeof(Block) == 32 && sizeof(SchedEvent) == 40);

  /// Names for the ops of a plan, by op: `kernels` of their bodies, `ops` of the graph's nodes.
  struct PlanNames {
    std::vector<std::string> kernels, ops;
  };
  struct Queue {
    std::string name;
    JobClass job_class{};
    /// By number (SchedObserver::OnPlan). The names of plans from number kMaxPlans on are not kept.
    /// No names at the number of a queue without a first plan.
    std::vector<PlanNames> plans;
  };
  static constexpr std::uint32_t kMaxPlans = 1024;
  /// One dispatcher under one scheduler: the events from number `first` up to the next Run's.
  struct Run {
    std::string scheduler;
    TimePoint begin{};
    std::uint64_t first = 0;
    std::size_t dispatcher = 0;  // which one: queues()
  };

  /// A decision about the share of a model: what the model has from now on, and why.
  struct ShareNote {
    std::string model;
    double from = 0, to = 0;  // parts of the device; from 0: the model had no share
    UnitRange units;          // no units: the share is a weight
    std::string why;
    TimePoint at{};
  };
  static constexpr std::size_t kMaxShareNotes = 4096;

  explicit TraceRecorder(const TraceOptions& options = {});

  /// Becomes the observer of an idle device. The recorder must outlive the device. Call it once.
  void Attach(Device& device);

  const std::string& device() const { return device_; }
  std::uint32_t units() const { return units_; }
  const std::vector<Ring<Block>>& blocks() const { return blocks_; }
  const Ring<SchedEvent>& events() const { return events_; }
  const std::vector<Run>& runs() const { return runs_; }
  /// The queues of the run's dispatcher, by QueueId.
  const std::vector<Queue>& queues(const Run& run) const { return dispatchers_[run.dispatcher]; }

  /// Any thread, in order of `note.at`. Allocates. The newest kMaxShareNotes are kept.
  void OnShare(ShareNote note);
  /// Any thread. The oldest one first.
  std::deque<ShareNote> share_notes() const;

  // DeviceObserver
  void OnPlaced(const DeviceBlock&) override {}
  void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) override;
  // SchedObserver
  void OnStart(const SchedulerConfig& config, TimePoint at) override;
  void OnSwitch(const SchedulerConfig& config, TimePoint at) override;
  void OnQueue(QueueId queue, const QueueOptions& options) override;
  void OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) override;
  void OnEvent(const SchedEvent& event) override;

 private:
  const TraceOptions options_;
  std::string device_;
  std::uint32_t units_ = 0;
  std::vector<Ring<Block>> blocks_;  // by unit; in virtual time one ring for all units
  Ring<SchedEvent> events_;
  std::vector<Run> runs_;
  std::vector<std::vector<Queue>> dispatchers_;  // their queues
  mutable Mutex notes_mutex_;
  std::deque<ShareNote> share_notes_ GUARDED_BY(notes_mutex_);
};

}  // namespace lagoon

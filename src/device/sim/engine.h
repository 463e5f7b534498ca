#pragma once

// The discrete-event simulation behind a SimDevice. docs/design/simulator.md describes the model.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/host/guard_words.h"
#include "device/host/in_flight.h"
#include "device/observer.h"
#include "device/sim/gpu_model.h"
#include "device/sim/notifications.h"
#include "device/sim/timer_heap.h"
#include "device/sim/units.h"

namespace lagoon {

/// What a revocation does to running blocks.
enum class SimAbort : std::uint8_t {
  kCheck,  // they leave at their next guard check; committed tiles stay (the block protocol)
  kKill,   // they die at once, and an incomplete kernel starts anew (REEF 4.3)
};

/// Launches on compute units in virtual time. Plain data without threads: the device's lock
/// protects every method. Deterministic: no decision depends on an address. Nothing allocates after
/// construction.
///
/// A launch goes through these states in order. From each of them it can retire, back to kFree:
/// - kFree
/// - kArriving: during its launch latency
/// - kWaiting: in its hardware queue, or for its dependencies
/// - kGap: the bubble before a queued successor
/// - kReady: waits for the front end
/// - kStarted: it may place blocks
class SimEngine {
 public:
  struct Options {
    SimConstants constants;
    SimAbort abort = SimAbort::kCheck;
    std::uint64_t seed = 0;
    std::uint32_t launches = 0;
    std::uint32_t streams = 0;
  };

  /// `guards`: the device's guard words. Revoke() follows every change of a word. Borrowed.
  SimEngine(const Options& options, const GuardWords& guards, TimePoint start);

  /// Simulates up to and including `until`, which must not go back.
  void RunUntil(TimePoint until);
  /// Time of the next event. kNoDeadline: nothing happens without the host.
  TimePoint next() const { return timers_.next(); }

  /// The engine must have run until now. kFull: nothing was taken.
  SubmitResult Add(const Launch& launch, const SimKernel& kernel);
  SubmitResult Add(const Copy& copy);

  /// A guard word changed. Running blocks can see the change at `visible`. Launches that the word
  /// keeps from starting retire at once.
  void Revoke(TimePoint visible);

  void SetObserver(DeviceObserver* observer) { observer_ = observer; }

  Notifications& events() { return events_; }
  const Notifications& events() const { return events_; }

  /// Time during which units had blocks, summed over units, until now.
  Nanoseconds busy() const { return busy_; }
  std::uint32_t units() const { return units_.size(); }
  /// Blocks and chunks that ended, committed or not.
  std::uint64_t blocks_ended() const { return blocks_ended_; }

 private:
  static constexpr std::uint32_t kGroupBlocks = 32;

  enum class State : std::uint8_t { kFree, kArriving, kWaiting, kGap, kReady, kStarted };

  struct Slot : InFlight {
    const SimKernel* kernel = nullptr;  // null: a copy
    std::uint64_t turn = 0;  // number in order of becoming ready; equal ranks take turns by it
    State state = State::kFree;
    bool in_queue = false;     // linked in a hardware queue
    bool holds_queue = false;  // unordered, and occupies a hardware queue: it has blocks to place
    bool left_stream = false;  // its stream has moved on
    bool evicted = false;      // revoked, and counted in evictions_
    bool active = false;       // in active_ or copies_
    bool killed = false;       // happens only once
    std::uint32_t lane = 0;    // hardware queue; kNoIndex: padding, which starts without one
    std::uint32_t front = kNoIndex;  // index in fronts_
    std::uint32_t queue_before = kNoIndex, queue_after = kNoIndex;
    std::uint32_t running = 0;                        // number of blocks
    std::uint32_t groups = kNoIndex;                  // list of its running blocks
    std::uint64_t no_room_since = ~std::uint64_t{0};  // value of gives_ when no block fitted
  };

  // Blocks of one launch that started together and end together. They share one timer.
  struct Group {
    std::uint32_t slot = 0, count = 0;
    // In the launch's list. Of a free group: `after` is the next free group.
    std::uint32_t before = kNoIndex, after = kNoIndex;
    bool leaves = false;  // its blocks end without a result
    bool killed = false;  // its tiles were given back when it was killed
    TimePoint start, end;
    std::array<std::uint32_t, kGroupBlocks> tiles;
    std::array<std::uint16_t, kGroupBlocks> units;
  };

  // A launch that a done count may concern: at the head of its hardware queue, or in no stream.
  // Kept outside of the slots, so that a search touches few cache lines.
  struct Front {
    const Progress* names;      // its record
    const Progress* waits_for;  // record that it waits for; null: none
    std::uint32_t slot;
    bool look_always;  // a partial count: any commit may concern it
  };

  // A kernel that may place blocks, or a copy that may start a chunk.
  struct Active {
    Rank rank;
    std::uint64_t turn;
    std::uint32_t slot;
    bool operator<(const Active& other) const {
      return rank != other.rank ? rank < other.rank : turn < other.turn;
    }
  };

  struct Queue {
    std::uint32_t first = kNoIndex, last = kNoIndex;
    bool moved = false;  // in moved_
  };

  struct CopyEngine {
    std::uint32_t slot = kNoIndex;  // the copy
    std::uint32_t tile = 0;
    TimePoint placed;
  };

  // Life of a launch (engine.cc).
  void Fire(std::uint32_t timer);
  void Advance(TimePoint to);
  void Settle();
  void Insert(Slot& slot);
  std::uint32_t LaneOf(const Slot& slot);
  std::uint32_t LaneOf(const Dep& dep) const;  // kNoIndex: unknown
  void EnterFronts(std::uint32_t index);
  void LeaveFronts(Slot& slot);
  void Look(std::uint32_t index);
  void TryReady(std::uint32_t index, bool waited);
  static bool Retirable(const Slot& slot);
  void Retire(std::uint32_t index);
  void Report(Slot& slot, DeviceEvent::Kind kind);

  // Hardware queues and the front end (engine_queues.cc).
  void Arrive(std::uint32_t index);
  void ConsiderHead(std::uint32_t lane, bool waited);
  void LeaveQueue(std::uint32_t index);
  void LeaveStream(std::uint32_t index);
  void Move(std::uint32_t lane);
  void MakeReady(std::uint32_t index);
  void PumpFrontEnd();
  bool HasQueueFor(const Slot& slot) const;
  void Start(std::uint32_t index);
  void Exhausted(std::uint32_t index);

  // Blocks (engine_blocks.cc).
  std::vector<Active>& ListOf(const Slot& slot);
  void Activate(std::uint32_t index);
  void Deactivate(std::uint32_t index);
  void PlaceAll();
  bool Place(const Active& active);                        // true: no tile is left
  bool PlaceOn(std::uint32_t unit, const Active& active);  // false: no tile is left
  Nanoseconds BlockTime(const Slot& slot, std::uint32_t tile) const;
  Group& GroupFor(const Active& active, TimePoint end);
  void CloseGroup();
  void EndGroup(std::uint32_t index);
  void FreeGroup(std::uint32_t index);
  bool CommitGroup(const Group& group);
  void AfterDone(const Progress* progress, bool complete);
  void AfterUnclaim(const Progress* progress);
  void PumpCopies();
  void StartChunk(CopyEngine& engine, std::uint32_t engine_index);
  void EndChunk(std::uint32_t engine);
  void Observe(const Group& group, bool ended, bool committed);
  static DeviceBlock BlockOf(const Slot& slot);
  DeviceBlock ChunkOf(std::uint32_t engine) const;

  // Revocation (engine_revoke.cc).
  bool MakeLeave(std::uint32_t index, TimePoint visible);
  void LeaveAt(std::uint32_t group, const SimKernel& kernel, TimePoint visible);
  void Kill(std::uint32_t index, TimePoint visible);
  bool OthersRun(std::uint32_t index, const Progress* progress) const;

  std::uint32_t IndexOf(const Slot& slot) const { return slots_.IndexOf(slot); }

  const Options options_;
  const GuardWords& guards_;
  DeviceObserver* observer_ = nullptr;
  TimePoint now_;
  Units units_;
  Notifications events_;

  // Timer ids: groups first, then launches, copy engines, the front end.
  const std::uint32_t first_slot_timer_, first_copy_timer_, front_end_timer_;
  TimerHeap timers_;

  InFlightSlots<Slot> slots_;
  std::uint64_t next_turn_ = 0;

  std::vector<Group> groups_;
  std::uint32_t free_group_ = kNoIndex;
  std::uint32_t open_group_ = kNoIndex;  // the group that PlaceOn() fills

  std::vector<Front> fronts_;
  std::vector<std::uint32_t> hits_;  // scratch memory of AfterDone and AfterUnclaim
  std::uint32_t watchers_ = 0;       // number of Fronts with look_always
  std::vector<Active> active_;       // kernels, sorted
  std::vector<Active> copies_;       // sorted
  std::vector<Active> ready_;        // sorted
  std::vector<Queue> queues_;
  // By StreamId: the launch that has left its queue and is not finished.
  std::vector<std::uint32_t> stream_launch_;
  std::uint32_t queues_used_ = 0;  // number of queues that are not empty
  std::uint32_t queues_held_ = 0;  // number of queues held by unordered launches
  std::uint32_t next_lane_ = 0;
  struct Recent {
    const Progress* names = nullptr;
    std::uint32_t lane = kNoIndex;
  };
  std::array<Recent, 64> recent_;  // ring of the launches that retired last
  std::uint32_t next_recent_ = 0;
  std::vector<std::uint32_t> moved_;      // lanes whose head has changed
  std::vector<std::uint32_t> evictions_;  // by lane; scratch memory of Revoke
  bool kills_ = false;                    // scratch memory of Revoke: blocks were killed
  std::vector<CopyEngine> copy_engines_;
  struct Candidate {
    std::uint32_t unit, threads;
  };
  std::vector<Candidate> candidates_;  // scratch memory of Place

  std::uint32_t last_lane_ = kNoIndex;
  TimePoint last_dispatch_;
  TimePoint evicted_at_;  // when the queues are past the revoked launches

  std::uint64_t gives_ = 0;  // number of times that units were given back
  bool by_host_ = false;     // the current change comes from a call of the host
  bool changed_ = false;     // something may be startable or placeable
  Nanoseconds busy_{0};
  std::uint64_t blocks_ended_ = 0;
};

}  // namespace lagoon

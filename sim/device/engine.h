#pragma once

// The discrete-event simulation behind a SimDevice. docs/design/simulator.md describes the model.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/host/guard_words.h"
#include "device/host/shares.h"
#include "device/observer.h"
#include "sim/device/block_groups.h"
#include "sim/device/fronts.h"
#include "sim/device/gpu_model.h"
#include "sim/device/hardware_queues.h"
#include "sim/device/notifications.h"
#include "sim/device/sim_launch.h"
#include "sim/device/timer_heap.h"
#include "sim/device/units.h"

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
/// The parts: launches in flight (SimLaunch), what looks at done counts (Fronts), the queues before
/// the front end (HardwareQueues), the compute units (Units) and the blocks on them (BlockGroups).
/// The engine moves launches from one part to the next.
class SimEngine {
 public:
  struct Options {
    SimConstants constants;
    SimAbort abort = SimAbort::kCheck;
    bool joined_padding = false;  // SimDeviceOptions::joined_padding
    std::uint64_t seed = 0;
    std::uint32_t launches = 0;
    std::uint32_t streams = 0;
  };

  /// `guards`: the device's guard words. Revoke() follows every change of a word. `shares`: the
  /// device's. OnShareMoved() follows every move. Both are borrowed.
  SimEngine(const Options& options, const GuardWords& guards, const Shares& shares,
            TimePoint start);

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

  /// Places blocks of launches that found no room on the former units of a share.
  void OnShareMoved();

  void SetObserver(DeviceObserver* observer) { observer_ = observer; }

  Notifications& events() { return events_; }
  const Notifications& events() const { return events_; }

  /// Time during which units had blocks, summed over units, until now.
  Nanoseconds busy() const { return busy_; }
  std::uint32_t units() const { return units_.size(); }
  /// Blocks and chunks that ended, committed or not.
  std::uint64_t blocks_ended() const { return blocks_ended_; }

 private:
  using State = SimLaunch::State;

  // A kernel that may place blocks, or a copy that may start a chunk.
  struct Active {
    Rank rank;
    std::uint64_t turn;
    std::uint32_t launch;
    bool operator<(const Active& other) const {
      return rank != other.rank ? rank < other.rank : turn < other.turn;
    }
  };

  struct CopyEngine {
    std::uint32_t launch = kNoIndex;  // the copy
    std::uint32_t tile = 0;
    TimePoint placed;
  };

  // Life of a launch (engine.cc).
  void Fire(std::uint32_t timer);
  void Advance(TimePoint to);
  void Settle();
  void Insert(SimLaunch& launch);
  void Look(std::uint32_t index);
  void TryReady(std::uint32_t index, bool waited);
  void LookAtWaiting();
  const std::atomic<std::uint32_t>* PaddedBy(const SimLaunch& launch) const;
  bool WaitsForPadding(const SimLaunch& launch) const;
  static bool Retirable(const SimLaunch& launch);
  void Retire(std::uint32_t index);
  void Report(SimLaunch& launch, DeviceEvent::Kind kind);
  void Tell(SimLaunch& launch);

  // Hardware queues and the front end (engine_queues.cc).
  void Arrive(std::uint32_t index);
  void ConsiderHead(std::uint32_t lane, bool waited);
  void LeaveQueue(SimLaunch& launch);
  void LeaveStream(SimLaunch& launch);
  void MakeReady(std::uint32_t index);
  void PumpFrontEnd();
  void Start(std::uint32_t index);
  void Exhausted(std::uint32_t index);

  // Blocks (engine_blocks.cc).
  std::vector<Active>& ListOf(const SimLaunch& launch);
  void Activate(std::uint32_t index);
  void Deactivate(std::uint32_t index);
  void PlaceAll();
  // Starts blocks of the launch on free units. Returns true if no tile is left.
  bool Place(const Active& active);
  void FindCandidates(const SimLaunch& launch);
  bool PlaceBeyondShare(const Active& active);
  bool PlaceOnCandidates(const Active& active);
  bool PlaceOn(std::uint32_t unit, const Active& active);  // false: no tile is left
  void FindWanted();
  void AddCandidate(std::uint32_t unit, const SimLaunch& launch);
  static std::uint32_t RoomOf(const SimLaunch& launch);  // blocks that may start
  Nanoseconds BlockTime(const SimLaunch& launch, std::uint32_t tile) const;
  BlockGroup& GroupFor(const Active& active, std::int64_t work);
  void CloseGroup();
  void RepriceAll();
  void Reprice(std::uint32_t unit, std::uint32_t seat);
  void MoveBlock(Resident from, std::uint32_t to);
  void EndGroup(std::uint32_t index);
  bool CommitGroup(const BlockGroup& group);
  void AfterDone(const Progress* progress, bool complete);
  void AfterUnclaim(const Progress* progress);
  void PumpCopies();
  void StartChunk(CopyEngine& engine, std::uint32_t engine_index);
  void EndChunk(std::uint32_t engine);
  void Observe(const BlockGroup& group, bool ended, bool committed);
  static DeviceBlock BlockOf(const SimLaunch& launch);
  DeviceBlock ChunkOf(std::uint32_t engine) const;

  // Revocation (engine_revoke.cc).
  bool MakeLeave(std::uint32_t index, TimePoint visible);
  void LeaveAt(std::uint32_t group, const SimKernel& kernel, TimePoint visible);
  void Kill(std::uint32_t index, TimePoint visible);
  bool OthersRun(std::uint32_t index, const Progress* progress) const;

  const Options options_;
  const GuardWords& guards_;
  const Shares& shares_;
  DeviceObserver* observer_ = nullptr;
  TimePoint now_;
  Units units_;
  Notifications events_;

  // Timer ids: groups first, then launches, copy engines, the front end.
  const std::uint32_t first_launch_timer_, first_copy_timer_, front_end_timer_;
  TimerHeap timers_;

  SimLaunches launches_;
  Fronts fronts_;
  HardwareQueues queues_;
  BlockGroups groups_;
  std::uint32_t open_group_ = kNoIndex;  // the group that PlaceOn() fills
  std::uint64_t pass_ = 0;               // number of calls of RepriceAll()
  std::uint64_t next_turn_ = 0;
  std::vector<Active> active_;  // kernels, sorted
  std::vector<Active> copies_;  // sorted
  std::vector<Active> ready_;   // sorted
  bool kills_ = false;          // scratch memory of Revoke: blocks were killed
  std::vector<CopyEngine> copy_engines_;
  struct Candidate {
    std::uint32_t unit, threads;
  };
  std::vector<Candidate> candidates_;  // scratch memory of Place
  std::vector<bool> wanted_;           // by unit; of FindWanted

  std::uint32_t last_lane_ = kNoIndex;
  TimePoint last_dispatch_;
  TimePoint evicted_at_;  // when the queues are past the revoked launches

  // Number of blocks that gave their unit back, and of moves of shares; the units of the last ones.
  std::uint64_t gives_ = 0;
  std::array<std::uint16_t, 64> given_{};
  std::uint64_t share_moved_ = 0;  // gives_ after the last move
  bool by_host_ = false;           // the current change comes from a call of the host
  bool changed_ = false;           // something may be startable or placeable
  bool resets_ = false;  // the current revocation does more than keep launches from starting
  bool padding_retired_ = false;  // since the last look at what waits
  std::uint32_t padding_ = 0;     // launches with SimLaunch::pads
  Nanoseconds busy_{0};
  std::uint64_t blocks_ended_ = 0;
};

}  // namespace lagoon

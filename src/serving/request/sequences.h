#pragma once

// Requests of sequences (sequence_batching): one at a time of each, in their order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "serving/request/flight.h"

namespace lagoon {

class PlanMaker;

/// The sequences of a model. A sequence begins with a request that says so, and ends with one that
/// says so, or when it has had no request for SequenceSettings::idle. It has a place meanwhile; the
/// model has so many places, and sequences for which there is none wait with their requests, in the
/// order in which they began. A request runs when the one before it in its sequence has ended,
/// however it has ended. The model gets the controls of the sequence and its states: the outputs of
/// the last request that was computed, or the initial ones where a sequence begins. Requests of
/// different sequences are joined into batches as those of other models. Any thread may call any
/// method.
class Sequences final : public WaitingPlace {
 public:
  /// Both outlive it.
  Sequences(const ServedModel& model, PlanMaker& maker);
  /// All requests must have been answered.
  ~Sequences();
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  /// Takes a request, which runs at once if nothing is before it. After an error it has not taken
  /// it. kInvalidArgument: the request has no id, or does not begin a sequence that there is not.
  /// kUnavailable: too many requests or sequences wait.
  Status Add(const std::shared_ptr<Flight>& flight);
  /// On any thread, also while the request is answered: does not read the request.
  void Cancel(Flight& flight) override;
  Kind kind() const override { return &RequestWaits::sequence; }
  /// A request that Add() has taken is answered with `result`. Takes the states out of it. Does not
  /// throw.
  void Ended(const Flight& flight, Result<InferResponse>& result) noexcept;

 private:
  struct State {
    Dims dims;
    std::shared_ptr<const void> owner;
    std::span<const std::byte> data;
  };
  struct Sequence {
    std::deque<std::shared_ptr<Flight>> waiting;
    const Flight* running = nullptr;
    bool placed = false;
    bool ends = false;  // the last request that has come ends it
    TimePoint used;     // when its last request ended
    std::vector<State> states;
  };
  using Entry = std::map<SequenceId, Sequence>::iterator;

  static bool IsUnused(const Sequence& sequence) {
    return sequence.placed && sequence.running == nullptr && sequence.waiting.empty();
  }
  Result<Entry> FindOrBegin(const Flight& flight) REQUIRES(mutex_);
  std::shared_ptr<Flight> TakeNext(Sequence& sequence) REQUIRES(mutex_);
  void Give(Flight& flight, Sequence& sequence) const;
  void Pass(const std::shared_ptr<Flight>& flight);
  void Remove(Entry entry) REQUIRES(mutex_);
  void PlaceNext() REQUIRES(mutex_);
  using Flights = std::vector<std::shared_ptr<Flight>>;
  void TakeReady(Flights& ready) REQUIRES(mutex_);
  void TakeExpired(TimePoint now, Flights& expired) REQUIRES(mutex_);
  void Wake(TimePoint at) REQUIRES(mutex_);
  TimePoint NextTime() const REQUIRES(mutex_);
  void Run(const std::stop_token& stop);

  const ServedModel& model_;
  PlanMaker& maker_;
  const SequencePlan& plan_;
  const Nanoseconds idle_;
  const std::size_t places_, most_waiting_;

  Mutex mutex_;
  CondVar news_;
  std::map<SequenceId, Sequence> sequences_ GUARDED_BY(mutex_);
  std::deque<SequenceId> unplaced_ GUARDED_BY(mutex_);  // in their order
  std::size_t placed_ GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;  // requests of all sequences
  bool ready_ GUARDED_BY(mutex_) = false;       // a sequence may have a request to run
  TimePoint wakes_ GUARDED_BY(mutex_) = {};     // when the thread goes on by itself
  std::jthread thread_;                         // last member
};

}  // namespace lagoon

#include "serving/request/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/guard.h"
#include "base/text.h"
#include "base/thread.h"
#include "plan/strings.h"
#include "serving/request/pass.h"
#include "serving/request/plan_maker.h"

namespace lagoon {
namespace {

std::string Name(const SequencePart& part) {
  return part.text.empty() ? std::to_string(part.number) : Quoted(part.text);
}

std::size_t PlacesOf(const ServedModel& model) {
  const SequenceSettings& settings = *model.settings().sequences;
  const std::int64_t rows = std::max<std::int64_t>(model.signature().max_batch, 1);
  const std::int64_t of_instance = settings.candidates > 0 ? settings.candidates : rows;
  return static_cast<std::size_t>(of_instance) * model.settings().instances;
}

/// A sequence's id as an input of strings. A number is written in digits.
struct IdText {
  explicit IdText(const SequencePart& part)
      : text(part.text.empty() ? std::to_string(part.number) : part.text),
        element{text.data(), text.size()} {}

  const std::string text;
  const StringElement element;
};

}  // namespace

Sequences::Sequences(const ServedModel& model, PlanMaker& maker)
    : model_(model),
      maker_(maker),
      plan_(*model.sequence()),
      idle_(model.settings().sequences->idle),
      places_(PlacesOf(model)),
      most_waiting_(model.settings().max_queue_size),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Sequences::~Sequences() {
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    news_.NotifyAll();
  }
  thread_.join();
}

// ---- Requests come

Status Sequences::Add(const std::shared_ptr<Flight>& flight) {
  const SequencePart& part = flight->request().asked.sequence;
  if (!part.has_id()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("inference request to model {} must specify a non-zero or non-empty "
                            "correlation ID",
                            Quoted(model_.name())));
  }
  std::shared_ptr<Flight> next;
  {
    const MutexLock lock(mutex_);
    if (waiting_ >= most_waiting_) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("model {}: {} requests of sequences wait, the limit "
                              "(max_queue_size); try again",
                              Quoted(model_.name()), waiting_));
    }
    LAGOON_ASSIGN_OR_RETURN(const Entry entry, FindOrBegin(*flight));
    Sequence& sequence = entry->second;
    sequence.waiting.push_back(flight);
    ++waiting_;
    sequence.ends = part.end;
    flight->WaitIn(*this);
    flight->Join(*this);
    next = TakeNext(sequence);
    if (next == nullptr) Wake(flight->request().deadline);
  }
  if (next != nullptr) Pass(next);
  flight->HeedCancel();
  return {};
}

/// The sequence of a request that has come.
Result<Sequences::Entry> Sequences::FindOrBegin(const Flight& flight) {
  const SequencePart& part = flight.request().asked.sequence;
  const SequenceId id = part.id();
  const auto found = sequences_.find(id);
  const bool goes_on = found != sequences_.end() && !found->second.ends;
  if (!goes_on && !part.start) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("inference request for sequence {} to model {} must specify the START "
                            "flag on the first request of the sequence",
                            Name(part), Quoted(model_.name())));
  }
  if (found != sequences_.end()) return found;
  // Unplaced sequences have at least one waiting request each, so that they are bounded too.
  const auto [entry, added] = sequences_.try_emplace(id);
  if (placed_ < places_ && unplaced_.empty()) {
    entry->second.placed = true;
    ++placed_;
  } else {
    unplaced_.push_back(id);
  }
  return entry;
}

// ---- Requests run

/// The sequence's next request if it may run now, with its controls and states. It waits no more.
std::shared_ptr<Flight> Sequences::TakeNext(Sequence& sequence) {
  if (!sequence.placed || sequence.running != nullptr || sequence.waiting.empty()) return nullptr;
  std::shared_ptr<Flight> flight = sequence.waiting.front();
  Give(*flight, sequence);
  sequence.waiting.pop_front();
  --waiting_;
  sequence.running = flight.get();
  return flight;
}

/// Sets the inputs of the request that the sequence gives.
void Sequences::Give(Flight& flight, Sequence& sequence) const {
  const SequencePart& part = flight.request().asked.sequence;
  for (const SequencePlan::Control& control : plan_.controls) {
    using enum SequenceControl::Kind;
    const SequenceControl& rule = control.control;
    const std::size_t size = SizeOf(rule.type);
    if (rule.kind == kId && rule.type == DataType::kString) {
      const auto id = std::make_shared<const IdText>(part);
      flight.GiveInput(control.input, control.dims, std::as_bytes(std::span(&id->element, 1)), id);
      continue;
    }
    if (rule.kind == kId) {
      // Little-endian: the first bytes are those of a narrower number.
      const auto element = std::make_shared<const std::uint64_t>(part.number);
      flight.GiveInput(control.input, control.dims,
                       std::as_bytes(std::span(element.get(), 1)).first(size), element);
      continue;
    }
    const bool yes = rule.kind == kReady || (rule.kind == kStart && part.start) ||
                     (rule.kind == kEnd && part.end);
    flight.GiveInput(control.input, control.dims, std::span(yes ? rule.yes : rule.no).first(size),
                     nullptr);
  }
  if (part.start || sequence.states.empty()) {
    sequence.states.clear();
    for (const SequencePlan::State& state : plan_.states) {
      sequence.states.push_back({state.dims, state.initial, *state.initial});
    }
  }
  for (std::size_t i = 0; i < plan_.states.size(); ++i) {
    const State& state = sequence.states[i];
    flight.GiveInput(plan_.states[i].input, state.dims, state.data, state.owner);
  }
}

/// Hands a request of TakeNext() over to what runs it.
void Sequences::Pass(const std::shared_ptr<Flight>& flight) {
  if (flight->request().deadline <= Now()) return flight->Refuse(TimeoutError(model_.name()));
  Status passed = WithoutExceptions([&] { return PassOn(flight, maker_); });
  if (!passed) flight->Refuse(std::move(passed).error());
}

void Sequences::Ended(const Flight& flight, Result<InferResponse>& result) noexcept {
  const RequestBinding& binding = flight.request().binding;
  const MutexLock lock(mutex_);
  const auto found = sequences_.find(flight.sequence_id());
  if (found == sequences_.end()) return;
  Sequence& sequence = found->second;
  const bool ran = sequence.running == &flight;
  if (ran) {
    sequence.running = nullptr;
    sequence.used = Now();
    ready_ = ready_ || !sequence.waiting.empty();
  }
  if (ran && result && !binding.states.empty()) {
    // Where memory runs out, the states stay as they were.
    (void)WithoutExceptions([&]() -> Status {
      std::vector<State> states;
      for (const std::size_t at : binding.states) {
        OutputTensor& output = result->outputs[at];
        auto data = std::make_shared<UnfilledBytes>();
        if (at < binding.answered) {
          *data = output.data;
        } else {
          *data = std::move(output.data);
        }
        states.push_back({output.dims, data, {data->data(), data->size()}});
      }
      sequence.states = std::move(states);
      return {};
    });
  }
  if (result && result->outputs.size() > binding.answered) {
    result->outputs.erase(result->outputs.begin() + static_cast<std::ptrdiff_t>(binding.answered),
                          result->outputs.end());
  }
  const bool over = sequence.ends || !sequence.placed;
  const TimePoint idle = sequence.used + idle_;
  if (sequence.waiting.empty() && sequence.running == nullptr && over) Remove(found);
  Wake(idle);
}

/// Wakes the thread if it has something to do now, or would sleep beyond `at`.
void Sequences::Wake(TimePoint at) {
  if (ready_ || at < wakes_) news_.NotifyOne();
}

// ---- Sequences end

void Sequences::Remove(Entry entry) {
  if (entry->second.placed) --placed_;
  std::erase(unplaced_, entry->first);
  sequences_.erase(entry);
  PlaceNext();
}

/// Gives the places that are free to those that wait for one.
void Sequences::PlaceNext() {
  for (; placed_ < places_ && !unplaced_.empty(); unplaced_.pop_front()) {
    const auto entry = sequences_.find(unplaced_.front());
    entry->second.placed = true;
    entry->second.used = Now();
    ++placed_;
    ready_ = true;
  }
}

void Sequences::Cancel(Flight& flight) {
  std::shared_ptr<Flight> taken;
  {
    const MutexLock lock(mutex_);
    const auto found = sequences_.find(flight.sequence_id());
    if (found == sequences_.end()) return;
    auto& waiting = found->second.waiting;
    const auto at = std::ranges::find(waiting, &flight, &std::shared_ptr<Flight>::get);
    if (at == waiting.end()) return;
    taken = std::move(*at);
    waiting.erase(at);
    --waiting_;
  }
  taken->Finished(WithoutJob(Outcome::kCancelled, Now()));
}

// ---- The thread: requests behind others, deadlines, and sequences that nobody ends

/// What both functions take lives on where memory runs out in them: a request must not be answered
/// under the mutex.
void Sequences::TakeReady(Flights& ready) {
  ready.reserve(sequences_.size());
  for (auto& [id, sequence] : sequences_) {
    if (auto next = TakeNext(sequence)) ready.push_back(std::move(next));
  }
  ready_ = false;
}

/// The requests that have waited for too long. Sequences that are idle go.
void Sequences::TakeExpired(TimePoint now, Flights& expired) {
  expired.reserve(waiting_);
  for (auto entry = sequences_.begin(); entry != sequences_.end();) {
    const auto at = entry++;
    Sequence& sequence = at->second;
    for (auto flight = sequence.waiting.begin(); flight != sequence.waiting.end();) {
      if ((*flight)->request().deadline > now) {
        ++flight;
        continue;
      }
      expired.push_back(std::move(*flight));
      flight = sequence.waiting.erase(flight);
      --waiting_;
    }
    if (IsUnused(sequence) && sequence.used + idle_ <= now) Remove(at);
  }
}

TimePoint Sequences::NextTime() const {
  TimePoint next = kNoDeadline;
  for (const auto& [id, sequence] : sequences_) {
    for (const auto& flight : sequence.waiting) {
      next = std::min(next, flight->request().deadline);
    }
    if (IsUnused(sequence)) next = std::min(next, sequence.used + idle_);
  }
  return next;
}

void Sequences::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-sequence");
  while (true) {
    Flights ready, expired;
    {
      const MutexLock lock(mutex_);
      while (!stop.stop_requested() && !ready_ && (wakes_ = NextTime()) > Now()) {
        if (wakes_ == kNoDeadline) {
          news_.Wait(mutex_);
        } else {
          news_.WaitUntil(mutex_, wakes_);
        }
      }
      wakes_ = TimePoint{};
      if (stop.stop_requested()) return;
      try {
        TakeExpired(Now(), expired);
        TakeReady(ready);
      } catch (const std::bad_alloc&) {
        ready_ = true;  // the next round does what is left
      }
    }
    for (const auto& flight : expired) {
      flight->Finished(WithoutJob(Outcome::kExpired, Now()));
    }
    for (const auto& flight : ready) Pass(flight);
  }
}

}  // namespace lagoon

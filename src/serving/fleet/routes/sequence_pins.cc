#include "serving/fleet/routes/sequence_pins.h"

#include <fmt/format.h>

#include "base/text.h"

namespace lagoon {

SequenceName SequenceOf(const InferRequest& request) {
  return {request.model, request.version, request.sequence.number, request.sequence.text};
}

Result<SequencePins::Pin> SequencePins::Begin(const SequenceName& sequence, const Place& place,
                                              Nanoseconds idle, TimePoint now) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= most_ && !entries_.contains(sequence)) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("model {}: {} sequences are in progress in the fleet, the limit; try "
                            "again when one has ended",
                            Quoted(sequence.model), entries_.size()));
  }
  Entry& entry = entries_[sequence];
  entry = {.pin = {place, Beginning{++beginnings_}}, .idle = idle, .used = now, .in_flight = 1};
  return entry.pin;
}

std::optional<SequencePins::Pin> SequencePins::Continue(const SequenceName& sequence) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(sequence);
  if (found == entries_.end()) return std::nullopt;
  ++found->second.in_flight;
  return found->second.pin;
}

void SequencePins::Answered(const SequenceName& sequence, Beginning beginning, bool last,
                            TimePoint now) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(sequence);
  if (found == entries_.end() || found->second.pin.beginning != beginning) return;
  if (last) {
    entries_.erase(found);
    return;
  }
  --found->second.in_flight;
  found->second.used = now;
}

void SequencePins::Forget(TimePoint now) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [now](const auto& entry) {
    return entry.second.in_flight == 0 && now - entry.second.used > entry.second.idle;
  });
}

std::size_t SequencePins::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace lagoon

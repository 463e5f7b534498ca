#include "sched/programs/waitlist.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon {

Waitlist::Stream Waitlist::AddStream(StreamKind kind) {
  const bool per_thread = kind == StreamKind::kPerThread;
  if (per_thread && per_thread_ != kDefaultStream) return per_thread_;
  streams_.push_back({.kind = per_thread ? StreamKind::kBlocking : kind});
  const auto stream = static_cast<Stream>(streams_.size() - 1);
  if (per_thread) per_thread_ = stream;
  return stream;
}

// Makes `op` wait for the last operation of `stream`: when that is complete, so are all before.
void Waitlist::WaitForLast(const StreamState& stream, Op op, Entry& entry) {
  if (stream.next == 0) return;
  const auto last = incomplete_.find(stream.next - 1);
  if (last == incomplete_.end()) return;
  last->second.successors.push_back(op);
  ++entry.waits_for;
}

Waitlist::Op Waitlist::Add(Stream stream) {
  LAGOON_CHECK(stream < streams_.size());
  const Op op = next_++;
  Entry entry;
  if (stream == kDefaultStream) {
    for (const StreamState& other : streams_) {
      if (other.kind == StreamKind::kBlocking) WaitForLast(other, op, entry);
    }
  } else {
    WaitForLast(streams_[stream], op, entry);
    if (streams_[stream].kind == StreamKind::kBlocking) {
      WaitForLast(streams_[kDefaultStream], op, entry);
    }
  }
  incomplete_.emplace(op, std::move(entry));
  streams_[stream].next = next_;
  return op;
}

// `also`: the number, plus one, of another operation that it waits for; 0: none.
Waitlist::Op Waitlist::AddMark(Stream stream, Op also) {
  const Op op = Add(stream);
  Entry& entry = incomplete_.at(op);
  entry.marks = true;
  WaitForLast({.next = also}, op, entry);
  if (entry.waits_for == 0) incomplete_.erase(op);
  return op;
}

Waitlist::Event Waitlist::AddEvent() {
  events_.push_back(0);
  return static_cast<Event>(events_.size() - 1);
}

void Waitlist::Record(Event event, Stream stream) {
  LAGOON_CHECK(event < events_.size());
  events_[event] = AddMark(stream, 0) + 1;
}

void Waitlist::WaitFor(Event event, Stream stream) {
  LAGOON_CHECK(event < events_.size());
  const Op marked = events_[event];
  if (marked != 0 && !IsComplete(marked - 1)) AddMark(stream, marked);
}

void Waitlist::Complete(Op op, std::vector<Op>& activated) {
  LAGOON_CHECK(incomplete_.contains(op) && active(op));
  const auto first = static_cast<std::ptrdiff_t>(activated.size());
  std::vector<Op> complete{op};  // and the marks that are complete thereby
  while (!complete.empty()) {
    const auto found = incomplete_.find(complete.back());
    complete.pop_back();
    const std::vector<Op> successors = std::move(found->second.successors);
    incomplete_.erase(found);
    for (const Op successor : successors) {
      Entry& entry = incomplete_.at(successor);
      if (--entry.waits_for == 0) (entry.marks ? complete : activated).push_back(successor);
    }
  }
  std::sort(activated.begin() + first, activated.end());
}

bool Waitlist::IsStreamComplete(Stream stream) const {
  LAGOON_CHECK(stream < streams_.size());
  return streams_[stream].next == 0 || IsComplete(streams_[stream].next - 1);
}

}  // namespace lagoon

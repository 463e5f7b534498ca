#include "sched/programs/waitlist.h"

#include "base/check.h"

namespace lagoon {

Waitlist::Stream Waitlist::AddStream(StreamKind kind) {
  streams_.push_back({.kind = kind});
  return static_cast<Stream>(streams_.size() - 1);
}

// Makes `op` wait for the last operation of `stream`: when that is complete, so are all before.
void Waitlist::WaitFor(const StreamState& stream, Op op, Entry& entry) {
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
      if (other.kind == StreamKind::kBlocking) WaitFor(other, op, entry);
    }
  } else {
    WaitFor(streams_[stream], op, entry);
    if (streams_[stream].kind == StreamKind::kBlocking) {
      WaitFor(streams_[kDefaultStream], op, entry);
    }
  }
  incomplete_.emplace(op, std::move(entry));
  streams_[stream].next = next_;
  return op;
}

void Waitlist::Complete(Op op, std::vector<Op>& activated) {
  const auto found = incomplete_.find(op);
  LAGOON_CHECK(found != incomplete_.end() && found->second.waits_for == 0);
  const std::vector<Op> successors = std::move(found->second.successors);
  incomplete_.erase(found);
  for (const Op successor : successors) {
    if (--incomplete_.at(successor).waits_for == 0) activated.push_back(successor);
  }
}

bool Waitlist::IsStreamComplete(Stream stream) const {
  LAGOON_CHECK(stream < streams_.size());
  return streams_[stream].next == 0 || IsComplete(streams_[stream].next - 1);
}

}  // namespace lagoon

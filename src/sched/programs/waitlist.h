#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lagoon {

/// How the operations of a stream are ordered against the default stream.
enum class StreamKind : std::uint8_t {
  kBlocking,     // in order with the default stream, as cudaStreamCreate makes them
  kNonBlocking,  // no order with any other stream
  kPerThread,    // the job's one stream of this kind, cudaStreamPerThread; as a blocking one
};

/// The operations of one job that are not complete, in the order of CUDA's streams (Paella 5.2 and
/// Figure 7). An operation is *active* when all operations that it waits for are complete; the
/// scheduler sees only active ones. Every operation waits for the one before it on its stream. An
/// operation of the default stream (the legacy one) also waits for all that were issued before it
/// on blocking streams. An operation of a blocking stream also waits for all that were issued
/// before it on the default stream.
///
/// An event marks a place in a stream, and streams may wait for it. Marks and waits are operations
/// too, so that they count as incomplete, but they are complete as soon as they are active: the
/// scheduler never sees them. Not thread-safe.
class Waitlist {
 public:
  using Stream = std::uint32_t;
  using Op = std::uint64_t;  // number of the operation, counted within the job
  using Event = std::uint32_t;
  static constexpr Stream kDefaultStream = 0;

  Waitlist() { streams_.emplace_back(); }

  /// kPerThread: the same stream each time.
  Stream AddStream(StreamKind kind);
  std::size_t streams() const { return streams_.size(); }  // the default one included

  /// Issues the next operation, on a stream that exists.
  Op Add(Stream stream);

  Event AddEvent();
  std::size_t events() const { return events_.size(); }
  /// The event, which exists, happens when all operations that were issued on the stream before
  /// are complete. What waits already waits for the record of before.
  void Record(Event event, Stream stream);
  /// Operations that are issued on the stream from now on wait for the event's last record. Does
  /// nothing if it was not recorded, or has happened.
  void WaitFor(Event event, Stream stream);
  /// `op` must be incomplete.
  bool active(Op op) const { return incomplete_.at(op).waits_for == 0; }

  /// Marks an active operation as complete. Appends the operations that become active by this, in
  /// order of issue.
  void Complete(Op op, std::vector<Op>& activated);

  bool IsComplete(Op op) const { return !incomplete_.contains(op); }
  /// Whether all operations issued on the stream are complete.
  bool IsStreamComplete(Stream stream) const;
  std::size_t incomplete() const { return incomplete_.size(); }

 private:
  struct StreamState {
    StreamKind kind = StreamKind::kBlocking;
    Op next = 0;  // number of its last operation plus one; 0: none was issued
  };
  struct Entry {
    std::uint32_t waits_for = 0;  // number of incomplete operations that it waits for
    bool marks = false;           // a mark or a wait: complete as soon as it is active
    std::vector<Op> successors;
  };

  void WaitForLast(const StreamState& stream, Op op, Entry& entry);
  Op AddMark(Stream stream, Op also);

  std::vector<StreamState> streams_;
  Stream per_thread_ = kDefaultStream;  // kDefaultStream: there is none
  std::vector<Op> events_;              // number of the mark of each plus one; 0: not recorded
  std::map<Op, Entry> incomplete_;
  Op next_ = 0;
};

}  // namespace lagoon

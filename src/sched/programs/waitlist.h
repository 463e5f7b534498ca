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
};

/// The operations of one job that are not complete, in the order of CUDA's streams (Paella 5.2 and
/// Figure 7). An operation is *active* when all operations that it waits for are complete; the
/// scheduler sees only active ones. Every operation waits for the one before it on its stream. An
/// operation of the default stream (the legacy one) also waits for all that were issued before it
/// on blocking streams. An operation of a blocking stream also waits for all that were issued
/// before it on the default stream. Not thread-safe.
class Waitlist {
 public:
  using Stream = std::uint32_t;
  using Op = std::uint64_t;  // number of the operation, counted within the job
  static constexpr Stream kDefaultStream = 0;

  Waitlist() { streams_.emplace_back(); }

  Stream AddStream(StreamKind kind);
  std::size_t streams() const { return streams_.size(); }  // the default one included

  /// Issues the next operation, on a stream that exists.
  Op Add(Stream stream);
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
    std::vector<Op> successors;
  };

  void WaitFor(const StreamState& stream, Op op, Entry& entry);

  std::vector<StreamState> streams_;
  std::map<Op, Entry> incomplete_;
  Op next_ = 0;
};

}  // namespace lagoon

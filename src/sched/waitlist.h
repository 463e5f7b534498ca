#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lagoon {

/// What a stream waits for beside its own operations.
enum class StreamKind : std::uint8_t {
  kBlocking,     // in order with the default stream, as cudaStreamCreate makes them
  kNonBlocking,  // with nobody
};

/// The operations of one job that are not complete, in the order of CUDA's streams (Paella 5.2 and
/// Figure 7). An operation is *active* when nothing that it waits for is left; only active ones are
/// shown to the scheduler. It waits for the operation before it on its stream; one of the default
/// stream (the legacy one) also for all issued before it on blocking streams, and one of a blocking
/// stream for those issued before it on the default stream. Not thread-safe.
class Waitlist {
 public:
  using Stream = std::uint32_t;
  using Op = std::uint64_t;  // counts the job's operations
  static constexpr Stream kDefaultStream = 0;

  Waitlist() { streams_.emplace_back(); }

  Stream AddStream(StreamKind kind);
  std::size_t streams() const { return streams_.size(); }  // the default one included

  /// Issues the next operation, on a stream that there is.
  Op Add(Stream stream);
  /// Of an incomplete operation.
  bool active(Op op) const { return incomplete_.at(op).waits_for == 0; }

  /// An active operation is complete. Appends those that are active for it, in order of issue.
  void Complete(Op op, std::vector<Op>& activated);

  bool IsComplete(Op op) const { return !incomplete_.contains(op); }
  /// All operations issued on it.
  bool IsStreamComplete(Stream stream) const;
  std::size_t incomplete() const { return incomplete_.size(); }

 private:
  struct StreamState {
    StreamKind kind = StreamKind::kBlocking;
    Op next = 0;  // one behind its last operation; 0: none was issued
  };
  struct Entry {
    std::uint32_t waits_for = 0;  // operations
    std::vector<Op> successors;
  };

  void WaitFor(const StreamState& stream, Op op, Entry& entry);

  std::vector<StreamState> streams_;
  std::map<Op, Entry> incomplete_;
  Op next_ = 0;
};

}  // namespace lagoon

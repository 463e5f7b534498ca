#pragma once

// Which member has a sequence that is in progress.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/mutex.h"
#include "base/time.h"
#include "serving/core/request.h"

namespace lagoon {

/// A sequence, as its requests name it.
struct SequenceName {
  std::string model, version;  // as the requests have them
  std::uint64_t number = 0;
  std::string text;

  bool operator<(const SequenceName& other) const {
    return std::tie(model, version, number, text) <
           std::tie(other.model, other.version, other.number, other.text);
  }
};
/// `request.sequence` has an id.
SequenceName SequenceOf(const InferRequest& request);

/// The sequences in progress of a fleet, each with its member: the states of a sequence are there
/// and nowhere else. Begin() says where a sequence is, until its last request is answered or it has
/// had no request for its `idle` time. Any thread may call any method.
class SequencePins {
 public:
  static constexpr std::size_t kMost = 65'536;

  /// A member by its place in the fleet, and by the number that tells it from others there before.
  struct Place {
    std::size_t member = 0;
    std::uint64_t joined = 0;
    std::string name;  // for messages

    bool operator==(const Place&) const = default;
  };
  /// Names one beginning of a sequence.
  enum class Beginning : std::uint64_t {};
  struct Pin {
    Place place;
    Beginning beginning{};
  };

  explicit SequencePins(std::size_t most = kMost) : most_(most) {}

  /// The sequence begins there, with a request in flight, whatever was before. kUnavailable: there
  /// are `most` sequences.
  Result<Pin> Begin(const SequenceName& sequence, const Place& place, Nanoseconds idle,
                    TimePoint now);
  /// Where the sequence is; one more request of it is in flight. Empty: it is not in progress.
  std::optional<Pin> Continue(const SequenceName& sequence);
  /// A request that Begin() or Continue() has counted is answered. `last`: the sequence has ended
  /// with it. Ignores a request of an earlier beginning.
  void Answered(const SequenceName& sequence, Beginning beginning, bool last, TimePoint now);
  /// Forgets the sequences that have had no request for their idle time.
  void Forget(TimePoint now);
  std::size_t size() const;

 private:
  struct Entry {
    Pin pin;
    Nanoseconds idle{0};
    TimePoint used;             // the last answer
    std::size_t in_flight = 0;  // requests of this beginning
  };

  const std::size_t most_;
  mutable Mutex mutex_;
  std::map<SequenceName, Entry> entries_ GUARDED_BY(mutex_);
  std::uint64_t beginnings_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lagoon

#pragma once

// Which requests may have ended the members that ran them.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/time.h"
#include "serving/core/request.h"

namespace lagoon {

/// What two requests have in common that do the same at a member: the model, the version, and the
/// inputs with their contents. The id does not count.
using RequestDigest = std::array<std::uint64_t, 2>;
RequestDigest DigestOf(const InferRequest& request);

/// A member may be lost because of a request that it ran ("query of death"), or for any other
/// reason, together with requests that did nothing. So a request whose member was lost while it ran
/// is suspected until it is answered:
/// - After the first loss it may be sent to another member.
/// - After a loss of a second member it may not, and requests like it are sent at most once in
///   kPause. Until one of them is answered, or for kRemember, no lost request is sent again.
///
/// Losses of one member within kOneLoss are one loss: all its requests end with it. At most kMost
/// requests are suspected; more are not sent again. Any thread may call any method.
class Suspects {
 public:
  static constexpr Nanoseconds kOneLoss{std::chrono::seconds(1)};
  static constexpr Nanoseconds kPause{std::chrono::seconds(10)};
  static constexpr Nanoseconds kRemember{std::chrono::seconds(60)};
  static constexpr std::size_t kMost = 1024;

  /// Whether there is none. Then every request may be sent, and no answer clears one.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  /// `member`, by its name, was lost while it ran the request. True: the request may be sent to
  /// another member.
  bool Lost(const RequestDigest& request, const std::string& member, TimePoint now);
  /// Whether a new request may be sent to a member.
  bool MaySend(const RequestDigest& request, TimePoint now);
  /// A member has answered the request, and so has survived it.
  void Answered(const RequestDigest& request);

 private:
  struct Suspect {
    std::string member;  // of the last loss
    TimePoint lost;      // the last time
    TimePoint next;      // when a request like it may be sent
    int losses = 0;
  };

  void Forget(TimePoint now) REQUIRES(mutex_);
  void Resized() REQUIRES(mutex_) { size_.store(suspects_.size(), std::memory_order_relaxed); }

  std::atomic<std::size_t> size_{0};  // of suspects_
  Mutex mutex_;
  std::map<RequestDigest, Suspect> suspects_ GUARDED_BY(mutex_);
};

}  // namespace lagoon

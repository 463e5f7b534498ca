#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace lagoon {

/// What one connection has done since it began.
struct GrpcTraffic {
  std::uint64_t received = 0;  // bytes
  std::uint64_t sent = 0;      // bytes
  std::uint64_t messages = 0;  // received
  std::uint64_t started = 0;   // streams that the client opened
  std::uint64_t answered = 0;  // streams that both sides ended
  std::uint64_t failed = 0;    // streams that ended otherwise: reset, or refused
};

/// Whether a connection sends more frames than its calls need. For one connection, one thread at a
/// time.
///
/// gRPC 1.51 takes about 6 KB for each stream that a client opens. It counts neither those that the
/// client has reset (CVE-2023-44487), nor any before the client has acknowledged the limit, and it
/// bounds no header that comes in many frames.
class GrpcConduct {
 public:
  struct Limits {
    std::uint64_t max_calls = 256;  // at a time
    std::uint64_t max_message_bytes = 0;
    std::uint64_t max_buffered_bytes = 0;  // of all calls of the server
  };

  /// A client may leave calls without an answer: kFailures at once, and then kFailuresPerSecond. An
  /// attack resets some 20,000 a second.
  static constexpr double kFailures = 4000;
  static constexpr double kFailuresPerSecond = 2000;

  explicit GrpcConduct(TimePoint now) : judged_(now) {}

  /// Empty: the connection may stay. Else what it does, for the log.
  std::string_view Judge(const Limits& limits, const GrpcTraffic& now_has, TimePoint now);

 private:
  GrpcTraffic before_;
  TimePoint judged_;
  double failures_left_ = kFailures;
  std::uint64_t at_sent_ = 0;      // bytes received when the server was last seen to send
  std::uint64_t at_progress_ = 0;  // bytes received when a stream or a message was last seen
};

}  // namespace lagoon

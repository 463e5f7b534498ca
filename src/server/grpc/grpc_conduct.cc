#include "server/grpc/grpc_conduct.h"

#include <algorithm>
#include <chrono>

namespace lagoon {
namespace {

// Until it knows the server's limit, a client may open more calls than that.
constexpr std::uint64_t kMoreCalls = 4;
// Control frames that a connection may send while it opens no stream: pings, window updates.
constexpr std::uint64_t kControlBytes = std::uint64_t{1} << 20;
// Flow control: without a window update from the server, which is a frame that it sends, no client
// can send more data than these windows. gRPC opens at most 5 MiB for each stream.
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;

}  // namespace

std::string_view GrpcConduct::Judge(const Limits& limits, const GrpcTraffic& now_has,
                                    TimePoint now) {
  const std::chrono::duration<double> passed = now - judged_;
  failures_left_ = std::min(kFailures, failures_left_ + passed.count() * kFailuresPerSecond) -
                   static_cast<double>(now_has.failed - before_.failed);
  if (now_has.sent != before_.sent) at_sent_ = now_has.received;
  if (now_has.started != before_.started || now_has.messages != before_.messages ||
      now_has.answered + now_has.failed != before_.answered + before_.failed) {
    at_progress_ = now_has.received;
  }
  before_ = now_has;
  judged_ = now;

  // The counts are not read at one moment.
  const std::uint64_t ended = now_has.answered + now_has.failed;
  const std::uint64_t open = now_has.started - std::min(ended, now_has.started);
  if (failures_left_ < 0) return "it resets its calls faster than a client that gives up";
  if (open > kMoreCalls * limits.max_calls) return "it opens more calls than the server allows";
  if (now_has.received - at_sent_ > (open + 2) * kWindowBytes) {
    return "it sends more than flow control allows";
  }
  const std::uint64_t bodies = std::min(std::min(open, limits.max_calls) * limits.max_message_bytes,
                                        limits.max_buffered_bytes);
  if (now_has.received - at_progress_ > kControlBytes + bodies) {
    return "it sends frames that belong to no call";
  }
  return {};
}

}  // namespace lagoon

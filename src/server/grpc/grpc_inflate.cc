#include "server/grpc/grpc_inflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/compress/inflate.h"
#include "base/time.h"

namespace lagoon {

Result<GrpcInflated> InflateMessage(std::span<const std::byte> message, const EdgeMemory& memory,
                                    std::size_t most) {
  constexpr std::size_t kGrowth = std::size_t{256} << 10;
  most = std::min(most, kMostInflatedBytes);
  GrpcInflated inflated;
  inflated.body = std::make_shared<RequestBody>(memory, std::weak_ptr<MemoryHolder>(), Now());
  RequestBody& body = *inflated.body;
  std::size_t& used = inflated.bytes;
  Inflater inflater;
  for (;;) {
    if (used > most) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the compressed message becomes more than {} bytes, the limit; send "
                              "it as it is",
                              most));
    }
    if (used == body.capacity()) {
      const std::size_t room = std::min(std::max(2 * used, kGrowth), most + 1);
      // Pinned: nothing revokes it while it is written.
      if (!body.charge().Hold(room + memory.budget->OwnBytes(), Now()) ||
          !body.Reserve(room, used)) {
        return Fail(ErrorCode::kUnavailable,
                    "no room to inflate the message; send it as it is, or try again later");
      }
    }
    const Inflater::Step step =
        inflater.Next(message, true, {body.data() + used, body.capacity() - used});
    used += step.written;
    if (step.state == Inflater::State::kBad) {
      return Fail(ErrorCode::kInvalidArgument, "the compressed message cannot be inflated");
    }
    if (step.state == Inflater::State::kDone && used <= most) return inflated;
  }
}

}  // namespace lagoon

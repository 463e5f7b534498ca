#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "server/edge/request_body.h"

namespace lagoon {

struct GrpcInflated {
  std::shared_ptr<RequestBody> body;
  std::size_t bytes = 0;
};

/// Inflates a message (gzip or zlib). Takes a millisecond for 256 KB. kInvalidArgument: it is
/// damaged; kResourceExhausted: it becomes more than `most` bytes, or more than kMostInflatedBytes;
/// kUnavailable: there is no room.
Result<GrpcInflated> InflateMessage(std::span<const std::byte> message, const EdgeMemory& memory,
                                    std::size_t most);

}  // namespace lagoon

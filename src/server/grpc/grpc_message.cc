#include "server/grpc/grpc_message.h"

#include <fmt/format.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "base/compress/inflate.h"
#include "server/grpc/grpc_service.grpc.pb.h"
#include "server/memory_budget.h"

namespace lagoon {
namespace {

using RequestTraits = grpc::SerializationTraits<inference::ModelInferRequest>;

/// Compressed data begins with one of these bytes, a ModelInferRequest with none of them: the first
/// is no tag, the second is the tag of a field that the message does not have.
constexpr std::byte kGzip{0x1f};
constexpr std::byte kZlib{0x78};

std::span<const std::byte> NextPart(grpc::ProtoBufferReader& reader) {
  const void* data = nullptr;
  int size = 0;
  while (size == 0 && reader.Next(&data, &size)) {
  }
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

Result<std::string> Inflate(grpc::ByteBuffer& raw) {
  constexpr std::size_t kGrowth = std::size_t{256} << 10;
  grpc::ProtoBufferReader reader(&raw);
  Inflater inflater;
  std::string inflated;
  std::size_t used = 0;
  std::span<const std::byte> input;
  for (bool last = false;;) {
    if (input.empty() && !last) {
      input = NextPart(reader);
      last = input.empty();
    }
    if (used == inflated.size()) inflated.resize(std::max(2 * used, kGrowth));
    const Inflater::Step step =
        inflater.Next(input, last, std::as_writable_bytes(std::span(inflated)).subspan(used));
    used += step.written;
    if (step.state == Inflater::State::kBad) {
      return Fail(ErrorCode::kInvalidArgument, "the compressed message cannot be inflated");
    }
    if (used > kMostInflatedBytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the compressed message becomes more than {} bytes, the limit; send "
                              "it as it is",
                              kMostInflatedBytes));
    }
    if (step.state == Inflater::State::kDone) break;
  }
  inflated.resize(used);
  return inflated;
}

}  // namespace

lagoon::Status ReadInferMessage(grpc::ByteBuffer& raw, inference::ModelInferRequest& message) {
  std::byte first{};
  if (raw.Valid()) {
    grpc::ProtoBufferReader reader(&raw);
    const std::span<const std::byte> part = NextPart(reader);
    if (!part.empty()) first = part.front();
  }
  bool parsed = false;
  if (first == kGzip || first == kZlib) {
    LAGOON_ASSIGN_OR_RETURN(const std::string inflated, Inflate(raw));
    raw.Clear();
    parsed = message.ParseFromString(inflated);
  } else {
    parsed = RequestTraits::Deserialize(&raw, &message).ok();
  }
  if (parsed) return {};
  return Fail(ErrorCode::kInvalidArgument, "the message is not a ModelInferRequest");
}

}  // namespace lagoon

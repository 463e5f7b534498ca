#include "server/grpc/grpc_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

namespace lagoon {
namespace {

using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;
using Bytes = std::span<const std::byte>;

/// Calls `raw` with the contents of each of raw_input_contents, and `other` with the bytes between
/// them. Returns false if the bytes are no message.
template <typename Raw, typename Other>
bool Split(Bytes bytes, Raw raw, Other other) {
  constexpr std::uint32_t kRaw = Wire::MakeTag(
      inference::ModelInferRequest::kRawInputContentsFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED);
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  std::size_t begin = 0;  // of what is between
  for (;;) {
    const auto at = static_cast<std::size_t>(in.CurrentPosition());
    if (at == bytes.size()) break;
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) return false;
    if (tag != kRaw) {
      if (!Wire::SkipField(&in, tag)) return false;
      continue;
    }
    std::uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return false;
    const auto data = static_cast<std::size_t>(in.CurrentPosition());
    if (size > bytes.size() - data || !in.Skip(static_cast<int>(size))) return false;
    if (at > begin && !other(bytes.subspan(begin, at - begin))) return false;
    raw(bytes.subspan(data, size));
    begin = data + size;
  }
  return begin == bytes.size() || other(bytes.subspan(begin));
}

}  // namespace

std::size_t BytesToParse(Bytes bytes) {
  std::size_t raws = 0;
  const auto pass = [](Bytes /*between*/) { return true; };
  Split(
      bytes, [&raws](Bytes raw) { raws += raw.size(); }, pass);
  return bytes.size() - raws;
}

Result<std::shared_ptr<const InferMessage>> ReadInferMessage(Bytes bytes,
                                                             std::shared_ptr<const void> owner) {
  auto read = std::make_shared<InferMessage>();
  read->owner = std::move(owner);
  // A message in pieces is the same as one piece.
  const auto merge = [&](Bytes between) {
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(between.data()),
                        static_cast<int>(between.size()));
    return read->message.MergeFromCodedStream(&in) && in.ConsumedEntireMessage();
  };
  if (!Split(
          bytes, [&](Bytes raw) { read->raws.push_back(raw); }, merge)) {
    return Fail(ErrorCode::kInvalidArgument, "the message is not a ModelInferRequest");
  }
  return std::shared_ptr<const InferMessage>(std::move(read));
}

}  // namespace lagoon

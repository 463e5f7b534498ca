#include "device/host/copy_range.h"

#include <algorithm>
#include <cstring>

namespace lagoon {
namespace {

// Calls `piece(host, offset, bytes)` for each piece of [begin, begin + bytes) that lies in one
// part. `offset`: of the piece from `begin`.
template <typename Piece>
void ForEachPiece(const Copy& copy, std::size_t begin, std::size_t bytes, Piece piece) {
  std::size_t done = 0;
  for (const HostPart& part : copy.parts) {
    if (begin >= part.bytes) {
      begin -= part.bytes;
      continue;
    }
    const std::size_t count = std::min(part.bytes - begin, bytes - done);
    piece(part.data == nullptr ? nullptr : part.data + begin, done, count);
    done += count;
    begin = 0;
    if (done == bytes) return;
  }
}

}  // namespace

void ReadHostSide(const Copy& copy, std::size_t begin, std::size_t bytes, std::byte* to) {
  if (bytes == 0) return;
  if (copy.parts.empty()) {
    std::memcpy(to, static_cast<const std::byte*>(copy.from) + begin, bytes);
    return;
  }
  ForEachPiece(copy, begin, bytes, [to](const std::byte* host, std::size_t at, std::size_t count) {
    if (host == nullptr) {
      std::memset(to + at, 0, count);
    } else {
      std::memcpy(to + at, host, count);
    }
  });
}

void WriteHostSide(const Copy& copy, std::size_t begin, std::size_t bytes, const std::byte* from) {
  if (bytes == 0) return;
  if (copy.parts.empty()) {
    std::memcpy(static_cast<std::byte*>(copy.to) + begin, from, bytes);
    return;
  }
  ForEachPiece(copy, begin, bytes, [from](std::byte* host, std::size_t at, std::size_t count) {
    if (host != nullptr) std::memcpy(host, from + at, count);
  });
}

void CopyRange(const Copy& copy, std::size_t begin, std::size_t bytes) {
  if (copy.from == nullptr) {
    ReadHostSide(copy, begin, bytes, static_cast<std::byte*>(copy.to) + begin);
  } else {
    WriteHostSide(copy, begin, bytes, static_cast<const std::byte*>(copy.from) + begin);
  }
}

bool PartsFit(const Copy& copy) {
  if (copy.parts.empty()) return true;
  std::size_t bytes = 0;
  for (const HostPart& part : copy.parts) bytes += part.bytes;
  return bytes == copy.bytes && (copy.to == nullptr) != (copy.from == nullptr);
}

}  // namespace lagoon

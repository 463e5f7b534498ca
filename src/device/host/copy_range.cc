#include "device/host/copy_range.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace lagoon {
namespace {

// Writes past the caches: memory that is written as a whole is not read before.
void Stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64, kVector = sizeof(__m128i);
  const std::size_t head =
      std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    const auto* const in = reinterpret_cast<const __m128i*>(from + done);
    auto* const out = reinterpret_cast<__m128i*>(to + done);
    for (std::size_t i = 0; i < kLine / kVector; ++i) {
      _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
    }
  }
  std::memcpy(to + done, from + done, bytes - done);
  _mm_sfence();  // such writes are not ordered with those that follow
#else
  std::memcpy(to, from, bytes);
#endif
}

// Copies a piece of `copy`.
void Move(const Copy& copy, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (copy.past_caches) return Stream(to, from, bytes);
  std::memcpy(to, from, bytes);
}

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
    return Move(copy, to, static_cast<const std::byte*>(copy.from) + begin, bytes);
  }
  ForEachPiece(copy, begin, bytes, [&](const std::byte* host, std::size_t at, std::size_t count) {
    if (host == nullptr) {
      std::memset(to + at, 0, count);
    } else {
      Move(copy, to + at, host, count);
    }
  });
}

void WriteHostSide(const Copy& copy, std::size_t begin, std::size_t bytes, const std::byte* from) {
  if (bytes == 0) return;
  if (copy.parts.empty()) {
    return Move(copy, static_cast<std::byte*>(copy.to) + begin, from, bytes);
  }
  ForEachPiece(copy, begin, bytes, [&](std::byte* host, std::size_t at, std::size_t count) {
    if (host != nullptr) Move(copy, host, from + at, count);
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

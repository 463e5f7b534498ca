#include "server/telemetry/traceparent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/hex.h"

namespace lagoon {
namespace {

constexpr std::size_t kBytesOfVersion0 = 55;

/// Lower case only: upper case is not valid.
std::optional<std::uint8_t> Digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

/// Two digits per byte from `at` on. False: there are others.
bool ReadHex(std::string_view text, std::size_t at, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = Digit(text[at + 2 * i]), low = Digit(text[at + 2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return true;
}

bool AnySet(std::span<const std::uint8_t> bytes) {
  return std::ranges::any_of(bytes, [](std::uint8_t byte) { return byte != 0; });
}

}  // namespace

TraceContext ParseTraceparent(std::string_view text) {
  if (text.size() < kBytesOfVersion0) return {};
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  std::uint8_t version = 0, flags = 0;
  TraceContext context;
  if (!ReadHex(text, 0, {&version, 1}) || !ReadHex(text, 3, context.trace) ||
      !ReadHex(text, 36, context.parent) || !ReadHex(text, 53, {&flags, 1})) {
    return {};
  }
  // A later version may have more behind another dash.
  const bool longer = text.size() > kBytesOfVersion0;
  if (version == 0xff || (longer && (version == 0 || text[kBytesOfVersion0] != '-'))) return {};
  if (!AnySet(context.trace) || !AnySet(context.parent)) return {};
  context.sampled = (flags & 1) != 0;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  return fmt::format("00-{}-{}-0{}", HexOf(context.trace), HexOf(context.parent),
                     context.sampled ? 1 : 0);
}

}  // namespace lagoon

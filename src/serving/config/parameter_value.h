#pragma once

// What the readers of a model's parameters share.

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace lagoon {

/// The number that the whole text is; nullopt: it is none, or does not fit.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// kInvalidArgument names the parameter and its value. `takes`: what it takes.
inline tl::unexpected<Error> BadParameter(std::string_view key, std::string_view value,
                                          std::string_view takes) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("parameter '{}' is '{}'; it takes {}", key, value, takes));
}

}  // namespace lagoon

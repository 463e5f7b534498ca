#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace lagoon {

/// Where the external data of a model lie, if not in files: what its TensorProtos call a location
/// is a key here. Any thread.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// In bytes. Nothing: there is no such location.
  virtual std::optional<std::size_t> SizeOf(std::string_view location) const = 0;
  /// Fills `to` with the bytes from `offset` on, which are there (SizeOf).
  virtual Status ReadAt(std::string_view location, std::size_t offset,
                        std::span<std::byte> to) const = 0;
};

}  // namespace lagoon

#pragma once

#include <cstddef>

#include "device/device.h"

namespace lagoon {

/// Copies bytes [begin, begin + bytes) of the host's side of `copy` to `to`: from Copy::parts, or
/// without parts from Copy::from.
void ReadHostSide(const Copy& copy, std::size_t begin, std::size_t bytes, std::byte* to);
/// Copies `bytes` bytes from `from` to the host's side of `copy`, from byte `begin` on: to
/// Copy::parts, or without parts to Copy::to.
void WriteHostSide(const Copy& copy, std::size_t begin, std::size_t bytes, const std::byte* from);

/// Copies bytes [begin, begin + bytes) of `copy`, on a device whose memory is the host's.
void CopyRange(const Copy& copy, std::size_t begin, std::size_t bytes);

/// Whether exactly one side is in parts, and the parts have Copy::bytes together; or there are no
/// parts.
bool PartsFit(const Copy& copy);

}  // namespace lagoon

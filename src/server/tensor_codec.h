#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "plan/tensor.h"

namespace lagoon {

/// The type with this name in the Open Inference Protocol; nullopt: there is none.
std::optional<DataType> ParseOipType(std::string_view name);

/// Bytes of a dense tensor. kInvalidArgument, without the tensor's name, when `dims` has a negative
/// number or the product does not fit; kUnimplemented for BYTES, whose elements have no size.
Result<std::size_t> TensorBytes(DataType type, const Dims& dims);

/// The message, without the tensor's name, about a tensor that comes with `given` bytes where its
/// shape needs `needed`. Triton's clients compare its words.
std::string UnexpectedBytes(std::uint64_t given, DataType type, const Dims& dims,
                            std::size_t needed);

/// The request parameter `timeout`. kInvalidArgument when no clock could hold it.
Result<Nanoseconds> TimeoutFromMicroseconds(std::uint64_t timeout_us);

}  // namespace lagoon

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "plan/tensor.h"

namespace lagoon {

/// The type with this name in the Open Inference Protocol; nullopt: there is none.
std::optional<DataType> ParseOipType(std::string_view name);

/// Bytes of a dense tensor; for BYTES, whose elements have no size, their number. kInvalidArgument,
/// without the tensor's name, when `dims` has a negative number or the product does not fit.
Result<std::size_t> TensorBytes(DataType type, const Dims& dims);

/// Whether `data` is a tensor of these dims. kInvalidArgument, without the tensor's name:
/// TensorBytes fails, `data` has another size, or its elements of BYTES are not as many or lead
/// beyond its end.
Status CheckTensorBytes(DataType type, const Dims& dims, std::span<const std::byte> data);
/// The message, without the tensor's name, about a tensor that comes with `given` bytes where its
/// shape needs `needed`. Triton's clients compare its words.
std::string UnexpectedBytes(std::uint64_t given, DataType type, const Dims& dims,
                            std::size_t needed);

/// The request parameter `timeout`. kInvalidArgument when no clock could hold it.
Result<Nanoseconds> TimeoutFromMicroseconds(std::uint64_t timeout_us);

}  // namespace lagoon

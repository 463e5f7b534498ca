#include "server/tensors/tensor_codec.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "plan/bytes_tensor.h"
#include "serving/core/request.h"

namespace lagoon {
namespace {

constexpr std::array kTypes = {
    DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64,
    DataType::kInt8,    DataType::kInt16,   DataType::kInt32,    DataType::kInt64,
    DataType::kUInt8,   DataType::kUInt16,  DataType::kUInt32,   DataType::kUInt64,
    DataType::kBool,    DataType::kString,
};

// Far above the size of any body, and far below the point where a product could overflow 64 bits.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;

}  // namespace

std::optional<DataType> ParseOipType(std::string_view name) {
  for (const DataType type : kTypes) {
    if (OipName(type) == name) return type;
  }
  return std::nullopt;
}

Result<std::size_t> TensorBytes(DataType type, const Dims& dims) {
  auto bytes = type == DataType::kString ? 1 : static_cast<std::int64_t>(SizeOf(type));
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("shape {} has a negative number", ShownShape(dims)));
    }
    if (dim == 0) {
      empty = true;  // the other dims must still be valid
    } else if (bytes > kMaxBytes / dim) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("shape {} is too large", ShownShape(dims)));
    } else {
      bytes *= dim;
    }
  }
  return empty ? 0 : static_cast<std::size_t>(bytes);
}

std::string UnexpectedBytes(std::uint64_t given, DataType type, const Dims& dims,
                            std::size_t needed) {
  return fmt::format("got unexpected byte size {}, expected {} for {} of shape {}", given, needed,
                     OipName(type), ShownShape(dims));
}

Status CheckTensorBytes(DataType type, const Dims& dims, std::span<const std::byte> data) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, TensorBytes(type, dims));
  if (type == DataType::kString) return CheckBytesElements(data, bytes);
  if (data.size() == bytes) return {};
  return Fail(ErrorCode::kInvalidArgument, UnexpectedBytes(data.size(), type, dims, bytes));
}

Result<Nanoseconds> TimeoutFromMicroseconds(std::uint64_t timeout_us) {
  // Small enough that the timeout can be added to any point in time.
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max() / 4000;
  if (timeout_us > kMax) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("parameter 'timeout' is {} us, at most {} are possible", timeout_us, kMax));
  }
  return std::chrono::microseconds(timeout_us);
}

}  // namespace lagoon

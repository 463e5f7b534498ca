#include "graph/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "graph/graph.h"

namespace lagoon {
namespace {

// A real model folds each of its constants a few times (cast, transpose, reshape, scale).
constexpr std::size_t kWorkPerByte = 8;
constexpr std::size_t kActivationsPerByte = 8;

}  // namespace

Result<std::size_t> CheckedBytes(const Dims& dims, DataType type) {
  if (dims.size() > kMaxRank) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("rank {} is above the limit of {}", dims.size(), kMaxRank));
  }
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("shape {} has a negative dimension", ToString(dims)));
    }
  }
  // Skips zeros, so that every partial product of the dimensions fits, in any order.
  auto bytes = static_cast<std::int64_t>(SizeOf(type));
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes)) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("shape {} is larger than 2^63 bytes", ToString(dims)));
    }
  }
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  return empty ? 0 : static_cast<std::size_t>(bytes);
}

Status ByteBudget::Charge(std::size_t bytes, std::string_view what) {
  if (bytes > max_bytes_ - used_) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} needs {} bytes; {} of the limit of {} are taken", what, bytes,
                            used_, max_bytes_));
  }
  used_ += bytes;
  return {};
}

Status ByteBudget::ChargeActivation(std::size_t bytes, std::string_view what) {
  if (bytes > max_bytes_ || (activations_ + bytes) / kActivationsPerByte > max_bytes_) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} needs {} bytes; the limit for one is {}, and for all together {} "
                            "times as much, of which {} are taken",
                            what, bytes, max_bytes_, kActivationsPerByte, activations_));
  }
  activations_ += bytes;
  return {};
}

Status ByteBudget::ChargeWork(std::size_t bytes, std::string_view what) {
  const std::size_t left = max_bytes_ - work_ / kWorkPerByte;
  if (bytes / kWorkPerByte > left) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("{}: folding constants has read {} bytes, over {} times the limit of {}", what,
                    work_, kWorkPerByte, max_bytes_));
  }
  work_ += bytes;
  return {};
}

}  // namespace lagoon

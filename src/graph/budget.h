#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// Bytes of a tensor. Fails on a negative dimension (kInvalidArgument), and on a rank above
/// kMaxRank or a size that does not fit 63 bits (kResourceExhausted); a zero dimension makes an
/// empty tensor.
Result<std::size_t> CheckedBytes(const Dims& dims, DataType type);

/// The memory and the work that one import may still spend. For one thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Reserves memory before it is allocated. `what`: a phrase for the error message ("initialiser
  /// 'w'").
  Status Charge(std::size_t bytes, std::string_view what);

  /// Counts what a node computes anew. Such tensors share memory, and fusion leaves most of them
  /// out, so that their sum may be a few times the memory limit, but none may be larger than the
  /// limit. The memory that they take together is checked when it is planned (compile.cc).
  Status ChargeActivation(std::size_t bytes, std::string_view what);

  /// Counts bytes that constant folding is about to read. This bounds the folding time; the limit
  /// is a few times the memory limit.
  Status ChargeWork(std::size_t bytes, std::string_view what);

  std::size_t used() const { return used_; }

 private:
  std::size_t max_bytes_;
  std::size_t used_ = 0;
  std::size_t activations_ = 0;
  std::size_t work_ = 0;
};

}  // namespace lagoon

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace lagoon {

/// The newest records of one writer: a new one takes the place of the oldest when there is no
/// other. Push() on the writer's thread, allocating nothing; the rest after it has stopped.
template <typename T>
class alignas(64) Ring {
 public:
  explicit Ring(std::size_t capacity) : records_(capacity) { LAGOON_CHECK(capacity > 0); }

  void Push(const T& record) {
    records_[next_] = record;
    next_ = next_ + 1 == records_.size() ? 0 : next_ + 1;
    ++pushed_;
  }

  std::size_t size() const { return pushed_ < records_.size() ? pushed_ : records_.size(); }
  /// Records that newer ones replaced; also the number of the oldest that is left.
  std::uint64_t lost() const { return pushed_ - size(); }
  std::uint64_t pushed() const { return pushed_; }
  /// From 0, the oldest.
  const T& operator[](std::size_t i) const {
    const std::size_t at = (pushed_ > records_.size() ? next_ : 0) + i;
    return records_[at < records_.size() ? at : at - records_.size()];
  }

 private:
  std::vector<T> records_;
  std::size_t next_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace lagoon

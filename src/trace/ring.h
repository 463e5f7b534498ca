#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace lagoon {

/// The newest records of one writer. When the ring is full, a new record replaces the oldest one.
/// Push() runs on the writer's thread and allocates nothing. The other methods may be called after
/// the writer has stopped.
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
  /// How many records were replaced by newer ones; also the number of the oldest record that is
  /// left.
  std::uint64_t lost() const { return pushed_ - size(); }
  std::uint64_t pushed() const { return pushed_; }
  /// Index 0 is the oldest record.
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

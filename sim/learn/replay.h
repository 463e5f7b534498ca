#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "learn/matrix.h"
#include "sim/learn/state_file.h"

namespace lagoon::learn {

/// The latest transitions, each a row of floats. A full replay overwrites the oldest one.
class Replay {
 public:
  /// `capacity` >= 1 rows of `width` >= 1 floats. Memory is taken as rows come.
  Replay(std::size_t capacity, std::size_t width) : capacity_(capacity), width_(width) {}

  void Add(std::span<const float> row) {
    LAGOON_CHECK(row.size() == width_);
    if (size() < capacity_) {
      rows_.insert(rows_.end(), row.begin(), row.end());
    } else {
      std::copy(row.begin(), row.end(),
                rows_.begin() + static_cast<std::ptrdiff_t>(next_ * width_));
    }
    next_ = (next_ + 1) % capacity_;
  }

  std::size_t size() const { return rows_.size() / width_; }
  std::span<const float> Row(std::size_t index) const {
    return {rows_.data() + index * width_, width_};
  }

  /// `count` rows, each drawn from all, so that a row may come twice. size() is at least 1.
  Matrix Sample(std::size_t count, Random& random) const {
    LAGOON_CHECK(size() >= 1);
    Matrix batch(static_cast<Eigen::Index>(count), static_cast<Eigen::Index>(width_));
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const float> row = Row(random.Below(static_cast<std::uint32_t>(size())));
      std::copy(row.begin(), row.end(), batch.row(static_cast<Eigen::Index>(i)).begin());
    }
    return batch;
  }

  void Save(StateWriter& writer) const {
    writer.Number(next_);
    writer.Number(rows_.size());
    writer.Floats(rows_);
  }
  void Load(StateReader& reader) {
    const std::uint64_t next = reader.Number(), floats = reader.Number();
    if (!reader.Expect(floats % width_ == 0 && floats / width_ <= capacity_ && next < capacity_)) {
      return;
    }
    next_ = next;
    rows_.resize(floats);
    reader.Floats(rows_);
  }

 private:
  std::size_t capacity_, width_;
  std::size_t next_ = 0;  // row that the next one overwrites
  std::vector<float> rows_;
};

}  // namespace lagoon::learn

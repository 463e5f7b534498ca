#pragma once

#include <bit>
#include <cstdint>

namespace lagoon {

/// Batches of up to so many rows have their plans from the load of the model on. The plan of a
/// larger batch is made when it is first needed, so that the time and memory of a load are bounded.
inline constexpr std::int64_t kReadyRows = 64;

/// Chooses the plan that is made for larger batches, from what a BatchQueue asks for: the largest
/// batch that could form, and then smaller ones until there is a plan.
///
/// - Up to kReadyRows, the first size that is missing.
/// - Above, every size in turn would be another plan. So a batch is content with a plan of up to an
///   eighth fewer rows, and of the sizes so near, the roundest one is made: few sizes serve all.
/// - A size that is meant exactly, such as the largest batch, is made itself.
class WantedRows {
 public:
  /// There is no plan for `rows`. `exact`: no smaller one replaces it.
  void Missing(std::int64_t rows, bool exact) {
    if (largest_ == 0) {
      largest_ = chosen_ = rows;
      exact_ = exact || rows <= kReadyRows;
    } else if (IsNear(rows) && Zeros(rows) > Zeros(chosen_)) {
      chosen_ = rows;
    }
  }
  /// There is a plan for `rows`.
  void Found(std::int64_t rows) {
    if (IsNear(rows)) chosen_ = 0;
  }
  /// 0: no plan is to be made.
  std::int64_t Chosen() const { return chosen_; }

 private:
  /// Whether `rows` will do as well as the largest batch.
  bool IsNear(std::int64_t rows) const {
    return !exact_ && chosen_ > 0 && rows <= largest_ && rows >= largest_ - largest_ / 8;
  }
  static int Zeros(std::int64_t rows) { return std::countr_zero(static_cast<std::uint64_t>(rows)); }

  std::int64_t largest_ = 0;  // the first one that is missing; 0: none is
  std::int64_t chosen_ = 0;
  bool exact_ = false;
};

}  // namespace lagoon

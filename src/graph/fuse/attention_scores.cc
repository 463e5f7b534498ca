#include "graph/fuse/attention_scores.h"

#include <algorithm>

#include "graph/fuse/formula.h"

namespace lagoon {
namespace {

constexpr std::size_t kRank = 4;        // batch, heads, rows, columns
constexpr std::size_t kWindowRank = 5;  // images, windows, heads, rows, columns

bool MayHaveHeads(const Value& value, std::size_t most = kRank) {
  return value.type == DataType::kFloat32 && value.sizes == kNoValue &&
         value.dims.size() >= kRank - 1 && value.dims.size() <= most;
}

/// `dims` of an operand that broadcasts to `scores`, with leading axes of one; nothing if it does
/// not broadcast, or would make the scores larger.
std::optional<Dims> BroadcastTo(const Dims& dims, const Dims& scores) {
  if (dims.size() > scores.size()) return std::nullopt;
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    const std::int64_t size = dims[dims.size() - back];
    if (size != 1 && size != scores[scores.size() - back]) return std::nullopt;
  }
  Dims whole(scores.size() - dims.size(), 1);
  whole.insert(whole.end(), dims.begin(), dims.end());
  return whole;
}

/// True if the value is a constant of zeros: exporters add one where a product may have a summand.
bool IsZero(const GraphEditor& editor, ValueId id) {
  const Value& value = editor.value(id);
  if (!value.constant || value.type != DataType::kFloat32) return false;
  const std::span<const float> numbers = value.constant->floats();
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return x == 0; });
}

/// If `value` is a Reshape of scores that merges or splits images, windows and heads only: its
/// operand.
std::optional<ValueId> BehindScoreReshape(const GraphEditor& editor, ValueId value) {
  if (const auto behind = BehindHeadReshape(editor, value)) return behind;
  const Node* const reshape = ComputedBy(editor, value, "Reshape");
  if (reshape == nullptr) return std::nullopt;
  const Value &to = editor.value(value), &from = editor.value(reshape->inputs[0]);
  if (!MayHaveHeads(to, kWindowRank) || !MayHaveHeads(from, kWindowRank)) return std::nullopt;
  // Heads may be merged with windows, but not divided otherwise.
  const std::ptrdiff_t same = std::min(to.dims.size(), from.dims.size()) < kRank ? 2 : 3;
  const bool equal = std::equal(to.dims.end() - same, to.dims.end(), from.dims.end() - same);
  return equal ? std::optional(reshape->inputs[0]) : std::nullopt;
}

/// The dims, of rank 5, of an operand that broadcasts as `whole` to scores of either rank. Nothing
/// if it has a batch that must be split.
std::optional<Dims> WithWindows(Dims whole, std::int64_t images) {
  if (whole.size() == kWindowRank) return whole;
  if (whole.size() != kRank || (whole[0] != 1 && images != 1)) return std::nullopt;
  whole.insert(whole.begin(), 1);
  return whole;
}

/// One walk backwards. Each step takes off the last op of the formula.
class Reader {
 public:
  Reader(const GraphEditor& editor, ValueId value) : editor_(editor), value_(value) {}

  std::optional<AttentionScores> Read() {
    SkipReshapes();
    TakeFloor();
    for (int masks = 0; masks < 2 && TakeMask(); ++masks) SkipReshapes();
    TakeChoice();
    SkipReshapes();
    SkipZero();
    TakeScale();
    scores_.product = ComputedBy(editor_, value_, "MatMul");
    if (scores_.product == nullptr || scores_.product->packed || !one_split_) return std::nullopt;
    scores_.sum_dims = scores_.mask_dims;
    if (!Place(mask_at_, scores_.mask_dims) || !Place(keep_at_, scores_.keep_dims)) {
      return std::nullopt;
    }
    // A mask may repeat for each image, a choice may not.
    const Dims& keep = scores_.keep_dims;
    const bool repeats = !keep.empty() && keep[0] != 1 && keep[0] != scores_.split->batch;
    return repeats ? std::nullopt : std::optional(scores_);
  }

 private:
  const Dims& dims() const { return editor_.value(value_).dims; }

  void Move(ValueId to) {
    sole_ = sole_ && editor_.SoleProducer(value_).has_value();
    value_ = to;
  }

  void NoteSplit() {
    if (dims().size() < kRank) return;
    HeadSplit here{dims()[0], dims()[1]};
    if (dims().size() == kWindowRank) here = {dims()[0] * dims()[1], dims()[2]};
    if (!scores_.split) scores_.split = here;
    one_split_ = one_split_ && scores_.split->heads == here.heads;
  }

  void SkipReshapes() {
    NoteSplit();
    while (const std::optional<ValueId> behind = BehindScoreReshape(editor_, value_)) {
      Move(*behind);
      NoteSplit();
    }
  }

  /// True if the value is a product or a choice, perhaps behind other masks.
  bool IsScores(ValueId value, int depth) const {
    while (const auto behind = BehindScoreReshape(editor_, value)) value = *behind;
    if (ComputedBy(editor_, ScaledOf(editor_, value).of, "MatMul") != nullptr) return true;
    if (depth == 0) return false;
    for (const char* op : {"Add", "Where"}) {
      const Node* const node = ComputedBy(editor_, value, op);
      if (node == nullptr) continue;
      return std::any_of(node->inputs.begin(), node->inputs.end(), [&](ValueId input) {
        return editor_.value(input).dims == editor_.value(value).dims && IsScores(input, depth - 1);
      });
    }
    return false;
  }

  void TakeFloor() {
    const Node* const max = ComputedBy(editor_, value_, "Max");
    if (max == nullptr || max->inputs.size() != 2) return;
    for (std::size_t side = 0; side < 2; ++side) {
      const std::optional<double> number = NumberOf(editor_, max->inputs[side]);
      const ValueId rest = max->inputs[1 - side];
      if (!number || editor_.value(rest).dims != dims()) continue;
      scores_.floor = *number;
      Move(rest);
      return SkipReshapes();
    }
  }

  /// Removes the addition of a mask. Of two masks the sum is added, if that is the Add's only use.
  bool TakeMask() {
    SkipZero();
    const Node* const sum = ComputedBy(editor_, value_, "Add");
    if (sum == nullptr) return false;
    for (std::size_t side = 0; side < 2; ++side) {
      const ValueId rest = sum->inputs[1 - side], mask = sum->inputs[side];
      const std::optional<Dims> whole = BroadcastTo(editor_.value(mask).dims, dims());
      if (!whole || editor_.value(rest).dims != dims() || !IsScores(rest, 3)) continue;
      if (scores_.mask == kNoValue) {
        scores_.mask = mask;
        scores_.mask_dims = *whole;
        mask_at_ = dims();
        if (sole_) outer_ = editor_.SoleProducer(value_);
      } else if (!JoinMasks(mask, *whole)) {
        return false;
      }
      Move(rest);
      return true;
    }
    return false;
  }

  /// The first mask may be added to scores that have an axis of windows, and the second one not, or
  /// the other way round.
  bool JoinMasks(ValueId mask, Dims whole) {
    if (!outer_ || std::min(dims().size(), mask_at_.size()) < kRank) return false;
    if (dims().size() == mask_at_.size()) {
      if (dims() != mask_at_) return false;
    } else {
      if (mask_at_.size() == kRank) mask_at_ = dims();
      const auto first = WithWindows(scores_.mask_dims, mask_at_[0]);
      const auto second = WithWindows(std::move(whole), mask_at_[0]);
      if (!first || !second) return false;
      scores_.mask_dims = *first;
      whole = *second;
    }
    scores_.mask_sum = outer_;
    scores_.second_mask = mask;
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
      scores_.mask_dims[axis] = std::max(scores_.mask_dims[axis], whole[axis]);
    }
    return true;
  }

  void SkipZero() {
    while (const Node* const sum = ComputedBy(editor_, value_, "Add")) {
      const auto zero = std::find_if(sum->inputs.begin(), sum->inputs.end(),
                                     [&](ValueId input) { return IsZero(editor_, input); });
      if (zero == sum->inputs.end()) return;
      const ValueId rest = sum->inputs[zero == sum->inputs.begin() ? 1 : 0];
      if (editor_.value(rest).dims != dims()) return;
      Move(rest);
      SkipReshapes();
    }
  }

  /// Removes a choice between the scores and a number.
  void TakeChoice() {
    const Node* const where = ComputedBy(editor_, value_, "Where");
    if (where == nullptr) return;
    const std::optional<Dims> whole = BroadcastTo(editor_.value(where->inputs[0]).dims, dims());
    for (const std::size_t side : {1U, 2U}) {
      const std::optional<double> fill = NumberOf(editor_, where->inputs[3 - side]);
      if (!whole || !fill || editor_.value(where->inputs[side]).dims != dims()) continue;
      scores_.keep = where->inputs[0];
      scores_.keep_dims = *whole;
      scores_.kept = side == 1;
      scores_.fill = *fill;
      keep_at_ = dims();
      return Move(where->inputs[side]);
    }
  }

  void TakeScale() {
    const Scaled scaled = ScaledOf(editor_, value_);
    Move(scaled.of);
    scores_.scale *= scaled.factor;
    SkipReshapes();
  }

  /// Gives dims that broadcast to scores of the dims `at` a rank of 4. Where nothing says how the
  /// axis of batch and heads divides, it is the batch. False for dims that differ between images
  /// but not between the windows of an image.
  bool Place(const Dims& at, Dims& whole) {
    if (at.empty() || at.size() == kRank) return true;
    if (at.size() == kWindowRank) {
      if (whole[0] != 1 && whole[1] != at[1]) return false;
      whole[1] *= whole[0];
      whole.erase(whole.begin());
      return true;
    }
    const bool one = whole[0] == 1;
    if (!one && !scores_.split) scores_.split = {at[0], 1};
    whole.insert(whole.begin(), one ? 1 : scores_.split->batch);
    whole[1] = one ? 1 : scores_.split->heads;
    return true;
  }

  const GraphEditor& editor_;
  ValueId value_;
  bool sole_ = true;       // only this attention needs the values so far
  bool one_split_ = true;  // tensors of rank 4 and 5 have the same number of heads
  AttentionScores scores_;
  Dims mask_at_, keep_at_;            // dims of the scores there
  std::optional<std::size_t> outer_;  // the Add of the last mask, if only this attention needs it
};

}  // namespace

std::optional<Dims> HeadDims(const GraphEditor& editor, ValueId id, const HeadSplit& split) {
  const Value& value = editor.value(id);
  if (!MayHaveHeads(value)) return std::nullopt;
  Dims dims = value.dims;
  if (dims.size() == kRank) return dims;
  if (dims[0] != split.batch * split.heads) return std::nullopt;
  dims[0] = split.heads;
  dims.insert(dims.begin(), split.batch);
  return dims;
}

std::optional<ValueId> BehindHeadReshape(const GraphEditor& editor, ValueId value) {
  const Node* const reshape = ComputedBy(editor, value, "Reshape");
  if (reshape == nullptr) return std::nullopt;
  const Value &to = editor.value(value), &from = editor.value(reshape->inputs[0]);
  if (!MayHaveHeads(to) || !MayHaveHeads(from)) return std::nullopt;
  const bool same = std::equal(to.dims.end() - 2, to.dims.end(), from.dims.end() - 2);
  return same ? std::optional(reshape->inputs[0]) : std::nullopt;
}

std::optional<AttentionScores> ReadAttentionScores(const GraphEditor& editor, ValueId value) {
  return Reader(editor, value).Read();
}

}  // namespace lagoon

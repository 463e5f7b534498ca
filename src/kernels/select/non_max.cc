#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/select/non_max.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/select/non_max.h"
#include "kernels/simd/simd-inl.h"

#ifndef LAGOON_KERNELS_NON_MAX_
#define LAGOON_KERNELS_NON_MAX_
namespace lagoon {
namespace {

struct Corners {
  float x_min, y_min, x_max, y_max;

  float area() const { return (x_max - x_min) * (y_max - y_min); }
};

/// Boxes, side by side.
struct BoxArrays {
  float *x_min = nullptr, *y_min = nullptr, *x_max = nullptr, *y_max = nullptr, *area = nullptr;
};

/// Whether `box` overlaps one of the boxes [begin, end).
using OverlapsOne = bool (*)(const Corners& box, const BoxArrays& boxes, std::size_t begin,
                             std::size_t end, float threshold);

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

/// A box of which the overlap with vectors of others is asked, as ONNX Runtime computes it: the
/// quotient of the shared area and of the area of both is above the threshold. Numbers that are no
/// numbers overlap nothing.
class OneBox {
 public:
  HWY_INLINE OneBox(const Corners& box, float threshold)
      : x_min_(hn::Set(D(), box.x_min)),
        y_min_(hn::Set(D(), box.y_min)),
        x_max_(hn::Set(D(), box.x_max)),
        y_max_(hn::Set(D(), box.y_max)),
        area_(hn::Set(D(), box.area())),
        threshold_(hn::Set(D(), threshold)),
        nearly_(hn::Set(D(), threshold > 0 ? threshold * 0.9999F : -1.0F)) {}

  template <class Move>
  HWY_INLINE bool Overlaps(const Move& move, const BoxArrays& boxes, size_t i) const {
    const V width = Shared(x_min_, x_max_, move.Load(boxes.x_min + i), move.Load(boxes.x_max + i));
    const V height = Shared(y_min_, y_max_, move.Load(boxes.y_min + i), move.Load(boxes.y_max + i));
    const V zero = hn::Zero(D());
    const V shared = hn::Mul(width, height);
    auto may = hn::And(hn::And(hn::Gt(width, zero), hn::Gt(height, zero)), hn::Gt(shared, zero));
    if (hn::AllFalse(D(), may)) return false;
    const V area = move.Load(boxes.area + i);
    const V both = hn::Sub(hn::Add(area_, area), shared);
    may = hn::And(may, hn::And(hn::Gt(area, zero), hn::Gt(both, zero)));
    // A division takes as long as all that is above, and few boxes need it.
    may = hn::And(may, hn::Gt(shared, hn::Mul(both, nearly_)));
    if (hn::AllFalse(D(), may)) return false;
    return !hn::AllFalse(D(), hn::And(may, hn::Gt(hn::Div(shared, both), threshold_)));
  }

 private:
  /// What two ranges share; not above 0: nothing.
  static HWY_INLINE V Shared(V min, V max, V other_min, V other_max) {
    const V low = hn::IfThenElse(hn::Lt(min, other_min), other_min, min);
    return hn::Sub(hn::IfThenElse(hn::Lt(other_max, max), other_max, max), low);
  }

  V x_min_, y_min_, x_max_, y_max_, area_;
  V threshold_, nearly_;  // nearly_: a quotient below it is below the threshold
};

bool OverlapsOneOf(const Corners& box, const BoxArrays& boxes, size_t begin, size_t end,
                   float threshold) {
  if (!(box.area() > 0)) return false;
  const OneBox one(box, threshold);
  const size_t lanes = simd::Lanes();
  size_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    if (one.Overlaps(simd::Whole(), boxes, i)) return true;
  }
  return i < end && one.Overlaps(simd::Part(end - i), boxes, i);
}

}  // namespace

OverlapsOne PickOverlapsOne() { return &OverlapsOneOf; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickOverlapsOne);

constexpr double kNsPerRow = 2;

// Estimates, of a step in the heap and of the comparison with kBoxesAtOnce boxes.
constexpr std::size_t kStepNs = 4, kCompareNs = 6, kBoxesAtOnce = 16;
constexpr std::size_t kNsPerCheck = 4'000, kBoxesPerCheck = 1'024;
/// A round is planned for this time, if there are not too many rounds and if what they leave to
/// each other is not too large. The next round costs a few microseconds.
constexpr double kRoundNs = 100'000;
constexpr std::size_t kMostRounds = 32, kMostStateBytes = std::size_t{16} << 20;
constexpr std::size_t kAlignment = 64;  // classes share no cache line

struct ChooseArgs {
  const float* boxes = nullptr;       // the first round
  const float* scores = nullptr;      // the first round
  const std::byte* before = nullptr;  // of the round before
  const std::int64_t* per_class = nullptr;
  const float* iou_threshold = nullptr;
  const float* score_threshold = nullptr;
  std::int32_t* chosen = nullptr;  // the last round
  std::int64_t* counts = nullptr;  // the last round
  std::byte* after = nullptr;      // of every other round
  OverlapsOne overlaps = nullptr;
  std::size_t classes = 1, boxes_count = 1, most = 1;
  std::size_t most_ns = 0;  // a round ends then; 0: when all is chosen
  bool center = false;
};

struct Candidate {
  float score;
  std::int32_t box;

  bool Before(const Candidate& other) const {
    return score > other.score || (score == other.score && box < other.box);
  }
};

struct Bounds {
  float low, high;
};

Bounds Ordered(float a, float b) { return a >= b ? Bounds{b, a} : Bounds{a, b}; }

Corners CornersOf(const float* box, bool center) {
  if (center) {
    const float half_width = box[2] / 2, half_height = box[3] / 2;
    return {box[0] - half_width, box[1] - half_height, box[0] + half_width, box[1] + half_height};
  }
  const Bounds y = Ordered(box[0], box[2]), x = Ordered(box[1], box[3]);
  return {x.low, y.low, x.high, y.high};
}

/// What one class of one image has so far: the candidates that are left, and the boxes that are
/// chosen. Lies in one piece of memory: the unit's scratch memory, or what a round leaves.
struct ChooseState {
  struct Sizes {
    std::size_t left = 0, chosen = 0;
  };
  Sizes* sizes = nullptr;
  Candidate* heap = nullptr;  // the best candidate first
  std::int32_t* chosen = nullptr;
  BoxArrays kept;  // the chosen boxes

  ChooseState(std::byte* memory, std::size_t boxes, std::size_t most) {
    const auto take = [&memory](auto*& array, std::size_t count) {
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(memory);
      memory += count * sizeof(*array);
    };
    take(sizes, 1);
    take(heap, boxes);
    take(chosen, most);
    for (float** array : {&kept.x_min, &kept.y_min, &kept.x_max, &kept.y_max, &kept.area}) {
      take(*array, most);
    }
  }

  static std::size_t Bytes(std::size_t boxes, std::size_t most) {
    const std::size_t bytes = sizeof(Sizes) + boxes * sizeof(Candidate) +
                              most * (sizeof(std::int32_t) + 5 * sizeof(float));
    return CeilDivide(bytes, kAlignment) * kAlignment;
  }

  void CopyTo(const ChooseState& other) const {
    *other.sizes = *sizes;
    std::copy(heap, heap + sizes->left, other.heap);
    std::copy(chosen, chosen + sizes->chosen, other.chosen);
    const auto copy = [&](const float* from, float* to) {
      std::copy(from, from + sizes->chosen, to);
    };
    copy(kept.x_min, other.kept.x_min);
    copy(kept.y_min, other.kept.y_min);
    copy(kept.x_max, other.kept.x_max);
    copy(kept.y_max, other.kept.y_max);
    copy(kept.area, other.kept.area);
  }
};

/// One round of one class of one image. Works in the unit's scratch memory; nothing is written
/// before the end.
class Chooser {
 public:
  Chooser(const ChooseArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args), ctx_(ctx), block_(block), state_(At(ctx.scratch().data())) {}

  /// Returns false if the block must leave.
  bool Run() {
    const std::int64_t asked = std::max<std::int64_t>(*args_.per_class, 0);
    const std::size_t limit = std::min(static_cast<std::size_t>(asked), args_.most);
    *state_.sizes = {};
    if (limit == 0) return !ctx_.ShouldLeave();
    if (args_.before == nullptr) {
      if (!Collect() || !Heapify()) return false;
    } else {
      At(const_cast<std::byte*>(args_.before) + block_ * Bytes()).CopyTo(state_);
    }
    std::size_t& left = state_.sizes->left;
    while (left > 0 && (args_.most_ns == 0 || spent_ns_ < args_.most_ns)) {
      if (!TryBest()) return false;
      if (state_.sizes->chosen == limit) left = 1;  // nothing is left to do
      state_.heap[0] = state_.heap[--left];
      if (!SiftDown(0)) return false;
    }
    return !ctx_.ShouldLeave();
  }

  void Write() const {
    if (args_.after != nullptr) {
      state_.CopyTo(At(args_.after + block_ * Bytes()));
      return;
    }
    const std::size_t count = state_.sizes->chosen;
    std::copy(state_.chosen, state_.chosen + count, args_.chosen + block_ * args_.most);
    args_.counts[block_] = static_cast<std::int64_t>(count);
  }

 private:
  std::size_t Bytes() const { return ChooseState::Bytes(args_.boxes_count, args_.most); }
  ChooseState At(std::byte* memory) const { return {memory, args_.boxes_count, args_.most}; }

  bool Spend(std::size_t ns) {
    spent_ns_ += ns;
    unchecked_ns_ += ns;
    if (unchecked_ns_ < kNsPerCheck) return true;
    unchecked_ns_ = 0;
    return !ctx_.ShouldLeave();
  }

  bool Collect() {
    const float* scores = args_.scores + block_ * args_.boxes_count;
    std::size_t& left = state_.sizes->left;
    for (std::size_t i = 0; i < args_.boxes_count; ++i) {
      if (args_.score_threshold == nullptr || scores[i] > *args_.score_threshold) {
        state_.heap[left++] = {scores[i], static_cast<std::int32_t>(i)};
      }
      if (i % 4 == 0 && !Spend(kStepNs)) return false;
    }
    return true;
  }

  bool Heapify() {
    for (std::size_t i = state_.sizes->left / 2; i-- > 0;) {
      if (!SiftDown(i)) return false;
    }
    return true;
  }

  bool SiftDown(std::size_t at) {
    Candidate* const heap = state_.heap;
    const std::size_t size = state_.sizes->left;
    for (std::size_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && heap[child + 1].Before(heap[child])) ++child;
      if (!heap[child].Before(heap[at])) break;
      std::swap(heap[child], heap[at]);
      at = child;
      if (!Spend(kStepNs)) return false;
    }
    return Spend(kStepNs);
  }

  /// Chooses the best candidate unless it overlaps a chosen one. False: the block must leave.
  bool TryBest() {
    const std::int32_t box = state_.heap[0].box;
    const std::size_t image = block_ / args_.classes;
    const Corners corners =
        CornersOf(args_.boxes + 4 * (image * args_.boxes_count + static_cast<std::size_t>(box)),
                  args_.center);
    const float threshold = args_.iou_threshold == nullptr ? 0.0F : *args_.iou_threshold;
    std::size_t& count = state_.sizes->chosen;
    for (std::size_t i = 0; i < count; i += kBoxesPerCheck) {
      const std::size_t end = std::min(count, i + kBoxesPerCheck);
      if (args_.overlaps(corners, state_.kept, i, end, threshold)) return Spend(kCompareNs);
      if (!Spend(CeilDivide(end - i, kBoxesAtOnce) * kCompareNs)) return false;
    }
    const BoxArrays& kept = state_.kept;
    kept.x_min[count] = corners.x_min;
    kept.y_min[count] = corners.y_min;
    kept.x_max[count] = corners.x_max;
    kept.y_max[count] = corners.y_max;
    kept.area[count] = corners.area();
    state_.chosen[count++] = box;
    return Spend(kStepNs);
  }

  const ChooseArgs& args_;
  BlockContext& ctx_;
  const std::size_t block_;
  const ChooseState state_;
  std::size_t spent_ns_ = 0, unchecked_ns_ = 0;
};

bool ChooseBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ChooseArgs*>(raw);
  Chooser chooser(args, block, ctx);
  if (!chooser.Run()) return false;
  chooser.Write();
  return true;
}

struct GatherArgs {
  const std::int32_t* chosen = nullptr;
  const std::int64_t* counts = nullptr;
  std::int64_t* y = nullptr;
  std::int64_t* sizes = nullptr;
  std::size_t classes = 1, lists = 1, most = 1, blocks = 1;
};

/// A task is a place in the lists of all classes, used or not.
bool GatherBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const GatherArgs*>(raw);
  const Range tasks = Share(args.lists * args.most, args.blocks, block);
  std::int64_t row = 0;
  for (std::size_t list = 0; list < tasks.begin / args.most; ++list) row += args.counts[list];
  for (std::size_t task = tasks.begin; task < tasks.end;) {
    const std::size_t list = task / args.most, first = task % args.most;
    const auto count = static_cast<std::size_t>(args.counts[list]);
    const std::size_t last = std::min(first + (tasks.end - task), count);
    for (std::size_t i = first; i < last; ++i) {
      std::int64_t* const to = args.y + 3 * (row + static_cast<std::int64_t>(i));
      to[0] = static_cast<std::int64_t>(list / args.classes);
      to[1] = static_cast<std::int64_t>(list % args.classes);
      to[2] = args.chosen[task - first + i];
    }
    row += args.counts[list];
    task += args.most - first;
  }
  if (block != 0) return true;
  args.sizes[0] = 0;
  for (std::size_t list = 0; list < args.lists; ++list) args.sizes[0] += args.counts[list];
  args.sizes[1] = 3;
  return true;
}

Status Check(const char* name, const NonMaxSpec& spec) {
  LAGOON_RETURN_IF_ERROR(
      CheckElements(name, "boxes", {{"batch", spec.batch}, {"boxes", spec.boxes}, {"sides", 4}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(
      name, "scores", {{"batch", spec.batch}, {"classes", spec.classes}, {"boxes", spec.boxes}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(
      name, "y", {{"batch", spec.batch}, {"classes", spec.classes}, {"most", spec.most}}));
  if (spec.most <= spec.boxes) return {};
  return Invalid(name, "more boxes per class than there are");
}

/// The time that one class of one image takes at most.
double MostNs(const NonMaxSpec& spec) {
  const auto boxes = static_cast<double>(spec.boxes), most = static_cast<double>(spec.most);
  const double steps = boxes * (1 + std::log2(boxes + 1));
  const double compares = (boxes - most / 2) * most / kBoxesAtOnce;
  return static_cast<double>(kStepNs) * steps + static_cast<double>(kCompareNs) * compares;
}

}  // namespace

std::size_t NonMaxStateBytes(const NonMaxSpec& spec) {
  return spec.batch * spec.classes * ChooseState::Bytes(spec.boxes, spec.most);
}

std::size_t NonMaxRounds(const NonMaxSpec& spec) {
  if (NonMaxStateBytes(spec) > kMostStateBytes) return 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(MostNs(spec) / kRoundNs)), 1,
                                 kMostRounds);
}

Result<Kernel> MakeNonMaxChoose(const NonMaxSpec& spec) {
  static constexpr char kName[] = "non_max_choose";
  LAGOON_RETURN_IF_ERROR(Check(kName, spec));
  const std::size_t rounds = NonMaxRounds(spec);
  if (spec.round >= rounds) return Invalid(kName, "more rounds than there are");
  const bool last = spec.round + 1 == rounds;
  ChooseArgs args;
  args.overlaps = LAGOON_DISPATCH(PickOverlapsOne)();
  args.classes = spec.classes;
  args.boxes_count = spec.boxes;
  args.most = spec.most;
  if (!last) args.most_ns = static_cast<std::size_t>(MostNs(spec)) / rounds;
  args.center = spec.center;
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &ChooseBody;
  kernel.blocks = static_cast<std::uint32_t>(spec.batch * spec.classes);
  kernel.scratch_bytes = ChooseState::Bytes(spec.boxes, spec.most);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ChooseArgs, boxes), offsetof(ChooseArgs, scores),
                   offsetof(ChooseArgs, per_class)};
  if (spec.round > 0) kernel.inputs[1] = offsetof(ChooseArgs, before);
  if (spec.iou_threshold) kernel.inputs.push_back(offsetof(ChooseArgs, iou_threshold));
  if (spec.score_threshold) kernel.inputs.push_back(offsetof(ChooseArgs, score_threshold));
  if (last) {
    kernel.outputs = {offsetof(ChooseArgs, chosen), offsetof(ChooseArgs, counts)};
  } else {
    kernel.outputs = {offsetof(ChooseArgs, after)};
  }
  kernel.flops = 20.0 * static_cast<double>(spec.batch * spec.classes * spec.boxes) /
                 static_cast<double>(rounds);
  kernel.bytes_moved = kernel.flops / 5;
  return kernel;
}

Result<Kernel> MakeNonMaxGather(const NonMaxSpec& spec) {
  static constexpr char kName[] = "non_max_gather";
  LAGOON_RETURN_IF_ERROR(Check(kName, spec));
  GatherArgs args;
  args.classes = spec.classes;
  args.lists = spec.batch * spec.classes;
  args.most = spec.most;
  const std::size_t tasks = args.lists * args.most;
  args.blocks = BlocksFor(kNsPerRow * static_cast<double>(tasks), tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &GatherBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(GatherArgs, chosen), offsetof(GatherArgs, counts)};
  kernel.outputs = {offsetof(GatherArgs, y), offsetof(GatherArgs, sizes)};
  kernel.bytes_moved = 28.0 * static_cast<double>(tasks);
  return kernel;
}

}  // namespace lagoon
#endif

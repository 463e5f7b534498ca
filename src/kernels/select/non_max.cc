#include "kernels/select/non_max.h"

#include <algorithm>
#include <cstdint>

#include "kernels/checks.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

constexpr std::size_t kWorkPerCheck = 1024;  // comparisons of boxes, or steps in the heap
constexpr double kNsPerRow = 2;

struct ChooseArgs {
  const float* boxes = nullptr;
  const float* scores = nullptr;
  const std::int64_t* per_class = nullptr;
  const float* iou_threshold = nullptr;
  const float* score_threshold = nullptr;
  std::int32_t* chosen = nullptr;
  std::int64_t* counts = nullptr;
  std::size_t batch = 1, classes = 1, boxes_count = 1, most = 1;
  bool center = false;
};

struct Candidate {
  float score;
  std::int32_t box;

  bool Before(const Candidate& other) const {
    return score > other.score || (score == other.score && box < other.box);
  }
};

struct Corners {
  float x_min, y_min, x_max, y_max;
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

bool Overlaps(const Corners& a, const Corners& b, float threshold) {
  const float x_min = std::max(a.x_min, b.x_min), x_max = std::min(a.x_max, b.x_max);
  if (x_max <= x_min) return false;
  const float y_min = std::max(a.y_min, b.y_min), y_max = std::min(a.y_max, b.y_max);
  if (y_max <= y_min) return false;
  const float shared = (x_max - x_min) * (y_max - y_min);
  if (shared <= 0) return false;
  const float area_a = (a.x_max - a.x_min) * (a.y_max - a.y_min);
  const float area_b = (b.x_max - b.x_min) * (b.y_max - b.y_min);
  const float both = area_a + area_b - shared;
  if (area_a <= 0 || area_b <= 0 || both <= 0) return false;
  return shared / both > threshold;
}

/// One class of one image. Its memory is the unit's scratch memory; nothing is written before the
/// end.
class Chooser {
 public:
  Chooser(const ChooseArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args),
        ctx_(ctx),
        boxes_(args.boxes + block / args.classes * args.boxes_count * 4),
        scores_(args.scores + block * args.boxes_count),
        kept_(reinterpret_cast<Corners*>(ctx.scratch().data())),
        heap_(reinterpret_cast<Candidate*>(kept_ + args.most)),
        chosen_(reinterpret_cast<std::int32_t*>(heap_ + args.boxes_count)) {}

  /// Returns false if the block must leave.
  bool Run() {
    const std::int64_t asked = std::max<std::int64_t>(*args_.per_class, 0);
    const std::size_t limit = std::min(static_cast<std::size_t>(asked), args_.most);
    if (limit == 0) return !ctx_.ShouldLeave();
    if (!Collect() || !Heapify()) return false;
    while (size_ > 0 && count_ < limit) {
      if (!TryBest()) return false;
      heap_[0] = heap_[--size_];
      if (!SiftDown(0)) return false;
    }
    return !ctx_.ShouldLeave();
  }

  void Write(std::uint32_t block) const {
    std::copy(chosen_, chosen_ + count_, args_.chosen + block * args_.most);
    args_.counts[block] = static_cast<std::int64_t>(count_);
  }

 private:
  bool Spend(std::size_t work) {
    work_ += work;
    if (work_ < kWorkPerCheck) return true;
    work_ = 0;
    return !ctx_.ShouldLeave();
  }

  bool Collect() {
    for (std::size_t i = 0; i < args_.boxes_count; ++i) {
      if (args_.score_threshold == nullptr || scores_[i] > *args_.score_threshold) {
        heap_[size_++] = {scores_[i], static_cast<std::int32_t>(i)};
      }
      if (i % 4 == 0 && !Spend(1)) return false;
    }
    return true;
  }

  bool Heapify() {
    for (std::size_t i = size_ / 2; i-- > 0;) {
      if (!SiftDown(i)) return false;
    }
    return true;
  }

  bool SiftDown(std::size_t at) {
    for (std::size_t child = 2 * at + 1; child < size_; child = 2 * at + 1) {
      if (child + 1 < size_ && heap_[child + 1].Before(heap_[child])) ++child;
      if (!heap_[child].Before(heap_[at])) break;
      std::swap(heap_[child], heap_[at]);
      at = child;
      if (!Spend(1)) return false;
    }
    return Spend(1);
  }

  /// Chooses the best candidate unless it overlaps a chosen one. False: the block must leave.
  bool TryBest() {
    const std::int32_t box = heap_[0].box;
    const Corners corners =
        CornersOf(boxes_ + std::size_t{4} * static_cast<std::size_t>(box), args_.center);
    const float threshold = args_.iou_threshold == nullptr ? 0.0F : *args_.iou_threshold;
    for (std::size_t i = 0; i < count_; ++i) {
      if (Overlaps(corners, kept_[i], threshold)) return Spend(1);
      if (!Spend(1)) return false;
    }
    kept_[count_] = corners;
    chosen_[count_++] = box;
    return Spend(1);
  }

  const ChooseArgs& args_;
  BlockContext& ctx_;
  const float* boxes_;
  const float* scores_;
  Corners* kept_;    // of the chosen boxes
  Candidate* heap_;  // the best candidate first
  std::int32_t* chosen_;
  std::size_t size_ = 0, count_ = 0, work_ = 0;
};

bool ChooseBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ChooseArgs*>(raw);
  Chooser chooser(args, block, ctx);
  if (!chooser.Run()) return false;
  chooser.Write(block);
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

}  // namespace

Result<Kernel> MakeNonMaxChoose(const NonMaxSpec& spec) {
  static constexpr char kName[] = "non_max_choose";
  LAGOON_RETURN_IF_ERROR(Check(kName, spec));
  ChooseArgs args;
  args.batch = spec.batch;
  args.classes = spec.classes;
  args.boxes_count = spec.boxes;
  args.most = spec.most;
  args.center = spec.center;
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &ChooseBody;
  kernel.blocks = static_cast<std::uint32_t>(spec.batch * spec.classes);
  kernel.scratch_bytes =
      spec.most * (sizeof(Corners) + sizeof(std::int32_t)) + spec.boxes * sizeof(Candidate);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ChooseArgs, boxes), offsetof(ChooseArgs, scores),
                   offsetof(ChooseArgs, per_class)};
  if (spec.iou_threshold) kernel.inputs.push_back(offsetof(ChooseArgs, iou_threshold));
  if (spec.score_threshold) kernel.inputs.push_back(offsetof(ChooseArgs, score_threshold));
  kernel.outputs = {offsetof(ChooseArgs, chosen), offsetof(ChooseArgs, counts)};
  kernel.flops = 20.0 * static_cast<double>(spec.batch * spec.classes * spec.boxes);
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

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/checks.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/select/select.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

using rows::Load;

constexpr std::size_t kElementsPerCheck = 1024;
constexpr std::size_t kItemsPerBlock = 1 << 13;  // items whose results a block writes
constexpr std::size_t kRunPiece = 4096;          // bytes of a run that a task copies
constexpr double kNsPerRun = 8;

template <typename T>
using Element = std::conditional_t<std::is_same_v<T, bool>, rows::Flag, T>;

struct UniqueArgs {
  const std::byte* x = nullptr;
  const std::int32_t* order = nullptr;
  std::int32_t* order_out = nullptr;
  std::int64_t* firsts = nullptr;
  std::int64_t* inverse = nullptr;
  std::int64_t* counts = nullptr;
  std::int64_t* sizes = nullptr;
  std::int64_t* list_sizes = nullptr;
  std::int64_t dims[kMaxSelectAxes] = {};
  std::size_t rank = 1, axis = 0;
  std::size_t outer = 1, items = 1, inner = 1;
  std::size_t blocks = 1;
  bool sorted = true;
};

/// Compares items, and checks the guards after a certain number of elements.
template <typename T>
class Items {
 public:
  Items(const UniqueArgs& args, BlockContext& ctx) : args_(args), ctx_(ctx) {}

  /// Negative, 0 or positive, as item `a` is less than, equal to or greater than `b`.
  int Compare(std::int32_t a, std::int32_t b) {
    const T* const x = reinterpret_cast<const T*>(args_.x);
    for (std::size_t outer = 0; outer < args_.outer; ++outer) {
      const T* const row = x + outer * args_.items * args_.inner;
      const T* const left = row + static_cast<std::size_t>(a) * args_.inner;
      const T* const right = row + static_cast<std::size_t>(b) * args_.inner;
      for (std::size_t i = 0; i < args_.inner; ++i) {
        const int order = Order(Load(left[i]), Load(right[i]));
        ++compared_;
        if (order != 0) return order;
        // A comparison has no result yet from which it could go on, so it is left undecided.
        if (compared_ >= kElementsPerCheck && Leaves()) return 0;
      }
    }
    return 0;
  }

  /// True if the block must leave. To be asked after every item.
  bool Leaves() {
    if (left_ || ++compared_ < kElementsPerCheck) return left_;
    compared_ = 0;
    left_ = ctx_.ShouldLeave();
    return left_;
  }

 private:
  template <typename W>
  static int Order(W a, W b) {
    if constexpr (std::is_floating_point_v<W>) {
      if (std::isnan(a) || std::isnan(b)) return int{std::isnan(a)} - int{std::isnan(b)};
    }
    return int{b < a} - int{a < b};
  }

  const UniqueArgs& args_;
  BlockContext& ctx_;
  std::size_t compared_ = 0;
  bool left_ = false;
};

/// Merges runs of `width` items of `from` to runs of twice that width in `to`. False: left.
template <typename T>
bool MergeRuns(Items<T>& items, const std::int32_t* from, std::int32_t* to, std::size_t count,
               std::size_t width) {
  for (std::size_t begin = 0; begin < count; begin += 2 * width) {
    const std::size_t middle = std::min(begin + width, count);
    const std::size_t end = std::min(begin + 2 * width, count);
    std::size_t a = begin, b = middle;
    for (std::size_t i = begin; i < end; ++i) {
      const bool left = b == end || (a < middle && items.Compare(from[a], from[b]) <= 0);
      to[i] = left ? from[a++] : from[b++];
      if (items.Leaves()) return false;
    }
  }
  return true;
}

/// Every block sorts all items, and writes its share of the order.
template <typename T>
bool OrderBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const UniqueArgs*>(raw);
  if (ctx.ShouldLeave()) return false;
  auto* from = reinterpret_cast<std::int32_t*>(ctx.scratch().data());
  std::int32_t* to = from + args.items;
  std::iota(from, from + args.items, 0);
  Items<T> items(args, ctx);
  for (std::size_t width = 1; width < args.items; width *= 2) {
    if (!MergeRuns(items, from, to, args.items, width)) return false;
    std::swap(from, to);
  }
  if (ctx.ShouldLeave()) return false;
  const Range own = Share(args.items, args.blocks, block);
  std::copy(from + own.begin, from + own.end, args.order_out + own.begin);
  return true;
}

/// The groups of equal items, in scratch memory.
struct Groups {
  std::int32_t* first;    // by group: its first item
  std::int32_t* count;    // by group
  std::int32_t* inverse;  // by item: its group
  std::int32_t* rank;     // by group: its place among the unique items
  std::int32_t* ranked;   // by place among the unique items: the group
  std::size_t size = 0;

  Groups(std::byte* scratch, std::size_t items)
      : first(reinterpret_cast<std::int32_t*>(scratch)),
        count(first + items),
        inverse(count + items),
        rank(inverse + items),
        ranked(rank + items) {}

  void Add(std::int32_t item, bool is_new) {
    if (is_new) {
      first[size] = item;
      count[size++] = 0;
    }
    ++count[size - 1];
    inverse[item] = static_cast<std::int32_t>(size - 1);
  }

  /// Ranks the groups in their order, or in the order of their first items.
  void Rank(bool sorted, std::size_t items) {
    std::int32_t next = 0;
    for (std::size_t i = 0; i < (sorted ? size : items); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      const std::int32_t group = sorted ? at : inverse[i];
      if (!sorted && first[group] != at) continue;
      rank[group] = next;
      ranked[next++] = group;
    }
  }
};

void WriteGroups(const UniqueArgs& args, const Groups& groups, std::uint32_t block) {
  // Each block writes the results of its own items, and of the unique ones with these numbers.
  const Range own = Share(args.items, args.blocks, block);
  for (std::size_t i = own.begin; i < std::min(own.end, groups.size); ++i) {
    args.firsts[i] = groups.first[groups.ranked[i]];
    args.counts[i] = groups.count[groups.ranked[i]];
  }
  for (std::size_t item = own.begin; item < own.end; ++item) {
    args.inverse[item] = groups.rank[groups.inverse[item]];
  }
  if (block != 0) return;
  for (std::size_t axis = 0; axis < args.rank; ++axis) {
    args.sizes[axis] = axis == args.axis ? static_cast<std::int64_t>(groups.size) : args.dims[axis];
  }
  args.list_sizes[0] = static_cast<std::int64_t>(groups.size);
}

template <typename T>
bool GroupsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const UniqueArgs*>(raw);
  if (ctx.ShouldLeave()) return false;
  Groups groups(ctx.scratch().data(), args.items);
  Items<T> items(args, ctx);
  for (std::size_t i = 0; i < args.items; ++i) {
    const bool is_new = i == 0 || items.Compare(args.order[i - 1], args.order[i]) != 0;
    if (items.Leaves()) return false;
    groups.Add(args.order[i], is_new);
  }
  if (ctx.ShouldLeave()) return false;
  groups.Rank(args.sorted, args.items);
  if (ctx.ShouldLeave()) return false;
  WriteGroups(args, groups, block);
  return true;
}

struct TakeArgs {
  const std::byte* x = nullptr;
  const std::int64_t* firsts = nullptr;
  const std::int64_t* count = nullptr;
  std::byte* y = nullptr;
  std::size_t outer = 1, items = 1, run = 4, parts = 1, blocks = 1;
};

/// A task is a part of the run of one unique item, for one outer index.
bool TakeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const TakeArgs*>(raw);
  const auto count = static_cast<std::size_t>(*args.count);
  // Only the tasks of the actual items are shared out.
  const Range tasks = Share(args.outer * count * args.parts, args.blocks, block);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const std::size_t run = task / args.parts;
    const auto item = static_cast<std::size_t>(args.firsts[run % count]);
    const Range bytes = Share(args.run, args.parts, task % args.parts);
    std::memcpy(args.y + run * args.run + bytes.begin,
                args.x + (run / count * args.items + item) * args.run + bytes.begin, bytes.size());
  }
  return true;
}

Result<UniqueArgs> ArgsOf(const char* name, const UniqueSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckElements(
      name, "x", {{"outer", spec.outer}, {"items", spec.items}, {"inner", spec.inner}}));
  if (spec.items > kMaxUniqueItems) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}: {} items, the most is {}", name, spec.items, kMaxUniqueItems));
  }
  if (spec.dims.size() > kMaxSelectAxes || spec.axis >= spec.dims.size()) {
    return Invalid(name, fmt::format("axis {} of {}", spec.axis, ShapeText(spec.dims)));
  }
  UniqueArgs args;
  args.outer = spec.outer;
  args.items = spec.items;
  args.inner = spec.inner;
  args.sorted = spec.sorted;
  args.rank = spec.dims.size();
  args.axis = spec.axis;
  std::copy(spec.dims.begin(), spec.dims.end(), args.dims);
  args.blocks = CeilDivide(spec.items, kItemsPerBlock);
  return args;
}

template <typename F>
Body ForElements(DataType type, F&& f) {
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> Body {
    return f(std::type_identity<Element<T>>{});
  });
}

}  // namespace

Result<Kernel> MakeUniqueOrder(const UniqueSpec& spec) {
  static constexpr char kName[] = "unique_order";
  LAGOON_ASSIGN_OR_RETURN(const UniqueArgs args, ArgsOf(kName, spec));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForElements(
      spec.type, []<typename T>(std::type_identity<T>) -> Body { return &OrderBody<T>; });
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = 2 * spec.items * sizeof(std::int32_t);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(UniqueArgs, x)};
  kernel.outputs = {offsetof(UniqueArgs, order_out)};
  const double items = static_cast<double>(spec.items);
  kernel.flops = items * std::log2(items + 1) * 10;
  return kernel;
}

Result<Kernel> MakeUniqueGroups(const UniqueSpec& spec) {
  static constexpr char kName[] = "unique_groups";
  LAGOON_ASSIGN_OR_RETURN(const UniqueArgs args, ArgsOf(kName, spec));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForElements(
      spec.type, []<typename T>(std::type_identity<T>) -> Body { return &GroupsBody<T>; });
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = 5 * spec.items * sizeof(std::int32_t);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(UniqueArgs, x), offsetof(UniqueArgs, order)};
  kernel.outputs = {offsetof(UniqueArgs, firsts), offsetof(UniqueArgs, inverse),
                    offsetof(UniqueArgs, counts), offsetof(UniqueArgs, sizes),
                    offsetof(UniqueArgs, list_sizes)};
  kernel.flops = static_cast<double>(spec.items) * 10;
  return kernel;
}

Result<Kernel> MakeUniqueTake(const UniqueSpec& spec) {
  static constexpr char kName[] = "unique_take";
  LAGOON_RETURN_IF_ERROR(ArgsOf(kName, spec));
  TakeArgs args;
  args.outer = spec.outer;
  args.items = spec.items;
  args.run = spec.inner * SizeOf(spec.type);
  args.parts = CeilDivide(args.run, kRunPiece);
  const std::size_t tasks = args.outer * args.items * args.parts;
  const double bytes = 2.0 * static_cast<double>(args.outer * args.items * args.run);
  args.blocks = BlocksFor(kNsPerRun * static_cast<double>(tasks) + MoveNs(bytes), tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &TakeBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(TakeArgs, x), offsetof(TakeArgs, firsts), offsetof(TakeArgs, count)};
  kernel.outputs = {offsetof(TakeArgs, y)};
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon

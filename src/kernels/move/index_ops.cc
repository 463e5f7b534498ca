#include "kernels/move/index_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

constexpr double kNsPerEntry = 12;
constexpr double kNsPerTarget = 2;
constexpr double kNsPerSingle = 1.5;             // an entry of one element, found by one index
constexpr std::size_t kGatherPiece = 4096;       // bytes of a run that a task copies
constexpr std::size_t kScatterRange = 64 << 10;  // bytes of y that a block owns
constexpr std::int64_t kCombinePiece = 1024;     // elements between two guard checks
constexpr double kNsPerCombined = 3;
constexpr double kNsPerCheck = 4000;

/// IndexSpec in fixed arrays; sizes in elements.
struct Indexing {
  std::size_t entry_axes = 0, tuple = 0;
  std::int64_t entries[kMaxIndexAxes] = {};
  std::int64_t index_strides[kMaxIndexAxes] = {}, base_strides[kMaxIndexAxes] = {};
  std::int64_t sizes[kMaxIndexAxes] = {}, strides[kMaxIndexAxes] = {};
  std::int64_t run = 1, tensor = 0;
  bool wide = true;  // indices of 64 bits
};

struct GatherArgs {
  const std::byte* x = nullptr;
  const std::byte* indices = nullptr;
  std::byte* y = nullptr;
  Indexing indexing;
  std::size_t element_bytes = 4, pieces = 1, tasks = 1, blocks = 1;
};

/// The runs of kScatterChunk entries lie in [begin, end) of y.
struct ChunkBounds {
  std::int64_t begin = 0, end = 0;
};

struct TargetsArgs {
  const std::byte* indices = nullptr;
  std::int64_t* targets = nullptr;
  ChunkBounds* bounds = nullptr;
  Indexing indexing;
  std::size_t entries = 0, chunks = 1, blocks = 1;
};

struct ScatterArgs {
  const std::byte* x = nullptr;
  const std::int64_t* targets = nullptr;
  const ChunkBounds* bounds = nullptr;
  const std::byte* updates = nullptr;
  std::byte* y = nullptr;
  RowFunction combine = nullptr;  // null: assign
  std::int64_t run = 1, tensor = 0;
  std::int64_t range = 1;  // elements of y per block
  std::size_t entries = 0, element_bytes = 4;
};

/// A position in row-major order over the entries.
class EntryWalk {
 public:
  EntryWalk(const Indexing& indexing, std::int64_t start) : indexing_(indexing) {
    for (std::size_t axis = indexing.entry_axes; axis-- > 0;) {
      at_[axis] = start % indexing.entries[axis];
      start /= indexing.entries[axis];
      index_ += at_[axis] * indexing.index_strides[axis];
      base_ += at_[axis] * indexing.base_strides[axis];
    }
  }

  void Next() {
    for (std::size_t axis = indexing_.entry_axes; axis-- > 0;) {
      index_ += indexing_.index_strides[axis];
      base_ += indexing_.base_strides[axis];
      if (++at_[axis] < indexing_.entries[axis]) return;
      index_ -= at_[axis] * indexing_.index_strides[axis];
      base_ -= at_[axis] * indexing_.base_strides[axis];
      at_[axis] = 0;
    }
  }

  /// Next() `count` times, within the line: the entries along the last axis.
  void Skip(std::int64_t count) {
    const std::size_t last = indexing_.entry_axes - 1;
    at_[last] += count - 1;
    index_ += (count - 1) * indexing_.index_strides[last];
    base_ += (count - 1) * indexing_.base_strides[last];
    Next();
  }
  std::int64_t line_left() const {
    const std::size_t last = indexing_.entry_axes - 1;
    return indexing_.entries[last] - at_[last];
  }
  std::int64_t index() const { return index_; }
  std::int64_t base() const { return base_; }

  /// Where the entry's run begins in the indexed tensor, or -1 if an index is out of range.
  std::int64_t Target(const std::byte* indices) const {
    std::int64_t target = base_;
    for (std::size_t n = 0; n < indexing_.tuple; ++n) {
      std::int64_t index = Read(indices, index_ + static_cast<std::int64_t>(n));
      if (index < 0) index += indexing_.sizes[n];
      if (index < 0 || index >= indexing_.sizes[n]) return -1;
      target += index * indexing_.strides[n];
    }
    return target;
  }

 private:
  std::int64_t Read(const std::byte* indices, std::int64_t at) const {
    if (indexing_.wide) {
      std::int64_t index;
      std::memcpy(&index, indices + at * 8, 8);
      return index;
    }
    std::int32_t index;
    std::memcpy(&index, indices + at * 4, 4);
    return index;
  }

  const Indexing& indexing_;
  std::int64_t at_[kMaxIndexAxes] = {};
  std::int64_t index_ = 0, base_ = 0;
};

bool GatherBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const GatherArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const auto run = static_cast<std::size_t>(args.indexing.run);
  std::size_t entry = tasks.begin / args.pieces, piece = tasks.begin % args.pieces;
  EntryWalk walk(args.indexing, static_cast<std::int64_t>(entry));
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const Range part = Share(run, args.pieces, piece);
    const std::int64_t target = walk.Target(args.indices);
    std::byte* const to = args.y + (entry * run + part.begin) * args.element_bytes;
    const std::size_t bytes = part.size() * args.element_bytes;
    if (target < 0) {
      std::memset(to, 0, bytes);
    } else {
      const std::size_t from = (static_cast<std::size_t>(target) + part.begin) * args.element_bytes;
      std::memcpy(to, args.x + from, bytes);
    }
    if (++piece < args.pieces) continue;
    piece = 0;
    ++entry;
    walk.Next();
  }
  return true;
}

/// For entries of one element each, found by one index; T: an unsigned integer of its size.
template <typename T, typename Index>
bool GatherSingles(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const GatherArgs*>(raw);
  const Indexing& indexing = args.indexing;
  const Range entries = Share(args.tasks, args.blocks, block);
  const auto* const x = reinterpret_cast<const T*>(args.x);
  const auto* const indices = reinterpret_cast<const Index*>(args.indices);
  T* const y = reinterpret_cast<T*>(args.y);
  const std::size_t last = indexing.entry_axes - 1;
  const std::int64_t step = indexing.index_strides[last], base_step = indexing.base_strides[last];
  const std::int64_t size = indexing.sizes[0], stride = indexing.strides[0];
  EntryWalk walk(indexing, static_cast<std::int64_t>(entries.begin));
  for (std::size_t entry = entries.begin; entry < entries.end;) {
    const auto left = static_cast<std::int64_t>(entries.end - entry);
    const std::int64_t count = std::min(walk.line_left(), left);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t index = indices[walk.index() + i * step];
      index += index < 0 ? size : 0;
      const bool inside = index >= 0 && index < size;
      const T element = x[walk.base() + i * base_step + (inside ? index : 0) * stride];
      y[entry + static_cast<std::size_t>(i)] = inside ? element : T{0};
    }
    entry += static_cast<std::size_t>(count);
    walk.Skip(count);
  }
  return true;
}

template <typename T>
Body SinglesBody(bool wide) {
  return wide ? &GatherSingles<T, std::int64_t> : &GatherSingles<T, std::int32_t>;
}

/// Null if an entry is more than one element, or has another number of indices than one.
Body SinglesBodyOf(const GatherArgs& args) {
  const Indexing& indexing = args.indexing;
  if (indexing.run != 1 || indexing.tuple != 1 || indexing.entry_axes == 0) return nullptr;
  switch (args.element_bytes) {
    case 1:
      return SinglesBody<std::uint8_t>(indexing.wide);
    case 2:
      return SinglesBody<std::uint16_t>(indexing.wide);
    case 4:
      return SinglesBody<std::uint32_t>(indexing.wide);
    case 8:
      return SinglesBody<std::uint64_t>(indexing.wide);
    default:
      return nullptr;
  }
}

/// Checks the guards of a block after a certain amount of work.
class Meter {
 public:
  explicit Meter(BlockContext& ctx) : ctx_(ctx) {}

  /// Returns false if the block must leave.
  bool Spend(double ns) {
    spent_ += ns;
    if (spent_ < kNsPerCheck) return true;
    spent_ = 0;
    return !ctx_.ShouldLeave();
  }

 private:
  BlockContext& ctx_;
  double spent_ = 0;
};

/// Applies the part of an update that overlaps y's elements [begin, end), which are stored in
/// `memory`. A target of -1 has none. False: the block left.
bool Apply(const ScatterArgs& args, std::int64_t target, const std::byte* update,
           std::int64_t begin, std::int64_t end, std::byte* memory, Meter& meter) {
  const auto element = static_cast<std::int64_t>(args.element_bytes);
  const std::int64_t first = std::max(target, begin);
  const std::int64_t last = std::min(target + args.run, end);
  if (target < 0 || first >= last) return meter.Spend(kNsPerTarget);
  std::byte* const to = memory + (first - begin) * element;
  const std::byte* const from = update + (first - target) * element;
  if (args.combine == nullptr) {
    const auto bytes = static_cast<std::size_t>((last - first) * element);
    std::memcpy(to, from, bytes);
    return meter.Spend(kNsPerEntry + MoveNs(2.0 * static_cast<double>(bytes)));
  }
  for (std::int64_t at = 0; at < last - first; at += kCombinePiece) {
    const std::int64_t count = std::min(kCombinePiece, last - first - at);
    std::byte* const sum = to + at * element;
    const RowOperand operands[] = {{sum, 1}, {from + at * element, 1}};
    args.combine(operands, sum, static_cast<std::size_t>(count), {});
    if (!meter.Spend(kNsPerEntry + kNsPerCombined * static_cast<double>(count))) return false;
  }
  return true;
}

bool TargetsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const TargetsArgs*>(raw);
  const Range chunks = Share(args.chunks, args.blocks, block);
  EntryWalk walk(args.indexing, static_cast<std::int64_t>(chunks.begin * kScatterChunk));
  for (std::size_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    ChunkBounds bounds{args.indexing.tensor, 0};
    const std::size_t last = std::min((chunk + 1) * kScatterChunk, args.entries);
    for (std::size_t entry = chunk * kScatterChunk; entry < last; ++entry, walk.Next()) {
      const std::int64_t target = walk.Target(args.indices);
      args.targets[entry] = target;
      if (target < 0) continue;
      bounds.begin = std::min(bounds.begin, target);
      bounds.end = std::max(bounds.end, target + args.indexing.run);
    }
    args.bounds[chunk] = bounds;
  }
  return true;
}

/// Applies the updates of a chunk of entries to y's elements [begin, end). False: the block left.
bool ApplyChunk(const ScatterArgs& args, std::size_t chunk, std::int64_t begin, std::int64_t end,
                std::byte* memory, Meter& meter) {
  const std::size_t last = std::min((chunk + 1) * kScatterChunk, args.entries);
  const std::size_t update_bytes = static_cast<std::size_t>(args.run) * args.element_bytes;
  for (std::size_t entry = chunk * kScatterChunk; entry < last; ++entry) {
    const std::byte* const update = args.updates + entry * update_bytes;
    if (!Apply(args, args.targets[entry], update, begin, end, memory, meter)) return false;
  }
  return true;
}

bool ScatterBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const ScatterArgs*>(raw);
  const auto element = static_cast<std::int64_t>(args.element_bytes);
  const std::int64_t begin = block * args.range;
  const std::int64_t end = std::min(begin + args.range, args.tensor);
  const auto bytes = static_cast<std::size_t>((end - begin) * element);
  std::byte* const memory = ctx.scratch().data();
  if (ctx.ShouldLeave()) return false;
  std::memcpy(memory, args.x + begin * element, bytes);
  if (ctx.ShouldLeave()) return false;
  Meter meter(ctx);
  for (std::size_t chunk = 0; chunk * kScatterChunk < args.entries; ++chunk) {
    const ChunkBounds& bounds = args.bounds[chunk];
    if (bounds.end <= begin || bounds.begin >= end) {
      if (!meter.Spend(kNsPerTarget)) return false;
    } else if (!ApplyChunk(args, chunk, begin, end, memory, meter)) {
      return false;
    }
  }
  if (ctx.ShouldLeave()) return false;
  std::memcpy(args.y + begin * element, memory, bytes);
  return true;
}

/// Checks that every entry with indices in range stays in the tensor.
Status CheckInside(const char* name, const IndexSpec& spec) {
  std::int64_t most = spec.run;
  for (std::size_t i = 0; i < spec.entries.size(); ++i) {
    most += (spec.entries[i] - 1) * spec.base_strides[i];
  }
  for (std::size_t i = 0; i < spec.sizes.size(); ++i) most += (spec.sizes[i] - 1) * spec.strides[i];
  if (most <= spec.tensor) return {};
  return Invalid(name, fmt::format("entries {} with runs of {} reach element {} of {}",
                                   ShapeText(spec.entries), spec.run, most, spec.tensor));
}

Result<Indexing> Layout(const char* name, const IndexSpec& spec) {
  const std::size_t axes = spec.entries.size();
  if (axes > kMaxIndexAxes || spec.index_strides.size() != axes ||
      spec.base_strides.size() != axes || spec.sizes.size() > kMaxIndexAxes ||
      spec.strides.size() != spec.sizes.size()) {
    return Invalid(name, fmt::format("{} entry axes, tuples of {}; the most is {} each", axes,
                                     spec.sizes.size(), kMaxIndexAxes));
  }
  LAGOON_RETURN_IF_ERROR(CheckElements(name, "the indexed tensor", {&spec.tensor, 1}));
  LAGOON_RETURN_IF_ERROR(CheckElements(name, "entries", spec.entries));
  LAGOON_RETURN_IF_ERROR(CheckElements(name, "tuple sizes", spec.sizes));
  LAGOON_RETURN_IF_ERROR(CheckInside(name, spec));
  Indexing indexing;
  indexing.entry_axes = axes;
  indexing.tuple = spec.sizes.size();
  std::copy(spec.entries.begin(), spec.entries.end(), indexing.entries);
  std::copy(spec.index_strides.begin(), spec.index_strides.end(), indexing.index_strides);
  std::copy(spec.base_strides.begin(), spec.base_strides.end(), indexing.base_strides);
  std::copy(spec.sizes.begin(), spec.sizes.end(), indexing.sizes);
  std::copy(spec.strides.begin(), spec.strides.end(), indexing.strides);
  indexing.run = spec.run;
  indexing.tensor = spec.tensor;
  indexing.wide = spec.index_type == DataType::kInt64;
  return indexing;
}

std::int64_t Product(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}

BinaryOp CombineOf(ScatterOp op) {
  switch (op) {
    case ScatterOp::kMul:
      return BinaryOp::kMul;
    case ScatterOp::kMin:
      return BinaryOp::kMin;
    case ScatterOp::kMax:
      return BinaryOp::kMax;
    default:
      return BinaryOp::kAdd;
  }
}

}  // namespace

Result<Kernel> MakeGather(const IndexSpec& spec) {
  static constexpr char kName[] = "gather";
  GatherArgs args;
  LAGOON_ASSIGN_OR_RETURN(args.indexing, Layout(kName, spec));
  const std::int64_t count = Product(spec.entries) * spec.run;
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "y", {&count, 1}));
  args.element_bytes = SizeOf(spec.type);
  const auto run = static_cast<std::size_t>(spec.run);
  const auto entries = static_cast<std::size_t>(Product(spec.entries));
  args.pieces = CeilDivide(run * args.element_bytes, kGatherPiece);
  args.tasks = entries * args.pieces;
  const double bytes = 2.0 * static_cast<double>(entries * run * args.element_bytes);
  const Body singles = SinglesBodyOf(args);
  const double task_ns = singles != nullptr ? kNsPerSingle : kNsPerEntry;
  args.blocks = BlocksFor(task_ns * static_cast<double>(args.tasks) + MoveNs(bytes), args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = singles != nullptr ? singles : &GatherBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(GatherArgs, x), offsetof(GatherArgs, indices)};
  kernel.outputs = {offsetof(GatherArgs, y)};
  kernel.bytes_moved = bytes;
  return kernel;
}

Result<Kernel> MakeScatterTargets(const IndexSpec& spec) {
  static constexpr char kName[] = "scatter_targets";
  TargetsArgs args;
  LAGOON_ASSIGN_OR_RETURN(args.indexing, Layout(kName, spec));
  args.entries = static_cast<std::size_t>(Product(spec.entries));
  args.chunks = CeilDivide(args.entries, kScatterChunk);
  args.blocks = BlocksFor(kNsPerEntry * static_cast<double>(args.entries), args.chunks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &TargetsBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(TargetsArgs, indices)};
  kernel.outputs = {offsetof(TargetsArgs, targets), offsetof(TargetsArgs, bounds)};
  kernel.bytes_moved = 2.0 * sizeof(std::int64_t) * static_cast<double>(args.entries);
  return kernel;
}

Result<Kernel> MakeScatter(const IndexSpec& spec, ScatterOp op) {
  static constexpr char kName[] = "scatter";
  ScatterArgs args;
  LAGOON_ASSIGN_OR_RETURN(const Indexing indexing, Layout(kName, spec));
  args.run = indexing.run;
  args.tensor = indexing.tensor;
  if (op != ScatterOp::kAssign) {
    args.combine = FindBinaryRow(CombineOf(op), spec.type);
    if (args.combine == nullptr) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: the reduction is not defined on {}", kName, OipName(spec.type)));
    }
  }
  args.element_bytes = SizeOf(spec.type);
  args.entries = static_cast<std::size_t>(Product(spec.entries));
  args.range = static_cast<std::int64_t>(kScatterRange / args.element_bytes);
  args.range = std::min(args.range, spec.tensor);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &ScatterBody;
  kernel.blocks = static_cast<std::uint32_t>((spec.tensor + args.range - 1) / args.range);
  kernel.scratch_bytes = static_cast<std::size_t>(args.range) * args.element_bytes;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ScatterArgs, x), offsetof(ScatterArgs, targets),
                   offsetof(ScatterArgs, bounds), offsetof(ScatterArgs, updates)};
  kernel.outputs = {offsetof(ScatterArgs, y)};
  kernel.bytes_moved =
      2.0 * static_cast<double>(spec.tensor) * static_cast<double>(args.element_bytes);
  return kernel;
}

}  // namespace lagoon

#include "kernels/sequence/rotate_append.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

constexpr char kName[] = "rotate_append";

constexpr double kNsPerColumn = 1;             // turned or copied one by one
constexpr std::size_t kRangeBytes = 64 << 10;  // of a cache that a task copies

/// The first blocks turn queries, the others write caches. A task of queries is a token; one of
/// caches is a range of rows of a head of keys or values.
struct RotateAppendArgs {
  const float* x = nullptr;
  const std::int64_t* at = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
  const float* old_keys = nullptr;
  const float* old_values = nullptr;
  float* q = nullptr;
  float* keys = nullptr;
  float* values = nullptr;
  std::size_t batch = 1, rows = 1, heads = 1, key_heads = 1, depth = 1, room = 1, pairs = 0;
  std::size_t positions = 1, ranges = 1, query_blocks = 1, cache_tasks = 1, cache_blocks = 1;
  bool interleaved = false;

  std::size_t columns() const { return (heads + 2 * key_heads) * depth; }
};

/// The head `from` turned by the angles of a position.
void Turn(const RotateAppendArgs& args, const float* from, std::int64_t position, float* to) {
  const bool turns = position >= 0 && static_cast<std::size_t>(position) < args.positions;
  const std::size_t pairs = turns ? args.pairs : 0;
  const std::size_t row = turns ? static_cast<std::size_t>(position) * args.pairs : 0;
  const float* const cos = args.cos + row;
  const float* const sin = args.sin + row;
  const std::size_t step = args.interleaved ? 2 : 1, second = args.interleaved ? 1 : pairs;
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = from[i * step], b = from[i * step + second];
    to[i * step] = a * cos[i] - b * sin[i];
    to[i * step + second] = a * sin[i] + b * cos[i];
  }
  std::copy_n(from + 2 * pairs, args.depth - 2 * pairs, to + 2 * pairs);
}

void TurnQueries(const RotateAppendArgs& args, Range tokens) {
  for (std::size_t token = tokens.begin; token < tokens.end; ++token) {
    const std::size_t text = token / args.rows, row = token % args.rows;
    const float* const x = args.x + token * args.columns();
    for (std::size_t head = 0; head < args.heads; ++head) {
      float* const q = args.q + ((text * args.heads + head) * args.rows + row) * args.depth;
      Turn(args, x + head * args.depth, args.at[token], q);
    }
  }
}

void WriteCache(const RotateAppendArgs& args, std::size_t task) {
  const bool keys = task % 2 == 0;
  const Range range = Share(args.room, args.ranges, task / 2 % args.ranges);
  const std::size_t head = task / 2 / args.ranges % args.key_heads;
  const std::size_t text = task / 2 / args.ranges / args.key_heads;
  const std::size_t cache = (text * args.key_heads + head) * args.room * args.depth;
  float* const to = (keys ? args.keys : args.values) + cache;
  if (const float* const old = keys ? args.old_keys : args.old_values; old != nullptr) {
    std::copy_n(old + cache + range.begin * args.depth, range.size() * args.depth,
                to + range.begin * args.depth);
  }
  const std::size_t first = (args.heads + (keys ? 0 : args.key_heads) + head) * args.depth;
  for (std::size_t token = text * args.rows; token < (text + 1) * args.rows; ++token) {
    const auto at = static_cast<std::size_t>(args.at[token]);  // a negative one is above all rooms
    if (at < range.begin || at >= range.end) continue;
    const float* const from = args.x + token * args.columns() + first;
    if (keys) {
      Turn(args, from, args.at[token], to + at * args.depth);
    } else {
      std::copy_n(from, args.depth, to + at * args.depth);
    }
  }
}

bool RotateAppendBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const RotateAppendArgs*>(raw);
  if (block < args.query_blocks) {
    TurnQueries(args, Share(args.batch * args.rows, args.query_blocks, block));
    return true;
  }
  const Range tasks = Share(args.cache_tasks, args.cache_blocks, block - args.query_blocks);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) WriteCache(args, task);
  return true;
}

Status Check(const RotateAppendSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"positions", spec.positions}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "x",
                                       {{"batch", spec.batch},
                                        {"rows", spec.rows},
                                        {"heads", spec.heads + 2 * spec.key_heads},
                                        {"depth", spec.depth}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "a cache",
                                       {{"batch", spec.batch},
                                        {"key_heads", spec.key_heads},
                                        {"room", spec.room},
                                        {"depth", spec.depth}}));
  if (2 * spec.pairs <= spec.depth) return {};
  return Invalid(kName, fmt::format("turns {} pairs of {} columns", spec.pairs, spec.depth));
}

/// The parts of the room of a cache that are tasks of their own: small enough to be copied, or to
/// take all new tokens, without a check of the guards.
std::size_t RangesOf(const RotateAppendSpec& spec) {
  const std::size_t row_bytes = spec.depth * sizeof(float);
  const std::size_t most = std::max<std::size_t>(kRangeBytes / row_bytes, 1);
  if (spec.in_place && spec.rows * spec.depth * kNsPerColumn <= kBlockNs) return 1;
  const auto columns = static_cast<std::size_t>(kBlockNs / kNsPerColumn);
  return CeilDivide(spec.room, std::min(most, std::max<std::size_t>(columns / spec.depth, 1)));
}

}  // namespace

Result<Kernel> MakeRotateAppend(const RotateAppendSpec& spec) {
  LAGOON_RETURN_IF_ERROR(Check(spec));
  RotateAppendArgs args;
  args.batch = spec.batch;
  args.rows = spec.rows;
  args.heads = spec.heads;
  args.key_heads = spec.key_heads;
  args.depth = spec.depth;
  args.room = spec.room;
  args.pairs = spec.pairs;
  args.positions = spec.positions;
  args.interleaved = spec.interleaved;
  const std::size_t tokens = spec.batch * spec.rows;
  const auto columns = static_cast<double>(tokens * spec.depth) * kNsPerColumn;
  args.query_blocks = BlocksFor(columns * static_cast<double>(spec.heads), tokens);
  args.ranges = RangesOf(spec);
  args.cache_tasks = 2 * spec.batch * spec.key_heads * args.ranges;
  const auto cache = static_cast<double>(spec.batch * spec.key_heads * spec.room * spec.depth);
  const double copied = spec.in_place ? 0 : 4 * sizeof(float) * cache;
  const double written = 2 * columns * static_cast<double>(spec.key_heads);
  args.cache_blocks = BlocksFor(written + MoveNs(copied), args.cache_tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &RotateAppendBody;
  kernel.blocks = static_cast<std::uint32_t>(args.query_blocks + args.cache_blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(RotateAppendArgs, x), offsetof(RotateAppendArgs, at)};
  if (spec.pairs > 0) {
    kernel.inputs.push_back(offsetof(RotateAppendArgs, cos));
    kernel.inputs.push_back(offsetof(RotateAppendArgs, sin));
  }
  if (!spec.in_place) {
    kernel.inputs.push_back(offsetof(RotateAppendArgs, old_keys));
    kernel.inputs.push_back(offsetof(RotateAppendArgs, old_values));
  }
  kernel.outputs = {offsetof(RotateAppendArgs, q), offsetof(RotateAppendArgs, keys),
                    offsetof(RotateAppendArgs, values)};
  kernel.flops = 6 * static_cast<double>(tokens * spec.pairs * (spec.heads + spec.key_heads));
  kernel.bytes_moved = copied + 2 * sizeof(float) * static_cast<double>(tokens * args.columns());
  return kernel;
}

}  // namespace lagoon

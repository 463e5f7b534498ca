// Running sums and products, and the greatest elements in order.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/checks.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/lines/reduce_rows.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

using rows::Load;
using rows::Store;

constexpr std::size_t kColumns = 64;
constexpr std::size_t kScanPiece = 2048;  // elements per task if the axis has several pieces
constexpr std::size_t kElementsPerCheck = 2048;
constexpr double kNsPerElement = 2.5;
constexpr double kNsPerScanTask = 40;

/// A task is a piece of the axis of up to kColumns neighbouring columns. If the axis has several
/// pieces, a block has one task, and itself sums up the elements before its piece, or the sums of
/// the pieces before.
struct ScanArgs {
  const std::byte* x = nullptr;
  std::byte* y = nullptr;           // of ScanSumsBody: the sums
  const std::byte* sums = nullptr;  // [tiles, pieces, kColumns] of Wide<T>; null: not given
  std::size_t axis = 1, inner = 1;
  std::size_t tiles = 1;  // tiles of columns
  std::size_t pieces = 1, tasks = 1, blocks = 1;
  bool exclusive = false, reverse = false;
};

template <typename W>
W Plus(W a, W b) {
  using U = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;
  return static_cast<W>(static_cast<U>(a) + static_cast<U>(b));
}

template <typename W>
W Times(W a, W b) {
  using U = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;
  return static_cast<W>(static_cast<U>(a) * static_cast<U>(b));
}

/// Columns of one outer index, walked in the direction of the sum. kProduct: of the product.
template <typename T, bool kProduct>
class Columns {
 public:
  using W = Wide<T>;

  Columns(const ScanArgs& args, std::size_t tile) : exclusive_(args.exclusive) {
    const std::size_t outer = tile / args.tiles, first = tile % args.tiles * kColumns;
    count_ = std::min(kColumns, args.inner - first);
    std::size_t at = outer * args.axis * args.inner + first;
    step_ = static_cast<std::ptrdiff_t>(args.inner);
    if (args.reverse) {
      at += (args.axis - 1) * args.inner;
      step_ = -step_;
    }
    x_ = reinterpret_cast<const T*>(args.x) + at;
    y_ = reinterpret_cast<T*>(args.y) + at;
    std::fill(sums_, sums_ + kColumns, W{kProduct});
  }

  /// Adds some rows. False: the block left.
  bool Add(Range rows, BlockContext& ctx) {
    std::size_t since_check = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i) {
      const T* const row = x_ + static_cast<std::ptrdiff_t>(i) * step_;
      for (std::size_t c = 0; c < count_; ++c) sums_[c] = Joined(sums_[c], Load(row[c]));
      since_check += count_;
      if (since_check < kElementsPerCheck) continue;
      since_check = 0;
      if (ctx.ShouldLeave()) return false;
    }
    return true;
  }

  /// Adds the sums of `pieces` pieces. False: the block left.
  bool AddSums(const W* sums, std::size_t pieces, BlockContext& ctx) {
    for (std::size_t i = 0; i < pieces; ++i, sums += kColumns) {
      for (std::size_t c = 0; c < count_; ++c) sums_[c] = Joined(sums_[c], sums[c]);
      if (i % (kElementsPerCheck / kColumns) == 0 && ctx.ShouldLeave()) return false;
    }
    return true;
  }

  /// What was added so far, as MakeScanSums() keeps it.
  void WriteSums(W* sums) const { std::copy(sums_, sums_ + kColumns, sums); }

  void Write(Range rows) {
    for (std::size_t i = rows.begin; i < rows.end; ++i) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * step_;
      for (std::size_t c = 0; c < count_; ++c) {
        const auto column = static_cast<std::ptrdiff_t>(c);
        const W next = Joined(sums_[c], Load(x_[at + column]));
        y_[at + column] = Store<T>(exclusive_ ? sums_[c] : next);
        sums_[c] = next;
      }
    }
  }

 private:
  static W Joined(W a, W b) { return kProduct ? Times(a, b) : Plus(a, b); }

  const T* x_;
  T* y_;
  std::ptrdiff_t step_;
  std::size_t count_;
  bool exclusive_;
  W sums_[kColumns];
};

template <typename T, bool kProduct>
bool ScanBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const ScanArgs*>(raw);
  if (ctx.ShouldLeave()) return false;
  const Range tasks = Share(args.tasks, args.blocks, block);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    Columns<T, kProduct> columns(args, task / args.pieces);
    const Range part = Share(args.axis, args.pieces, task % args.pieces);
    if (args.sums != nullptr) {
      const auto* const sums = reinterpret_cast<const Wide<T>*>(args.sums);
      const std::size_t first = task / args.pieces * args.pieces;
      if (!columns.AddSums(sums + first * kColumns, task - first, ctx)) return false;
    } else if (args.pieces > 1 && !columns.Add({0, part.begin}, ctx)) {
      return false;
    }
    columns.Write(part);
  }
  return true;
}

/// The sum of one piece.
template <typename T, bool kProduct>
bool ScanSumsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const ScanArgs*>(raw);
  if (ctx.ShouldLeave()) return false;
  Columns<T, kProduct> columns(args, block / args.pieces);
  if (!columns.Add(Share(args.axis, args.pieces, block % args.pieces), ctx)) return false;
  columns.WriteSums(reinterpret_cast<Wide<T>*>(args.y) + block * kColumns);
  return true;
}

struct TopKArgs {
  const std::byte* x = nullptr;
  std::byte* values = nullptr;
  std::int64_t* indices = nullptr;
  std::size_t axis = 1, inner = 1, k = 1;
  std::size_t pieces = 1;  // ranges of ranks, each written by its own block
  bool largest = true;
  bool sort_all = false;                     // the whole line, by digits
  const std::int64_t* computed_k = nullptr;  // null: k
  std::int64_t* sizes = nullptr;
  std::int64_t dims[16] = {};
  std::size_t rank = 0, dims_axis = 0;
};

/// The actual k. Block 0 writes the sizes.
std::size_t ActualK(const TopKArgs& args) {
  if (args.computed_k == nullptr) return args.k;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(*args.computed_k, 0, static_cast<std::int64_t>(args.k)));
}

void WriteTopKSizes(const TopKArgs& args, std::size_t k) {
  for (std::size_t axis = 0; axis < args.rank; ++axis) {
    args.sizes[axis] = axis == args.dims_axis ? static_cast<std::int64_t>(k) : args.dims[axis];
  }
}

/// An update of the heap counts as this many elements between two guard checks.
constexpr std::size_t kUpdateWork = 32;
constexpr std::size_t kUpdatesPerCheck = kElementsPerCheck / kUpdateWork;
constexpr std::size_t kRanksPerBlock = 512;        // each in a cache line of its own
constexpr std::size_t kNearRanksPerBlock = 4096;   // side by side
constexpr std::size_t kMaxK = 1 << 16;             // 1 MiB of scratch memory per compute unit
constexpr std::size_t kMostSortedBytes = 1 << 20;  // the same, for the numbers of a sorted line
/// From this part of a line on it is sorted whole: kept in the heap, a number costs about 50 ns
/// times the logarithm of the parts, in a sort 10 to 20 ns (EPYC).
constexpr std::size_t kSortedPart = 16;

/// A candidate. "Less" means better, so that the worst kept candidate is at the top of the heap.
template <typename T>
struct Candidate {
  Wide<T> value;
  std::int64_t index;
};

/// Orders values; NaN is the greatest, as in numpy.
template <typename W>
bool Less(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  }
  return a < b;
}

/// A number of a line that is sorted, as bits in the order of the ranks.
template <typename T>
struct SortedNumber {
  using Bits = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;
  Bits bits;
  std::uint32_t index;

  static Bits BitsOf(Wide<T> value, bool largest) {
    constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
    Bits bits{};
    if constexpr (std::is_floating_point_v<Wide<T>>) {
      const Wide<T> unsigned_zero = value + Wide<T>{0};  // -0 is as great as 0
      bits = std::bit_cast<Bits>(unsigned_zero);
      bits = (bits & kSign) != 0 ? ~bits : bits | kSign;
      if (std::isnan(value)) bits = ~Bits{0};
    } else if constexpr (std::is_signed_v<T>) {
      bits = static_cast<Bits>(static_cast<std::int64_t>(value)) ^ kSign;
    } else {
      bits = static_cast<Bits>(value);
    }
    return largest ? ~bits : bits;
  }
};

/// Sorts a line by digits of 8 bits, the last first, which keeps equal numbers in the order of
/// their indices. `numbers`: room for twice the line. Returns the half that has the result; null:
/// the block has to leave.
template <typename T>
const SortedNumber<T>* SortLine(const TopKArgs& args, const T* x, SortedNumber<T>* numbers,
                                BlockContext& ctx) {
  constexpr std::size_t kDigits = sizeof(typename SortedNumber<T>::Bits);
  std::array<std::array<std::uint32_t, 256>, kDigits> counts{};
  for (std::size_t i = 0; i < args.axis; ++i) {
    if (i % kElementsPerCheck == 0 && ctx.ShouldLeave()) return nullptr;
    const auto bits = SortedNumber<T>::BitsOf(Load(x[i * args.inner]), args.largest);
    numbers[i] = {bits, static_cast<std::uint32_t>(i)};
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
      ++counts[digit][(bits >> (8 * digit)) & 255];
    }
  }
  SortedNumber<T>*from = numbers, *to = numbers + args.axis;
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    std::array<std::uint32_t, 256>& places = counts[digit];
    if (std::ranges::count(places, 0U) == 255) continue;  // all have the same digit
    std::uint32_t place = 0;
    for (std::uint32_t& count : places) place += std::exchange(count, place);
    for (std::size_t i = 0; i < args.axis; ++i) {
      if (i % kElementsPerCheck == 0 && ctx.ShouldLeave()) return nullptr;
      to[places[(from[i].bits >> (8 * digit)) & 255]++] = from[i];
    }
    std::swap(from, to);
  }
  return from;
}

/// Computes ranks of one line from the whole line.
template <typename T>
bool SortBody(const TopKArgs& args, std::uint32_t block, BlockContext& ctx) {
  const std::size_t k = ActualK(args);
  const std::size_t line = block / args.pieces;
  const std::size_t outer = line / args.inner, column = line % args.inner;
  const T* const x = reinterpret_cast<const T*>(args.x) + outer * args.axis * args.inner + column;
  auto* const memory = reinterpret_cast<SortedNumber<T>*>(ctx.scratch().data());
  const SortedNumber<T>* const sorted = SortLine(args, x, memory, ctx);
  if (sorted == nullptr || ctx.ShouldLeave()) return false;
  if (block == 0) WriteTopKSizes(args, k);
  const std::size_t to = outer * k * args.inner + column;
  const Range ranks = Share(k, args.pieces, block % args.pieces);
  for (std::size_t i = ranks.begin; i < ranks.end; ++i) {
    const std::size_t index = sorted[i].index;
    reinterpret_cast<T*>(args.values)[to + i * args.inner] = x[index * args.inner];
    args.indices[to + i * args.inner] = static_cast<std::int64_t>(index);
  }
  return true;
}

/// Computes one line. The k best elements so far are a heap in scratch memory, which popping then
/// sorts in place.
template <typename T>
bool TopKBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const TopKArgs*>(raw);
  if (args.sort_all) return SortBody<T>(args, block, ctx);
  using Entry = Candidate<T>;
  const auto better = [&](const Entry& a, const Entry& b) {
    const bool less = Less(a.value, b.value), greater = Less(b.value, a.value);
    if (less || greater) return args.largest ? greater : less;
    return a.index < b.index;
  };
  const std::size_t k = ActualK(args);
  const std::size_t line = block / args.pieces;
  const std::size_t outer = line / args.inner, column = line % args.inner;
  const T* const x = reinterpret_cast<const T*>(args.x) + outer * args.axis * args.inner + column;
  auto* const heap = reinterpret_cast<Entry*>(ctx.scratch().data());
  std::size_t size = 0, work = kElementsPerCheck;
  for (std::size_t i = 0; i < (k == 0 ? 0 : args.axis); ++i, ++work) {
    if (work >= kElementsPerCheck) {
      work = 0;
      if (ctx.ShouldLeave()) return false;
    }
    const Entry entry{Load(x[i * args.inner]), static_cast<std::int64_t>(i)};
    if (size == k) {
      if (!better(entry, heap[0])) continue;
      std::pop_heap(heap, heap + size--, better);
    }
    work += kUpdateWork;
    heap[size++] = entry;
    std::push_heap(heap, heap + size, better);
  }
  for (; size > 1; --size) {
    if (size % kUpdatesPerCheck == 0 && ctx.ShouldLeave()) return false;
    std::pop_heap(heap, heap + size, better);
  }
  if (ctx.ShouldLeave()) return false;
  if (block == 0) WriteTopKSizes(args, k);
  const std::size_t to = outer * k * args.inner + column;
  const Range ranks = Share(k, args.pieces, block % args.pieces);
  for (std::size_t i = ranks.begin; i < ranks.end; ++i) {
    reinterpret_cast<T*>(args.values)[to + i * args.inner] = Store<T>(heap[i].value);
    args.indices[to + i * args.inner] = heap[i].index;
  }
  return true;
}

template <typename F>
Body ForNumbers(DataType type, F&& f) {
  if (type == DataType::kString || type == DataType::kBool) return nullptr;
  return WithElementType(type, [&]<typename T>(std::type_identity<T> id) -> Body {
    if constexpr (std::is_same_v<T, bool>) {
      return nullptr;
    } else {
      return f(id);
    }
  });
}

Status CheckAxis(const char* name, const AxisSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckElements(
      name, "x", {{"outer", spec.outer}, {"axis", spec.axis}, {"inner", spec.inner}}));
  if (spec.type != DataType::kBool && spec.type != DataType::kString) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{}: not defined on {}", name, OipName(spec.type)));
}

ScanArgs ArgsOf(const ScanSpec& spec) {
  ScanArgs args;
  args.axis = spec.axis.axis;
  args.inner = spec.axis.inner;
  args.exclusive = spec.exclusive;
  args.reverse = spec.reverse;
  args.tiles = CeilDivide(args.inner, kColumns);
  args.pieces = ScanPieces(spec);
  args.tasks = spec.axis.outer * args.tiles * args.pieces;
  return args;
}

}  // namespace

std::size_t ScanPieces(const ScanSpec& spec) {
  const std::size_t row = std::min(spec.axis.inner, kColumns);
  return std::min(CeilDivide(spec.axis.axis * row, kScanPiece), spec.axis.axis);
}

Result<Kernel> MakeScan(const ScanSpec& spec) {
  static constexpr char kName[] = "scan";
  LAGOON_RETURN_IF_ERROR(CheckAxis(kName, spec.axis));
  ScanArgs args = ArgsOf(spec);
  const double elements = static_cast<double>(spec.axis.outer * args.axis * args.inner);
  args.blocks = args.tasks;
  if (args.pieces == 1) {
    args.blocks = BlocksFor(
        kNsPerElement * elements + kNsPerScanTask * static_cast<double>(args.tasks), args.tasks);
  }
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForNumbers(spec.axis.type, [&]<typename T>(std::type_identity<T>) -> Body {
    return spec.product ? &ScanBody<T, true> : &ScanBody<T, false>;
  });
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ScanArgs, x)};
  if (spec.sums_given) kernel.inputs.push_back(offsetof(ScanArgs, sums));
  kernel.outputs = {offsetof(ScanArgs, y)};
  kernel.flops = elements;
  kernel.bytes_moved = 2 * kernel.flops * static_cast<double>(SizeOf(spec.axis.type));
  return kernel;
}

std::size_t ScanSumsBytes(const ScanSpec& spec) {
  // At least as large as Wide<T> of any type.
  return ArgsOf(spec).tasks * kColumns * sizeof(std::int64_t);
}

Result<Kernel> MakeScanSums(const ScanSpec& spec) {
  static constexpr char kName[] = "scan_sums";
  LAGOON_RETURN_IF_ERROR(CheckAxis(kName, spec.axis));
  const ScanArgs args = ArgsOf(spec);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForNumbers(spec.axis.type, [&]<typename T>(std::type_identity<T>) -> Body {
    return spec.product ? &ScanSumsBody<T, true> : &ScanSumsBody<T, false>;
  });
  kernel.blocks = static_cast<std::uint32_t>(args.tasks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ScanArgs, x)};
  kernel.outputs = {offsetof(ScanArgs, y)};
  kernel.flops = static_cast<double>(spec.axis.outer * args.axis * args.inner);
  kernel.bytes_moved = kernel.flops * static_cast<double>(SizeOf(spec.axis.type));
  return kernel;
}

Result<Kernel> MakeTopK(const TopKSpec& spec) {
  static constexpr char kName[] = "top_k";
  LAGOON_RETURN_IF_ERROR(CheckAxis(kName, spec.axis));
  if (spec.k < 1 || spec.k > spec.axis.axis) {
    return Invalid(kName, fmt::format("k is {} of {} elements", spec.k, spec.axis.axis));
  }
  if (spec.k > kMaxK) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}: k is {}, supported are at most {}", kName, spec.k, kMaxK));
  }
  TopKArgs args;
  args.axis = spec.axis.axis;
  args.inner = spec.axis.inner;
  args.k = spec.k;
  args.largest = spec.largest;
  args.pieces = CeilDivide(spec.k, spec.axis.inner == 1 ? kNearRanksPerBlock : kRanksPerBlock);
  // With the index, numbers take 8 bytes, those of 64 bits 16. Twice: they go from half to half.
  const std::size_t sorted_bytes = 2 * spec.axis.axis * (SizeOf(spec.axis.type) <= 4 ? 8 : 16);
  args.sort_all = spec.k >= spec.axis.axis / kSortedPart && sorted_bytes <= kMostSortedBytes;
  if (spec.computed_k) {
    if (spec.dims.size() > std::size(args.dims)) return Invalid(kName, "more than 16 axes");
    args.rank = spec.dims.size();
    args.dims_axis = spec.dims_axis;
    std::copy(spec.dims.begin(), spec.dims.end(), args.dims);
  }
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForNumbers(spec.axis.type,
                           []<typename T>(std::type_identity<T>) -> Body { return &TopKBody<T>; });
  kernel.blocks = static_cast<std::uint32_t>(spec.axis.outer * spec.axis.inner * args.pieces);
  kernel.scratch_bytes = args.sort_all ? sorted_bytes : spec.k * sizeof(Candidate<double>);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(TopKArgs, x)};
  kernel.outputs = {offsetof(TopKArgs, values), offsetof(TopKArgs, indices)};
  if (spec.computed_k) {
    kernel.inputs.push_back(offsetof(TopKArgs, computed_k));
    kernel.outputs.push_back(offsetof(TopKArgs, sizes));
  }
  kernel.flops = static_cast<double>(spec.axis.outer * spec.axis.axis * spec.axis.inner);
  kernel.bytes_moved = kernel.flops * static_cast<double>(SizeOf(spec.axis.type));
  return kernel;
}

}  // namespace lagoon

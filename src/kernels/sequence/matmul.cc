#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/sequence/matmul_args.h"
#include "kernels/sequence/matmul_micro-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

/// Returns false if the block left; it has written nothing then.
HWY_INLINE bool Tile(const MatmulArgs& args, const MatmulTile& tile, float* sums,
                     BlockContext* ctx) {
  const Walk<2> walk(args.batch, tile.batch);
  const float* const a =
      reinterpret_cast<const float*>(args.a) + walk.offset(0) + tile.row * args.a_row;
  const float* const b =
      reinterpret_cast<const float*>(args.b) + walk.offset(1) + tile.column * args.b_column;
  float* const panel = sums + kMatmulRows * kMatmulColumns;
  std::fill(sums, panel, 0.0f);
  for (size_t p = 0; p < args.k; p += kMatmulDepth) {
    const size_t depth = std::min(kMatmulDepth, args.k - p);
    for (size_t column = 0; column < tile.columns; column += 2 * simd::Lanes()) {
      if (ctx != nullptr && ctx->ShouldLeave()) return false;
      const LeftRows left{a + p * args.a_k, args.a_row, args.a_k, tile.rows};
      const RightPanel right{b + p * args.b_k + column * args.b_column, args.b_k, args.b_column,
                             std::min(2 * simd::Lanes(), tile.columns - column)};
      MultiplyPanel(left, right, depth, {sums + column, kMatmulColumns}, panel);
    }
  }
  if (ctx != nullptr && ctx->ShouldLeave()) return false;
  float* const y =
      reinterpret_cast<float*>(args.y) + (tile.batch * args.m + tile.row) * args.n + tile.column;
  for (size_t row = 0; row < tile.rows; ++row) {
    const float* const from = sums + row * kMatmulColumns;
    if (args.alpha == 1) {
      simd::Copy(from, tile.columns, y + row * args.n);
    } else {
      for (size_t j = 0; j < tile.columns; ++j) y[row * args.n + j] = args.alpha * from[j];
    }
  }
  return true;
}

bool MatmulBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const MatmulArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const sums = reinterpret_cast<float*>(ctx.scratch().data());
  // Only a block of one tile may leave in the middle: in other blocks, earlier tiles are written by
  // then.
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!Tile(args, MatmulTile(args, task), sums, may_leave)) return false;
  }
  return true;
}

}  // namespace

Body PickMatmulBody() { return &MatmulBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <cmath>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "kernels/sequence/integer_matmul.h"
#include "plan/element.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickMatmulBody);

constexpr char kName[] = "matmul";

// Measured on a Xeon at 2 GHz, one thread: a multiply and add in fp32 with AVX2, and one in other
// types.
constexpr double kNsPerProduct = 0.03;
constexpr double kNsPerTypedProduct = 1.0;
constexpr double kNsPerTile = 300;
// An estimate, not measured: a multiply and add of 16-bit integers in vectors.
constexpr double kNsPerInt16Product = 0.025;
constexpr std::size_t kTypedDepthPerCheck = 48;

/// Plain loops, for types that models rarely multiply. The sums of a tile are in scratch memory.
template <typename T>
bool TypedTile(const MatmulArgs& args, const MatmulTile& tile, std::uint64_t* sums,
               BlockContext* ctx) {
  using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  static_assert(sizeof(Sum) == sizeof(std::uint64_t));
  const Walk<2> walk(args.batch, tile.batch);
  const T* const a = reinterpret_cast<const T*>(args.a) + walk.offset(0) + tile.row * args.a_row;
  const T* const b =
      reinterpret_cast<const T*>(args.b) + walk.offset(1) + tile.column * args.b_column;
  Sum* const sum = reinterpret_cast<Sum*>(sums);
  std::fill(sum, sum + kMatmulRows * kMatmulColumns, Sum{0});
  for (std::size_t row = 0; row < tile.rows; ++row) {
    for (std::size_t p = 0; p < args.k; ++p) {
      if (ctx != nullptr && p % kTypedDepthPerCheck == 0 && ctx->ShouldLeave()) return false;
      const auto factor = static_cast<Sum>(a[row * args.a_row + p * args.a_k]);
      for (std::size_t j = 0; j < tile.columns; ++j) {
        sum[row * kMatmulColumns + j] +=
            factor * static_cast<Sum>(b[p * args.b_k + j * args.b_column]);
      }
    }
  }
  T* const y =
      reinterpret_cast<T*>(args.y) + (tile.batch * args.m + tile.row) * args.n + tile.column;
  const auto alpha = static_cast<Sum>(
      ConvertElement<std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>(args.alpha));
  for (std::size_t row = 0; row < tile.rows; ++row) {
    for (std::size_t j = 0; j < tile.columns; ++j) {
      y[row * args.n + j] = static_cast<T>(alpha * sum[row * kMatmulColumns + j]);
    }
  }
  return true;
}

template <typename T>
bool TypedBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const MatmulArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const sums = reinterpret_cast<std::uint64_t*>(ctx.scratch().data());
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!TypedTile<T>(args, MatmulTile(args, task), sums, may_leave)) return false;
  }
  return true;
}

Body FindBody(DataType type) {
  if (type == DataType::kFloat32) return LAGOON_DISPATCH(PickMatmulBody)();
  if (type == DataType::kInt16) return FindIntegerMatmulBody();
  return WithElementTypeAmong<double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>(
      type, []<typename T>(std::type_identity<T>) -> Body { return &TypedBody<T>; },
      []() -> Body { return nullptr; });
}

double NsPerProduct(DataType type) {
  if (type == DataType::kFloat32) return kNsPerProduct;
  // Without vectors, 16-bit integers take the plain loops' time.
  const bool vectors = ActiveCpuLevel() != CpuLevel::kPortable;
  return type == DataType::kInt16 && vectors ? kNsPerInt16Product : kNsPerTypedProduct;
}

Status SetBatch(const MatmulSpec& spec, MatmulArgs& args) {
  const std::size_t rank = spec.batch.size();
  if (rank > kMaxOuterAxes || spec.a_batch_strides.size() != rank ||
      spec.b_batch_strides.size() != rank) {
    return Invalid(kName, fmt::format("batch {} with strides {} and {}, at most {} axes",
                                      ShapeText(spec.batch), ShapeText(spec.a_batch_strides),
                                      ShapeText(spec.b_batch_strides), kMaxOuterAxes));
  }
  args.batch.rank = static_cast<std::uint32_t>(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    args.batch.dims[i] = static_cast<std::size_t>(spec.batch[i]);
    args.batch.strides[0][i] = static_cast<std::size_t>(spec.a_batch_strides[i]);
    args.batch.strides[1][i] = static_cast<std::size_t>(spec.b_batch_strides[i]);
  }
  return {};
}

}  // namespace

Result<Kernel> MakeMatmul(const MatmulSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t batch, CheckElements(kName, "the batch", spec.batch));
  for (const auto& [tensor, rows, columns] :
       {std::tuple{"a", spec.m, spec.k}, {"b", spec.k, spec.n}, {"y", spec.m, spec.n}}) {
    LAGOON_RETURN_IF_ERROR(
        CheckElements(kName, tensor, {{"batch", batch}, {"rows", rows}, {"columns", columns}}));
  }
  const Body body = FindBody(spec.type);
  if (body == nullptr) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}: not defined on {}", kName, OipName(spec.type)));
  }
  if (!IsFloat(spec.type) && std::nearbyint(spec.alpha) != spec.alpha) {
    return Invalid(kName,
                   fmt::format("alpha is {} for products of {}", spec.alpha, OipName(spec.type)));
  }
  if (spec.type == DataType::kInt16 && (spec.a_k_stride != 1 || spec.b_column_stride != 1)) {
    return Invalid(kName, fmt::format("a_k_stride {} and b_column_stride {} must be 1 for INT16",
                                      spec.a_k_stride, spec.b_column_stride));
  }
  MatmulArgs args;
  LAGOON_RETURN_IF_ERROR(SetBatch(spec, args));
  args.m = spec.m;
  args.k = spec.k;
  args.n = spec.n;
  args.a_row = spec.a_row_stride;
  args.a_k = spec.a_k_stride;
  args.b_k = spec.b_k_stride;
  args.b_column = spec.b_column_stride;
  args.alpha = spec.alpha;
  args.row_tiles = CeilDivide(spec.m, kMatmulRows);
  args.column_tiles = CeilDivide(spec.n, kMatmulColumns);
  args.tasks = batch * args.row_tiles * args.column_tiles;
  const double products = static_cast<double>(batch * spec.m) * static_cast<double>(spec.k) *
                          static_cast<double>(spec.n);
  const double ns =
      products * NsPerProduct(spec.type) + kNsPerTile * static_cast<double>(args.tasks);
  args.blocks = BlocksFor(ns, args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = body;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = kMatmulScratch;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(MatmulArgs, a), offsetof(MatmulArgs, b)};
  kernel.outputs = {offsetof(MatmulArgs, y)};
  kernel.flops = 2 * products;
  kernel.bytes_moved = static_cast<double>(SizeOf(spec.type)) * static_cast<double>(batch) *
                       static_cast<double>(spec.m * spec.k + spec.k * spec.n + spec.m * spec.n);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE

#include <algorithm>
#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/make/make.h"
#include "kernels/move/transpose.h"

namespace lagoon::cuda {
namespace {

bool IsFp32(DataType type) { return type == DataType::kFloat32; }

std::vector<std::int64_t> DenseStrides(std::span<const std::int64_t> dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

CudaKernel FlipOf(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  FlipArgs args{};
  args.rows = static_cast<u32>(rows);
  args.columns = static_cast<u32>(columns);
  args.row_tiles = DivideUp(args.rows, kFlipTile);
  args.column_tiles = DivideUp(args.columns, kFlipTile);
  CudaKernel kernel;
  kernel.name = "flip";
  kernel.body = BodyId::kFlip;
  kernel.blocks = static_cast<u32>(batch) * args.row_tiles * args.column_tiles;
  kernel.shared_bytes = kFlipTile * (kFlipTile + 1) * sizeof(u32);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(FlipArgs, x)};
  kernel.outputs = {offsetof(FlipArgs, y)};
  kernel.bytes_moved = 8.0 * static_cast<double>(batch * rows * columns);
  return kernel;
}

}  // namespace

Result<CudaKernel> MakeCudaUnary(const UnarySpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeUnary(spec));
  if (!IsFp32(spec.type) || !IsFp32(ResultType(spec.op, spec.type)))
    return MakeTypedUnary(spec, cpu);
  UnaryArgs args{};
  args.count = U32(spec.count);
  args.op = static_cast<u32>(spec.op);
  args.alpha = static_cast<float>(spec.alpha);
  args.beta = static_cast<float>(spec.beta);
  CudaKernel kernel;
  kernel.name = "unary";
  kernel.body = BodyId::kUnary;
  kernel.blocks = TilesOf(spec.count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(UnaryArgs, x)};
  kernel.outputs = {offsetof(UnaryArgs, y)};
  kernel.in_place = {0};
  kernel.flops = static_cast<double>(spec.count);
  kernel.bytes_moved = 8.0 * static_cast<double>(spec.count);
  return kernel;
}

Result<CudaKernel> MakeCudaBinary(const BinarySpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeBinary(spec));
  if (!IsFp32(spec.type) || !IsFp32(ResultType(spec.op, spec.type)))
    return MakeTypedBinary(spec, cpu);
  BinaryArgs args{};
  LAGOON_ASSIGN_OR_RETURN(args.epilogue, EpilogueOf("binary", spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.axes,
                          BroadcastAxes<2>("binary", {spec.a, spec.b}, spec.out, args.count));
  args.op = static_cast<u32>(spec.op);
  CudaKernel kernel =
      KernelLike(cpu, "binary", BodyId::kBinary, TilesOf(args.count, kElementTile), args);
  kernel.inputs = {offsetof(BinaryArgs, a), offsetof(BinaryArgs, b)};
  kernel.outputs = {offsetof(BinaryArgs, y)};
  kernel.in_place = cpu.in_place;
  return kernel;
}

Result<CudaKernel> MakeCudaStridedCopy(const StridedCopySpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeStridedCopy(spec));
  StridedCopyArgs args{};
  LAGOON_ASSIGN_OR_RETURN(args.epilogue, EpilogueOf("strided_copy", spec.epilogue));
  args.finished = spec.epilogue.activation != Activation::kNone ? 1 : 0;
  std::vector<WalkAxis> axes;
  std::size_t count = 1;
  for (std::size_t i = 0; i < spec.out.size(); ++i) {
    axes.push_back({spec.out[i], {spec.strides[i]}});
    count *= static_cast<std::size_t>(spec.out[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(args.axes, AxesOf<1>("strided_copy", axes));
  args.start = spec.start;
  args.count = U32(count);
  args.element_bytes = U32(spec.element_bytes);
  CudaKernel kernel;
  kernel.name = "strided_copy";
  kernel.body = BodyId::kStridedCopy;
  kernel.blocks = TilesOf(count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(StridedCopyArgs, x)};
  kernel.outputs = {offsetof(StridedCopyArgs, y)};
  kernel.bytes_moved = cpu.bytes_moved;
  return kernel;
}

Result<CudaKernel> MakeCudaTranspose(std::span<const std::int64_t> dims,
                                     std::span<const std::int64_t> permutation,
                                     std::size_t element_bytes) {
  LAGOON_RETURN_IF_ERROR(MakeTranspose(dims, permutation, element_bytes));
  const std::vector<std::int64_t> strides = DenseStrides(dims);
  StridedCopySpec copy;
  copy.element_bytes = element_bytes;
  std::vector<WalkAxis> axes;
  for (const std::int64_t axis : permutation) {
    const auto from = static_cast<std::size_t>(axis);
    copy.out.push_back(dims[from]);
    copy.strides.push_back(strides[from]);
    axes.push_back({dims[from], {strides[from]}});
  }
  // [columns, rows], perhaps with one outer axis: matrices to be transposed through shared memory.
  const std::vector<WalkAxis> joined = Joined(axes);
  const std::size_t rank = joined.size();
  if (element_bytes == 4 && (rank == 2 || rank == 3) && joined[rank - 2].strides[0] == 1) {
    const WalkAxis &columns = joined[rank - 2], &rows = joined[rank - 1];
    const bool dense = rows.strides[0] == columns.size;
    const bool stacked = rank == 2 || joined[0].strides[0] == rows.size * columns.size;
    // In a narrow matrix most threads of a tile would have no element.
    const bool wide = std::min(rows.size, columns.size) >= kFlipTile / 4;
    if (dense && stacked && wide)
      return FlipOf(rank == 2 ? 1 : joined[0].size, rows.size, columns.size);
  }
  return MakeCudaStridedCopy(copy);
}

Result<CudaKernel> MakeCudaGather(const IndexSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeGather(spec));
  GatherArgs args{};
  std::vector<WalkAxis> axes;
  std::size_t count = static_cast<std::size_t>(spec.run);
  for (std::size_t i = 0; i < spec.entries.size(); ++i) {
    axes.push_back({spec.entries[i], {spec.index_strides[i], spec.base_strides[i]}});
    count *= static_cast<std::size_t>(spec.entries[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(args.entries, AxesOf<2>("gather", axes));
  args.tuple = U32(spec.sizes.size());
  std::copy(spec.sizes.begin(), spec.sizes.end(), args.sizes);
  std::copy(spec.strides.begin(), spec.strides.end(), args.strides);
  args.run = static_cast<u32>(spec.run);
  args.count = U32(count);
  args.element_bytes = U32(SizeOf(spec.type));
  args.wide = spec.index_type == DataType::kInt64 ? 1 : 0;
  CudaKernel kernel;
  kernel.name = "gather";
  kernel.body = BodyId::kGather;
  kernel.blocks = TilesOf(count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(GatherArgs, x), offsetof(GatherArgs, indices)};
  kernel.outputs = {offsetof(GatherArgs, y)};
  kernel.bytes_moved = cpu.bytes_moved;
  return kernel;
}

}  // namespace lagoon::cuda

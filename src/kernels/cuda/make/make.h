#pragma once

// Shared by the factories.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/kernel.h"

namespace lagoon::cuda {

/// The error kUnimplemented: "`op` `what` has no CUDA body yet", and a hint what to do.
tl::unexpected<Error> Unimplemented(std::string_view op, std::string_view what);

/// A kernel that runs `body` with `args` and has the costs of the CPU's kernel `cpu`. The caller
/// adds the operands.
template <typename Args>
CudaKernel KernelLike(const Kernel& cpu, const char* name, BodyId body, u32 blocks,
                      const Args& args) {
  CudaKernel kernel;
  kernel.name = name;
  kernel.body = body;
  kernel.blocks = blocks;
  kernel.args = ArgsImage(args);
  kernel.flops = cpu.flops;
  kernel.bytes_moved = cpu.bytes_moved;
  return kernel;
}

/// `value` as 32 bits; CheckElements() guarantees that it fits.
inline u32 U32(std::size_t value) { return static_cast<u32>(value); }

/// Number of tiles of `tile` elements; at least one.
inline u32 TilesOf(std::size_t count, u32 tile) { return U32((count + tile - 1) / tile); }

/// An elementwise kernel with the output `y`. The caller adds the inputs.
template <typename Args>
CudaKernel ElementKernel(const char* name, BodyId body, const Args& args, double bytes_moved) {
  CudaKernel kernel;
  kernel.name = name;
  kernel.body = body;
  kernel.blocks = TilesOf(args.count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.outputs = {offsetof(Args, y)};
  kernel.bytes_moved = bytes_moved;
  return kernel;
}

/// The kernels of MakeCudaUnary() and MakeCudaBinary() that are not fp32 to fp32; `cpu`: the CPU's
/// kernel.
Result<CudaKernel> MakeTypedUnary(const UnarySpec& spec, const Kernel& cpu);
Result<CudaKernel> MakeTypedBinary(const BinarySpec& spec, const Kernel& cpu);

/// kUnimplemented if the function has no device code for epilogues.
Result<EpilogueArgs> EpilogueOf(std::string_view op, const Epilogue& epilogue);
/// An epilogue that does nothing.
EpilogueArgs NoEpilogue();

/// An axis of an output, and the operands' strides along it.
struct WalkAxis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;
};

/// The axes without those of size 1, with neighbours joined that all operands walk alike.
std::vector<WalkAxis> Joined(const std::vector<WalkAxis>& axes);

/// kInvalidArgument if more than kMaxAxes remain.
template <u32 kOperands>
Result<Axes<kOperands>> AxesOf(std::string_view op, const std::vector<WalkAxis>& walk);

/// The axes of dense operands that broadcast to `out`. `count`: receives the number of elements of
/// `out`.
template <u32 kOperands>
Result<Axes<kOperands>> BroadcastAxes(std::string_view op,
                                      const std::vector<std::vector<std::int64_t>>& operands,
                                      const std::vector<std::int64_t>& out, u32& count);

constexpr u32 DivideUp(u32 value, u32 by) { return (value + by - 1) / by; }

/// Lines of `axis` elements, `inner` lines side by side.
LineArgs LinesOf(std::size_t outer, std::size_t axis, std::size_t inner);
inline u32 LineGroups(const LineArgs& args) { return DivideUp(args.lines, args.columns); }

}  // namespace lagoon::cuda

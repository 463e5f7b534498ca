#pragma once

// What the factories share.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cuda/args.cuh"
#include "kernels/cuda/kernel.h"

namespace lagoon::cuda {

/// kUnimplemented: "`op` `what` has no CUDA body yet", and what to do.
tl::unexpected<Error> Unimplemented(std::string_view op, std::string_view what);

/// `body` on `args`, with the costs of the CPU's kernel `cpu`; its operands are still to be named.
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

/// `value` as 32 bits: CheckElements() has seen that it fits.
inline u32 U32(std::size_t value) { return static_cast<u32>(value); }

/// Tiles of `tile` elements; at least one.
inline u32 TilesOf(std::size_t count, u32 tile) { return U32((count + tile - 1) / tile); }

/// An elementwise body whose output is `y`; its inputs are still to be named.
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

/// What is not fp32 to fp32 of MakeCudaUnary() and MakeCudaBinary(); `cpu`: the CPU's kernel.
Result<CudaKernel> MakeTypedUnary(const UnarySpec& spec, const Kernel& cpu);
Result<CudaKernel> MakeTypedBinary(const BinarySpec& spec, const Kernel& cpu);

/// kUnimplemented when the function has no device code behind other ops.
Result<EpilogueArgs> EpilogueOf(std::string_view op, const Epilogue& epilogue);
/// One that does nothing.
EpilogueArgs NoEpilogue();

/// An axis of an output and how the operands walk along it.
struct WalkAxis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;
};

/// Without axes of size 1, and with neighbours that all operands walk alike joined.
std::vector<WalkAxis> Joined(const std::vector<WalkAxis>& axes);

/// kInvalidArgument when more than kMaxAxes are left.
template <u32 kOperands>
Result<Axes<kOperands>> AxesOf(std::string_view op, const std::vector<WalkAxis>& walk);

/// Of dense operands along the axes of `out`, which they broadcast to. `count`: elements of it.
template <u32 kOperands>
Result<Axes<kOperands>> BroadcastAxes(std::string_view op,
                                      const std::vector<std::vector<std::int64_t>>& operands,
                                      const std::vector<std::int64_t>& out, u32& count);

constexpr u32 DivideUp(u32 value, u32 by) { return (value + by - 1) / by; }

/// Lines of `axis` elements, `inner` side by side.
LineArgs LinesOf(std::size_t outer, std::size_t axis, std::size_t inner);
inline u32 LineGroups(const LineArgs& args) { return DivideUp(args.lines, args.columns); }

}  // namespace lagoon::cuda

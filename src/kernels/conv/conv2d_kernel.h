#pragma once

// Shared by the factories of conv2d's bodies.

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/checks.h"
#include "kernels/conv/conv2d.h"
#include "kernels/window.h"

namespace lagoon {

inline constexpr std::string_view kConvOp = "conv2d";

/// Most versions of a kernel. REEF 5.3 samples many versions; with more than this, the versions
/// differ too little to matter.
inline constexpr std::size_t kConvVersions = 24;

/// The part of a kernel that is the same for all bodies: cost and operands, whose fields have the
/// same names in all argument structs. The caller sets blocks and body.
template <typename Args>
Result<Kernel> KernelOf(const Conv2dSpec& spec, Args args) {
  LAGOON_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(kConvOp, spec.epilogue));
  args.low = limits.low;
  args.high = limits.high;
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kConvOp, spec.epilogue));
  Kernel kernel;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(Args, x), offsetof(Args, weights)};
  if (spec.bias) kernel.inputs.push_back(offsetof(Args, bias));
  if (spec.epilogue.residual && spec.epilogue.residual_last) {
    kernel.inputs.push_back(offsetof(Args, finish_residual));
  } else if (spec.epilogue.residual) {
    kernel.in_place = {static_cast<std::uint32_t>(kernel.inputs.size())};
    kernel.inputs.push_back(offsetof(Args, residual));
  }
  kernel.outputs = {offsetof(Args, y)};
  const double pixels = static_cast<double>(OutputPixels(spec.window));
  const double depth = static_cast<double>(WindowTaps(spec.window)) * spec.in_channels;
  const double input = static_cast<double>(InputPixels(spec.window)) * spec.in_channels;
  kernel.flops = 2 * pixels * spec.out_channels * depth;
  kernel.bytes_moved =
      sizeof(float) * (input + depth * spec.out_channels +
                       pixels * spec.out_channels * (spec.epilogue.residual ? 2 : 1));
  return kernel;
}

/// A kernel that starts as the first of `tilings` (at least one). With Conv2dSpec::all_versions it
/// has all of them as its versions. `name_of` gives a distinct name for the arguments of each.
template <typename Tiling, typename NameOf>
Result<Kernel> KernelOfVersions(const Conv2dSpec& spec, const std::vector<Tiling>& tilings,
                                NameOf&& name_of) {
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, KernelOf(spec, tilings.front().args));
  kernel.blocks = tilings.front().blocks;
  kernel.scratch_bytes = tilings.front().scratch_bytes;
  if (!spec.all_versions) return kernel;
  for (const Tiling& version : tilings) {
    LAGOON_ASSIGN_OR_RETURN(Kernel other, KernelOf(spec, version.args));
    kernel.versions.push_back(
        {name_of(version.args), std::move(other.args), version.blocks, version.scratch_bytes});
  }
  return kernel;
}

}  // namespace lagoon

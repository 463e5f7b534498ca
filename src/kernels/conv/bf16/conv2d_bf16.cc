#include "kernels/conv/bf16/conv2d_bf16.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/conv/bf16/conv2d_bf16_args.h"
#include "kernels/conv/conv2d_kernel.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxScratchBytes = std::size_t{64} << 20;

// "amx:7x2": the level of the unit, then the number of parts of the pixels and of the channels.
std::string VersionName(const Bf16ConvArgs& args) {
  return fmt::format("{}:{}x{}", NameOf(args.unit->level), args.pixel_tiles, args.panel_tiles);
}

}  // namespace

Result<Kernel> MakeBf16Conv2d(const Conv2dSpec& spec, const Bf16Unit& unit) {
  // A machine with a unit has AVX-512, whose bodies store panels of two vectors.
  LAGOON_CHECK(ChosenConvTarget().lanes == kBf16Vector);
  const std::vector<Bf16ConvTiling> tilings =
      TileBf16Conv2d(spec, unit, spec.all_versions ? kConvVersions : 1);
  const Bf16ConvTiling& tiling = tilings.front();
  if (tiling.scratch_bytes > kMaxScratchBytes) {
    return Invalid(kConvOp, "the input of one output pixel and its sums take " +
                                std::to_string(tiling.scratch_bytes) + " bytes, more than " +
                                std::to_string(kMaxScratchBytes));
  }
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, KernelOfVersions(spec, tilings, VersionName));
  kernel.name = unit.kernel_name;
  kernel.body = &Bf16Conv2dBody;
  return kernel;
}

}  // namespace lagoon

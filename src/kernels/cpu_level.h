#pragma once

// Instruction-set levels. The level of a process decides which bodies run in it. The environment
// variable LAGOON_CPU lowers the level, so that one machine can test and measure several.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// A level includes the instructions of the levels before it.
enum class CpuLevel : std::uint8_t {
  kPortable,    // what every CPU supports that this build is for
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // vector products of bf16
  kAmx,         // tile products of bf16, which the operating system must permit
};

/// "avx512bf16": a word of LAGOON_CPU.
const char* NameOf(CpuLevel level);

/// "portable, avx2, avx512".
std::string NamesOf(std::span<const CpuLevel> levels);

/// The levels that this machine supports and that this build has bodies for, the lowest first. Not
/// empty. Independent of LAGOON_CPU.
std::span<const CpuLevel> MachineCpuLevels();

/// The level that `word`, a value of LAGOON_CPU, names. An empty word selects the last of `levels`.
/// kInvalidArgument for an unknown word and for a level that is not in `levels`; the message lists
/// `levels`.
Result<CpuLevel> ParseCpuLevel(std::string_view word, std::span<const CpuLevel> levels);

/// The level of this process. The first call reads LAGOON_CPU and limits the bodies that
/// LAGOON_DISPATCH chooses among. A program calls this function first and reports its error. Any
/// thread.
const Result<CpuLevel>& ProcessCpuLevel();

/// As ProcessCpuLevel(), for code that runs after LAGOON_CPU was checked. On an error prints the
/// error and ends the process with status 1.
CpuLevel ActiveCpuLevel();

/// Whether this process multiplies bytes by instructions for it (VNNI, AMX-INT8), which machines
/// have beside their level.
struct ByteProducts {
  bool tiles = false;   // AMX-INT8
  bool avx512 = false;  // AVX512-VNNI
  bool avx = false;     // AVX-VNNI
};

/// None if LAGOON_CPU names a level below kAvx512Bf16.
ByteProducts ProcessByteProducts();

}  // namespace lagoon

/// The body of HWY_EXPORT's table for the level of this process. Use this macro instead of
/// Highway's own one, which ignores the level.
#define LAGOON_DISPATCH(function) \
  (static_cast<void>(::lagoon::ActiveCpuLevel()), HWY_DYNAMIC_DISPATCH(function))

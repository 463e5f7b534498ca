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
  kPortable,    // what every CPU has that this build is for
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // products of bf16 in vectors
  kAmx,         // products of bf16 in tiles, with the permission of the kernel to use them
};

/// "avx512bf16": a word of LAGOON_CPU.
const char* NameOf(CpuLevel level);

/// "portable, avx2, avx512".
std::string NamesOf(std::span<const CpuLevel> levels);

/// The levels that this machine has and that this build has bodies for, the lowest first. Not
/// empty. LAGOON_CPU does not change them.
std::span<const CpuLevel> MachineCpuLevels();

/// The level that `word`, a value of LAGOON_CPU, names. An empty word names the last of `levels`.
/// kInvalidArgument for an unknown word and for a level that is not among `levels`; the message
/// lists `levels`.
Result<CpuLevel> ParseCpuLevel(std::string_view word, std::span<const CpuLevel> levels);

/// The level of this process. The first call reads LAGOON_CPU and limits the bodies that
/// LAGOON_DISPATCH chooses among. A program makes this call first and reports the error. Any
/// thread.
const Result<CpuLevel>& ProcessCpuLevel();

/// As ProcessCpuLevel(), where LAGOON_CPU is known to be right. Else prints the error and ends the
/// process with status 1.
CpuLevel ActiveCpuLevel();

}  // namespace lagoon

/// The body of HWY_EXPORT's table for the level of this process. Highway's own macro does not know
/// the level, so use this one only.
#define LAGOON_DISPATCH(function) \
  (static_cast<void>(::lagoon::ActiveCpuLevel()), HWY_DYNAMIC_DISPATCH(function))

#pragma once

// The warp-wide matrix instructions, with the fragments of PTX ISA 9.7.14 (mma) and 9.7.14.5.15
// (ldmatrix). Products are exact, sums are rounded to fp32; the hardware's order and rounding of
// sums are not specified, so results are compared with a tolerance.

#include <cstdint>

#include "simt/thread.h"

namespace lagoon::simt {

/// Operands of one lane: d = a * b + c, where c comes in `d`.
struct MmaOperands {
  const std::uint32_t* a;
  const std::uint32_t* b;
  float* d;
};

/// m16n8k16, row.col. a: 4 words, b: 2 words, each a pair of 16-bit numbers; d: 4 floats.
void MmaBf16(const WarpCall& call);
void MmaF16(const WarpCall& call);
/// m16n8k8, row.col. a: 4 words, b: 2 words; the low 13 bits of each are ignored.
void MmaTf32(const WarpCall& call);

/// ldmatrix .x4: `in` of lane i is the address of row i % 8 of matrix i / 8; `out` 4 words.
void LoadMatrices(const WarpCall& call);
void LoadMatricesTransposed(const WarpCall& call);

float Bf16ToFloat(std::uint16_t bits);
float F16ToFloat(std::uint16_t bits);
/// To nearest, ties to even; NaN stays NaN.
std::uint16_t FloatToBf16(float value);
std::uint16_t FloatToF16(float value);

}  // namespace lagoon::simt

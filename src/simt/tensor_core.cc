#include "simt/tensor_core.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace lagoon::simt {
namespace {

constexpr unsigned kRows = 16, kColumns = 8;

const MmaOperands& OperandsOf(const WarpCall& call, unsigned lane) {
  return *static_cast<const MmaOperands*>(call.in[lane]);
}

/// d += a * b, d in the accumulator's fragments.
template <unsigned kDepth>
void Multiply(const WarpCall& call, const float (&a)[kRows][kDepth],
              const float (&b)[kDepth][kColumns]) {
  float sums[kRows][kColumns] = {};
  for (unsigned k = 0; k < kDepth; ++k) {
    for (unsigned row = 0; row < kRows; ++row) {
      for (unsigned column = 0; column < kColumns; ++column) {
        sums[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    float* d = OperandsOf(call, lane).d;
    for (unsigned i = 0; i < 4; ++i) d[i] += sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

template <float (*kToFloat)(std::uint16_t)>
void MultiplyHalves(const WarpCall& call) {
  float a[kRows][16], b[16][kColumns];
  LAGOON_CHECK(call.mask == ~0u);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const MmaOperands& in = OperandsOf(call, lane);
    const unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned i = 0; i < 8; ++i) {
      const auto bits = static_cast<std::uint16_t>(in.a[i / 2] >> i % 2 * 16);
      a[group + i / 2 % 2 * 8][pair + i % 2 + i / 4 * 8] = kToFloat(bits);
    }
    for (unsigned i = 0; i < 4; ++i) {
      const auto bits = static_cast<std::uint16_t>(in.b[i / 2] >> i % 2 * 16);
      b[pair + i % 2 + i / 2 * 8][group] = kToFloat(bits);
    }
  }
  Multiply(call, a, b);
}

float Tf32ToFloat(std::uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

const unsigned char* RowOf(const WarpCall& call, unsigned matrix, unsigned row) {
  return static_cast<const unsigned char*>(call.in[matrix * 8 + row]);
}

}  // namespace

void MmaBf16(const WarpCall& call) { MultiplyHalves<Bf16ToFloat>(call); }
void MmaF16(const WarpCall& call) { MultiplyHalves<F16ToFloat>(call); }

void MmaTf32(const WarpCall& call) {
  float a[kRows][8], b[8][kColumns];
  LAGOON_CHECK(call.mask == ~0u);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const MmaOperands& in = OperandsOf(call, lane);
    const unsigned group = lane / 4, k = lane % 4;
    for (unsigned i = 0; i < 4; ++i) a[group + i % 2 * 8][k + i / 2 * 4] = Tf32ToFloat(in.a[i]);
    for (unsigned i = 0; i < 2; ++i) b[k + i * 4][group] = Tf32ToFloat(in.b[i]);
  }
  Multiply(call, a, b);
}

void LoadMatrices(const WarpCall& call) {
  LAGOON_CHECK(call.mask == ~0u);
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto* out = static_cast<std::uint32_t*>(call.out[lane]);
    for (unsigned m = 0; m < 4; ++m)
      std::memcpy(&out[m], RowOf(call, m, lane / 4) + lane % 4 * 4, 4);
  }
}

void LoadMatricesTransposed(const WarpCall& call) {
  LAGOON_CHECK(call.mask == ~0u);
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto* out = static_cast<std::uint32_t*>(call.out[lane]);
    for (unsigned m = 0; m < 4; ++m) {
      std::uint16_t pair[2];
      for (unsigned i = 0; i < 2; ++i) {
        std::memcpy(&pair[i], RowOf(call, m, lane % 4 * 2 + i) + lane / 4 * 2, 2);
      }
      out[m] = pair[0] | std::uint32_t{pair[1]} << 16;
    }
  }
}

float Bf16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t FloatToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float F16ToFloat(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? small : -small;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t FloatToF16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  std::uint32_t result;
  if (magnitude > 0x7f800000) {
    result = 0x7e00;
  } else if (magnitude >= 0x477ff000) {  // 65520: from here on it is infinite
    result = 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: in units of 2^-24, rounded as the mode says
    result = static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f));
  } else {
    result = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace lagoon::simt

// Products with weights of a few bits, compared with plain loops, on every unit.

#include "kernels/nbits/nbits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/nbits/nbits_args.h"
#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::Floats;

/// A product with its operands.
class NbitsProblem {
 public:
  NbitsProblem(const NbitsSpec& s, std::uint32_t seed)
      : spec(s), blocks(CeilDivide(s.depth, s.block)) {
    std::minstd_rand random(seed);
    levels.resize(s.columns * blocks * s.block * s.bits / 8);
    for (std::byte& byte : levels) byte = static_cast<std::byte>(random() >> 8);
    for (std::size_t i = 0; i < s.columns * blocks; ++i) {
      const float scale = 0.01F * static_cast<float>(1 + random() % 97);
      scales.push_back(s.half_scales ? static_cast<float>(Float16::From(scale)) : scale);
    }
    if (s.zeros) {
      zeros.resize(s.columns * ((blocks * s.bits + 7) / 8));
      for (std::byte& byte : zeros) byte = static_cast<std::byte>(random() >> 8);
    }
    x = testing::RandomFloats(s.rows * s.depth, -2, 2, seed);
    if (s.bias) bias = testing::RandomFloats(s.columns, -9, 9, seed + 1);
  }

  /// Level minus zero point, by their definition.
  int Centered(std::size_t p, std::size_t column) const {
    const auto at = [&](const Bytes& from, std::size_t bit) {
      return std::to_integer<int>(from[bit / 8]) >> bit % 8 & ((1 << spec.bits) - 1);
    };
    const std::size_t b = p / spec.block, row_bytes = (blocks * spec.bits + 7) / 8;
    const int zero =
        spec.zeros ? at(zeros, column * row_bytes * 8 + b * spec.bits) : 1 << (spec.bits - 1);
    return at(levels, ((column * blocks + b) * spec.block + p % spec.block) * spec.bits) - zero;
  }

  /// With x in whole blocks of bytes, operation by operation as the contract says.
  float OfBytes(std::size_t row, std::size_t column) const {
    float sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t end = std::min(spec.depth, (b + 1) * spec.block);
      float most = 0;
      bool finite = true;
      for (std::size_t p = b * spec.block; p < end; ++p) {
        most = std::max(most, std::abs(X(row, p)));
        finite = finite && std::isfinite(X(row, p));
      }
      if (!finite) return std::numeric_limits<float>::quiet_NaN();
      int products = 0;
      for (std::size_t p = b * spec.block; p < end && most > 0; ++p) {
        products +=
            static_cast<int>(std::nearbyint(X(row, p) * (127 / most))) * Centered(p, column);
      }
      sum = std::fma(static_cast<float>(products), scales[column * blocks + b] * (most / 127), sum);
    }
    return spec.bias ? sum + bias[column] : sum;
  }

  struct Exact {
    double sum = 0, magnitude = 0;
  };
  Exact OfFloats(std::size_t row, std::size_t column) const {
    Exact exact;
    for (std::size_t p = 0; p < spec.depth; ++p) {
      const double product = double{X(row, p)} * Centered(p, column) *
                             double{scales[column * blocks + p / spec.block]};
      exact.sum += product;
      exact.magnitude += std::abs(product);
    }
    if (spec.bias) exact.sum += bias[column];
    return exact;
  }

  Floats Run(const NbitsUnit& unit, bool check_tiles = true) const {
    Bytes packed(PackedNbitsBytes(spec));
    PackNbits(spec, {levels, scales, zeros}, packed.data());
    Bytes form = testing::ToBytes(x);
    if (NeedsNbitsX(spec)) {
      testing::TypedRun run(*MakeNbitsX(spec, unit), {form}, {NbitsXBytes(spec)});
      if (check_tiles) run.ExpectTiles();
      form = run.Run()[0];
    }
    std::vector<Bytes> inputs{form, packed};
    if (spec.bias) inputs.push_back(testing::ToBytes(bias));
    testing::TypedRun run(*MakeNbits(spec, unit), inputs,
                          {spec.rows * spec.columns * sizeof(float)});
    if (check_tiles) run.ExpectTiles();
    return testing::FromBytes<float>(run.Run()[0]);
  }

  void Check(const NbitsUnit& unit) const {
    SCOPED_TRACE(::testing::Message()
                 << unit.name << ", " << spec.rows << " x " << spec.depth << " x " << spec.columns
                 << ", " << spec.bits << " bits in " << spec.block << ", bytes " << spec.bytes
                 << ", zeros " << spec.zeros << ", half " << spec.half_scales);
    const Floats y = Run(unit);
    for (std::size_t at = 0; at < y.size(); ++at) {
      const std::size_t row = at / spec.columns, column = at % spec.columns;
      if (spec.bytes) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(y[at]),
                  std::bit_cast<std::uint32_t>(OfBytes(row, column)))
            << "row " << row << ", column " << column;
      }
      const Exact exact = OfFloats(row, column);
      ASSERT_NEAR(y[at], exact.sum, (spec.bytes ? 0.02 : 2e-6) * exact.magnitude + 1e-6)
          << "row " << row << ", column " << column;
    }
  }

  NbitsSpec spec;
  std::size_t blocks;
  Bytes levels, zeros;
  Floats scales, x, bias;

 private:
  float X(std::size_t row, std::size_t p) const { return x[row * spec.depth + p]; }
};

NbitsSpec RandomSpec(std::minstd_rand& random) {
  const auto up_to = [&random](std::size_t most) { return 1 + (random() >> 8) % most; };
  NbitsSpec spec;
  spec.rows = random() % 2 == 0 ? 1 : up_to(30);
  spec.depth = up_to(400);
  spec.columns = up_to(70);
  spec.bits = std::size_t{2} << random() % 3;
  spec.block = 16 * up_to(random() % 2 == 0 ? 2 : 16);
  spec.bytes = random() % 2 == 0;
  spec.half_scales = random() % 2 == 0;
  spec.zeros = random() % 2 == 0;
  spec.bias = random() % 2 == 0;
  return spec;
}

TEST(Nbits, RandomShapesOnEveryUnit) {
  std::minstd_rand random(3);
  for (std::uint32_t i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const NbitsProblem problem(RandomSpec(random), i + 1);
    for (const NbitsUnit* unit : NbitsUnits()) {
      ASSERT_NO_FATAL_FAILURE(problem.Check(*unit));
    }
  }
}

TEST(Nbits, ManyBlocksAndDepthsBeyondAGuardCheck) {
  for (const bool bytes : {false, true}) {
    for (const NbitsSpec& spec : {NbitsSpec{.rows = 1, .depth = 33 * 32, .columns = 3000},
                                  NbitsSpec{.rows = 1, .depth = 40'000, .columns = 17},
                                  NbitsSpec{.rows = 61, .depth = 1030, .columns = 210}}) {
      NbitsSpec with = spec;
      with.bytes = bytes;
      ASSERT_NO_FATAL_FAILURE(NbitsProblem(with, 5).Check(*NbitsUnits().front()));
    }
  }
}

TEST(Nbits, TheLargestLevelsAndBytesDoNotSaturate) {
  for (const std::size_t bits : {2, 4, 8}) {
    NbitsProblem problem({.rows = 2,
                          .depth = 512,
                          .columns = 16,
                          .bits = bits,
                          .block = 256,
                          .bytes = true,
                          .zeros = true},
                         1);
    std::ranges::fill(problem.levels, std::byte{0xff});
    std::ranges::fill(problem.zeros, std::byte{0});
    std::ranges::fill(problem.x, 1.0F);
    for (const NbitsUnit* unit : NbitsUnits()) problem.Check(*unit);
  }
}

TEST(Nbits, BlocksOfNothingAndOfWhatIsNoNumber) {
  NbitsProblem problem({.rows = 4, .depth = 64, .columns = 3, .bytes = true, .zeros = true}, 1);
  std::fill_n(problem.x.begin(), 40, 0.0F);
  std::fill_n(problem.x.begin() + 64, 32, 1e-42F);
  problem.x[2 * 64 + 5] = std::numeric_limits<float>::infinity();
  problem.x[3 * 64 + 60] = std::numeric_limits<float>::quiet_NaN();
  const Floats expected = problem.Run(*NbitsUnits().back());
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(expected[i]), i >= 6) << i;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(expected[1]),
            std::bit_cast<std::uint32_t>(problem.OfBytes(0, 1)));
  for (const NbitsUnit* unit : NbitsUnits()) {
    const Floats y = problem.Run(*unit);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(y[i], expected[i]) << unit->name << " " << i;
    for (std::size_t i = 6; i < 12; ++i) EXPECT_TRUE(std::isnan(y[i])) << unit->name << " " << i;
  }
}

TEST(Nbits, DecodedWeightsAreThoseOfTheDefinition) {
  const NbitsProblem problem({.depth = 70, .columns = 5, .bits = 2, .block = 32, .zeros = true}, 9);
  Floats decoded(70 * 5);
  DecodeNbits(problem.spec, {problem.levels, problem.scales, problem.zeros}, decoded.data());
  for (std::size_t p = 0; p < 70; ++p) {
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(decoded[p * 5 + j],
                static_cast<float>(problem.Centered(p, j)) * problem.scales[j * 3 + p / 32]);
    }
  }
}

TEST(Nbits, RefusesBadSizesByName) {
  testing::ExpectInvalid(MakeNbits({.rows = 0}), {"nbits", "rows is 0"});
  testing::ExpectInvalid(MakeNbitsX({.bits = 3}), {"nbits", "3 bits"});
  testing::ExpectInvalid(MakeNbits({.block = 512}), {"nbits", "blocks of 512"});
  testing::ExpectInvalid(MakeNbits({.block = 24}), {"nbits", "blocks of 24"});
  testing::ExpectInvalid(
      MakeNbits({.depth = std::size_t{1} << 20, .columns = std::size_t{1} << 20}),
      {"nbits", "the weights"});
}

}  // namespace
}  // namespace lagoon

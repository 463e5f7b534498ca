#include "kernels/lines/softmax.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>

#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

Doubles Reference(const SoftmaxSpec& s, const Floats& x) {
  Doubles y(x.size());
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (std::size_t i = 0; i < s.inner; ++i) {
      const auto at = [&](std::size_t a) { return (o * s.axis + a) * s.inner + i; };
      double max = x[at(0)], sum = 0;
      for (std::size_t a = 0; a < s.axis; ++a) max = std::max<double>(max, x[at(a)]);
      for (std::size_t a = 0; a < s.axis; ++a) sum += std::exp(x[at(a)] - max);
      for (std::size_t a = 0; a < s.axis; ++a) {
        y[at(a)] = s.log ? x[at(a)] - max - std::log(sum) : std::exp(x[at(a)] - max) / sum;
      }
    }
  }
  return y;
}

void Check(SoftmaxSpec s, float range = 5) {
  for (const bool log : {false, true}) {
    SCOPED_TRACE(::testing::Message()
                 << s.outer << "x" << s.axis << "x" << s.inner << " log " << log);
    s.log = log;
    const Floats x = testing::RandomFloats(s.outer * s.axis * s.inner, -range, range);
    // Sums have up to 10^5 terms. Probabilities are at most 1, logarithms of magnitude below 100.
    testing::ExpectKernel([&] { return MakeSoftmax(s); }, {x}, Reference(s, x), 2e-6);
  }
}

TEST(Softmax, RowsOfAnyLength) {
  for (const std::size_t axis : {1u, 2u, 10u, 16u, 17u, 63u, 1000u})
    Check({.outer = 3, .axis = axis, .inner = 1});
  Check({.outer = 700, .axis = 100, .inner = 1});
}

TEST(Softmax, ColumnsOfAnyWidth) {
  for (const std::size_t inner : {2u, 7u, 8u, 16u, 19u, 40u})
    Check({.outer = 2, .axis = 21, .inner = inner});
  Check({.outer = 1, .axis = 21, .inner = 4096});
}

TEST(Softmax, LargeInputsDoNotOverflow) { Check({.outer = 2, .axis = 50, .inner = 3}, 5000); }

// A mask. Some CPUs take fifty times as long to make a number below the normal ones.
TEST(Softmax, MakesNoNumbersBelowTheNormalOnes) {
  Floats x(100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::array{0.F, -100.F, -1e4F, -3e38F}[i % 4];
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget use(target);
    testing::BoundKernel bound(*MakeSoftmax({.outer = 2, .axis = 50, .inner = 1}), {x}, x.size());
    std::feclearexcept(FE_ALL_EXCEPT);
    bound.RunAll();
    EXPECT_EQ(std::fetestexcept(FE_UNDERFLOW), 0);
    EXPECT_NEAR(bound.y()[0], 1.0 / 13, 1e-6);
    EXPECT_EQ(bound.y()[1], 0);
  }
}

// exp(-95) is below the normal numbers, and products with such numbers are slow.
TEST(Softmax, NothingIsBelowTheNormalNumbers) {
  for (const SoftmaxSpec& spec : {SoftmaxSpec{.outer = 1, .axis = 40, .inner = 1},
                                  SoftmaxSpec{.outer = 1, .axis = 2, .inner = 20}}) {
    Floats x(40);
    for (std::size_t i = 20; i < 40; ++i) x[i] = -80 - static_cast<float>(i) / 2;
    for (const std::int64_t target : testing::Targets()) {
      const testing::ScopedTarget use(target);
      testing::BoundKernel bound(*MakeSoftmax(spec), {x}, x.size());
      bound.RunAll();
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_NE(std::fpclassify(bound.y()[i]), FP_SUBNORMAL) << x[i];
      }
    }
  }
}

TEST(Softmax, LongLinesAreCutAlongTheAxis) {
  for (const std::size_t inner : {1u, 3u}) {
    const SoftmaxSpec s{.outer = 2, .axis = 30'000, .inner = inner};
    Check(s);
    EXPECT_GE(MakeSoftmax(s)->blocks, 4u);
  }
}

TEST(Softmax, RefusesEmptyShapes) {
  testing::ExpectInvalid(MakeSoftmax({.outer = 1, .axis = 0, .inner = 1}),
                         {"softmax", "axis", "0"});
  testing::ExpectInvalid(MakeSoftmax({.outer = 1 << 20, .axis = 1 << 20, .inner = 1}),
                         {"softmax", "1048576"});
}

}  // namespace
}  // namespace lagoon

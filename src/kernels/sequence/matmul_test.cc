#include "kernels/sequence/matmul.h"

#include <algorithm>
#include <array>
#include <random>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

/// Dense operands; `flip_a` and `flip_b` store them transposed.
struct Shape {
  std::size_t batch = 1, m = 1, k = 1, n = 1;
  bool flip_a = false, flip_b = false, share_b = false;
};

MatmulSpec SpecOf(const Shape& s) {
  MatmulSpec spec;
  spec.batch = {static_cast<std::int64_t>(s.batch)};
  spec.a_batch_strides = {static_cast<std::int64_t>(s.m * s.k)};
  spec.b_batch_strides = {s.share_b ? 0 : static_cast<std::int64_t>(s.k * s.n)};
  spec.m = s.m;
  spec.k = s.k;
  spec.n = s.n;
  spec.a_row_stride = s.flip_a ? 1 : s.k;
  spec.a_k_stride = s.flip_a ? s.m : 1;
  spec.b_k_stride = s.flip_b ? 1 : s.n;
  spec.b_column_stride = s.flip_b ? s.k : 1;
  return spec;
}

void Check(const Shape& s, float alpha = 1) {
  SCOPED_TRACE(::testing::Message() << s.batch << "x[" << s.m << "," << s.k << "," << s.n << "] "
                                    << s.flip_a << s.flip_b << s.share_b);
  MatmulSpec spec = SpecOf(s);
  spec.alpha = alpha;
  const Floats a = testing::RandomFloats(s.batch * s.m * s.k);
  const Floats b = testing::RandomFloats((s.share_b ? 1 : s.batch) * s.k * s.n, -1, 1, 2);
  Doubles reference;
  for (std::size_t batch = 0; batch < s.batch; ++batch) {
    const float* const x = a.data() + batch * s.m * s.k;
    const float* const w = b.data() + (s.share_b ? 0 : batch * s.k * s.n);
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::size_t p = 0; p < s.k; ++p) {
          sum += double{x[i * spec.a_row_stride + p * spec.a_k_stride]} *
                 w[p * spec.b_k_stride + j * spec.b_column_stride];
        }
        reference.push_back(alpha * sum);
      }
    }
  }
  testing::ExpectKernel([&] { return MakeMatmul(spec); }, {a, b}, reference, 1e-5);
}

TEST(Matmul, AnySize) {
  for (const std::size_t m : {1u, 5u, 13u, 48u, 61u}) {
    for (const std::size_t n : {1u, 16u, 33u, 100u}) Check({.m = m, .k = 37, .n = n});
  }
  Check({.m = 7, .k = 1, .n = 9});
  Check({.m = 50, .k = 600, .n = 70});
}

TEST(Matmul, AnyOrderOfTheOperands) {
  for (const bool flip_a : {false, true}) {
    for (const bool flip_b : {false, true}) {
      Check({.m = 50, .k = 300, .n = 70, .flip_a = flip_a, .flip_b = flip_b});
      Check({.m = 1, .k = 64, .n = 128, .flip_a = flip_a, .flip_b = flip_b});
    }
  }
}

TEST(Matmul, BatchesOfAttention) {
  Check({.batch = 12, .m = 128, .k = 64, .n = 128, .flip_b = true}, 0.125f);
  Check({.batch = 12, .m = 128, .k = 128, .n = 64});
  Check({.batch = 3, .m = 20, .k = 30, .n = 40, .share_b = true});
}

TEST(Matmul, OtherTypes) {
  MatmulSpec spec = SpecOf({.batch = 1, .m = 2, .k = 3, .n = 2});
  spec.type = DataType::kInt32;
  using Ints = std::vector<std::int32_t>;
  testing::ExpectTyped(
      MakeMatmul(spec),
      {testing::ToBytes(Ints{1, -2, 3, 4, 5, -6}), testing::ToBytes(Ints{7, 8, 9, -1, 2, 3})},
      Ints{-5, 19, 61, 9});
  spec.type = DataType::kInt8;
  EXPECT_FALSE(MakeMatmul(spec));
}

TEST(Matmul, DifferencesOfBytesAreExactOnEveryTarget) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> differences(-255, 255);
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    for (const auto& [m, k, n] : {std::array<std::size_t, 3>{1, 1, 1},
                                  {1, 700, 37},
                                  {5, 33, 64},
                                  {7, 2, 16},
                                  {3, 5, 23},
                                  {50, 257, 33},
                                  {49, 512, 130}}) {
      MatmulSpec spec = SpecOf({.batch = 2, .m = m, .k = k, .n = n});
      spec.type = DataType::kInt16;
      std::vector<std::int16_t> a(2 * m * k), b(2 * k * n);
      for (std::int16_t& value : a) value = static_cast<std::int16_t>(differences(random));
      for (std::int16_t& value : b) value = static_cast<std::int16_t>(differences(random));
      // The greatest sum of a pair.
      std::fill(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(k), std::int16_t{-255});
      std::fill(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(k * n), std::int16_t{-255});
      std::vector<std::int32_t> expected;
      for (std::size_t row = 0; row < 2 * m; ++row) {
        for (std::size_t j = 0; j < n; ++j) {
          std::int32_t sum = 0;
          for (std::size_t p = 0; p < k; ++p) sum += a[row * k + p] * b[(row / m * k + p) * n + j];
          expected.push_back(sum);
        }
      }
      testing::TypedRun run(*MakeMatmul(spec), {testing::ToBytes(a), testing::ToBytes(b)},
                            {expected.size() * sizeof(std::int32_t)});
      run.ExpectTiles();
      EXPECT_EQ(testing::FromBytes<std::int32_t>(run.Run()[0]), expected)
          << m << " " << k << " " << n;
    }
  }
}

TEST(Matmul, RefusesDifferencesOfBytesInOtherOrders) {
  MatmulSpec spec = SpecOf({.m = 2, .k = 3, .n = 2, .flip_b = true});
  spec.type = DataType::kInt16;
  testing::ExpectInvalid(MakeMatmul(spec), {"matmul", "b_column_stride 3", "INT16"});
}

TEST(Matmul, RefusesBadSizesByName) {
  testing::ExpectInvalid(MakeMatmul(SpecOf({.m = 0, .k = 3, .n = 2})), {"matmul", "rows is 0"});
}

}  // namespace
}  // namespace lagoon

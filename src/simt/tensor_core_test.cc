#include "simt/tensor_core.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "simt/cuda.h"

namespace lagoon::simt {
namespace {

void RunWarp(std::function<void()> kernel, std::size_t shared_bytes = 0) {
  Emulator emulator;
  const Status status = emulator.Run({.name = "kernel",
                                      .grid = {1},
                                      .block = {32},
                                      .shared_bytes = shared_bytes,
                                      .kernel = std::move(kernel)});
  ASSERT_TRUE(status) << status.error().message;
}

/// One product of small integers, which both types hold exactly: a [16][depth], b [depth][8].
void ExpectProduct(WarpOp op, unsigned depth, std::uint32_t (*pack)(float, float)) {
  const auto a = [](unsigned row, unsigned k) { return static_cast<float>(row * 3 % 7 + k); };
  const auto b = [](unsigned k, unsigned n) {
    return static_cast<float>(n * 5 % 11) - static_cast<float>(k);
  };
  std::vector<float> y(16 * 8);
  RunWarp([&] {
    const unsigned group = threadIdx.x / 4, lane = threadIdx.x % 4;
    std::uint32_t fa[4], fb[2];
    const unsigned per_word = depth / 8, half = depth / 2;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = group + i % 2 * 8, k = lane * per_word + i / 2 * half;
      fa[i] = pack(a(row, k), a(row, k + 1));
    }
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned k = lane * per_word + i * half;
      fb[i] = pack(b(k, group), b(k + 1, group));
    }
    float d[4] = {1, 1, 1, 1};
    const MmaOperands in{fa, fb, d};
    CallWarp(op, ~0u, &in, nullptr, {});
    for (unsigned i = 0; i < 4; ++i) y[(group + i / 2 * 8) * 8 + lane * 2 + i % 2] = d[i];
  });
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned n = 0; n < 8; ++n) {
      float want = 1;
      for (unsigned k = 0; k < depth; ++k) want += a(row, k) * b(k, n);
      EXPECT_EQ(y[row * 8 + n], want) << row << "," << n;
    }
  }
}

TEST(TensorCore, MultipliesBf16) {
  ExpectProduct(MmaBf16, 16, [](float low, float high) {
    return FloatToBf16(low) | std::uint32_t{FloatToBf16(high)} << 16;
  });
}
TEST(TensorCore, MultipliesF16) {
  ExpectProduct(MmaF16, 16, [](float low, float high) {
    return FloatToF16(low) | std::uint32_t{FloatToF16(high)} << 16;
  });
}
TEST(TensorCore, MultipliesTf32IgnoringTheLowBits) {
  ExpectProduct(MmaTf32, 8,
                [](float low, float) { return std::bit_cast<std::uint32_t>(low) | 0x1fff; });
}

TEST(TensorCore, LoadsMatricesAsTheFragmentsOfMma) {
  RunWarp(
      [] {
        auto* shared = reinterpret_cast<std::uint16_t*>(DynamicShared());
        for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = static_cast<std::uint16_t>(i);
        __syncthreads();
        std::uint32_t plain[4], transposed[4];
        CallWarp(LoadMatrices, ~0u, shared + threadIdx.x * 8, plain, {});
        CallWarp(LoadMatricesTransposed, ~0u, shared + threadIdx.x * 8, transposed, {});
        const unsigned group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
        for (unsigned m = 0; m < 4; ++m) {
          const unsigned first = m * 64 + group * 8 + pair;
          EXPECT_EQ(plain[m], first | (first + 1) << 16);
          const unsigned below = m * 64 + pair * 8 + group;
          EXPECT_EQ(transposed[m], below | (below + 8) << 16);
        }
      },
      512);
}

TEST(TensorCore, HalvesOfEveryBitPatternSurvive) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(F16ToFloat(half))) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(F16ToFloat(half)))));
    } else {
      EXPECT_EQ(FloatToF16(F16ToFloat(half)), half);
    }
    if (!std::isnan(Bf16ToFloat(half))) {
      EXPECT_EQ(FloatToBf16(Bf16ToFloat(half)), half);
    }
  }
}

TEST(TensorCore, ConversionsRoundToNearestEven) {
  EXPECT_EQ(FloatToF16(1 + 0x1p-11f), 0x3c00);      // a tie, to even
  EXPECT_EQ(FloatToF16(1 + 3 * 0x1p-11f), 0x3c02);  // a tie, to even
  EXPECT_EQ(FloatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToF16(-0x1p-25f), 0x8000);
  EXPECT_EQ(FloatToBf16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBf16(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(AsyncCopy, ArrivesAtTheWaitAndPoisonsBefore) {
  const std::uint32_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  RunWarp(
      [&] {
        if (threadIdx.x != 0) return;
        auto* shared = reinterpret_cast<std::uint32_t*>(DynamicShared());
        std::memset(shared, 0, 48);
        CopyAsync(shared, source, 16, 16);
        CommitCopies();
        CopyAsync(shared + 4, source + 4, 8, 16);
        CommitCopies();
        CopyAsync(shared + 8, source, 0, 16);
        EXPECT_EQ(shared[0], ~0u);
        WaitCopies(1);
        EXPECT_EQ(shared[3], 4u);
        EXPECT_EQ(shared[4], ~0u);
        WaitCopies(0);
        EXPECT_EQ(shared[5], 6u);
        EXPECT_EQ(shared[6], 0u);
        EXPECT_EQ(shared[8], ~0u);  // not committed
        WaitAllCopies();
        EXPECT_EQ(shared[8], 0u);
      },
      48);
}

TEST(WarpCalls, ShuffleAndVote) {
  RunWarp([] {
    const unsigned lane = threadIdx.x;
    EXPECT_EQ(__shfl_xor_sync(~0u, lane, 5), lane ^ 5);
    EXPECT_EQ(__shfl_sync(~0u, lane * 1.5, 7), 10.5);
    EXPECT_EQ(__shfl_up_sync(~0u, lane, 3), lane < 3 ? lane : lane - 3);
    EXPECT_EQ(__shfl_down_sync(~0u, lane, 3), lane > 28 ? lane : lane + 3);
    EXPECT_EQ(__ballot_sync(~0u, lane % 2 == 0), 0x55555555u);
    EXPECT_EQ(__any_sync(~0u, lane == 9), 1);
    EXPECT_EQ(__all_sync(~0u, lane != 9), 0);
    if (lane < 16) {
      EXPECT_EQ(__ballot_sync(0xffff, lane == 3), 8u);
    }
    __syncwarp();
  });
}

}  // namespace
}  // namespace lagoon::simt

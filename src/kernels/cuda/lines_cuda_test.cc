#include <limits>

#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::RandomFloats;
using testing::Bytes;
using testing::BytesOf;
using testing::ExpectLikeCpu;

void CheckSoftmax(SoftmaxSpec spec) {
  const std::size_t count = spec.outer * spec.axis * spec.inner;
  for (const bool log : {false, true}) {
    SCOPED_TRACE(::testing::Message() << spec.outer << "x" << spec.axis << "x" << spec.inner);
    spec.log = log;
    ExpectLikeCpu(MakeCudaSoftmax(spec), MakeSoftmax(spec), {BytesOf(RandomFloats(count, -5, 5))},
                  {count * 4}, 4e-6);
  }
}

TEST(CudaSoftmax, LinesOfAnyShape) {
  CheckSoftmax({.outer = 1, .axis = 1});
  CheckSoftmax({.outer = 70, .axis = 10});
  CheckSoftmax({.outer = 3, .axis = 1000});
  CheckSoftmax({.outer = 2, .axis = 21, .inner = 19});
  CheckSoftmax({.outer = 1, .axis = 21, .inner = 100});
}

TEST(CudaSoftmax, LongLinesAreCutIntoPieces) {
  const SoftmaxSpec spec{.outer = 2, .axis = 40'000};
  EXPECT_GE(MakeCudaSoftmax(spec)->blocks, 6u);
  CheckSoftmax(spec);
}

TEST(CudaNormalize, RowsOfAnyLengthWithAndWithoutParameters) {
  for (const std::size_t row : {1u, 6u, 768u, 10'000u}) {
    for (const bool affine : {false, true}) {
      for (const bool center : {false, true}) {
        const NormalizeSpec spec{
            .rows = 5, .row = row, .scale = affine, .bias = affine && center, .center = center};
        std::vector<Bytes> inputs = {BytesOf(RandomFloats(5 * row, -1, 3))};
        if (affine) inputs.push_back(BytesOf(RandomFloats(row, -1, 1, 2)));
        if (affine && center) inputs.push_back(BytesOf(RandomFloats(row, -1, 1, 3)));
        ExpectLikeCpu(MakeCudaNormalize(spec), MakeNormalize(spec), inputs, {5 * row * 4}, 2e-5);
      }
    }
  }
}

TEST(CudaNormalize, ParametersPerChannel) {
  const NormalizeSpec spec{.rows = 6, .row = 40, .period = 3, .inner = 10};
  ExpectLikeCpu(MakeCudaNormalize(spec), MakeNormalize(spec),
                {BytesOf(RandomFloats(240)), BytesOf(RandomFloats(12, -1, 1, 2)),
                 BytesOf(RandomFloats(12, -1, 1, 3))},
                {240 * 4}, 1e-5);
}

TEST(CudaReduce, EveryOpAlongAnyAxis) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
    for (const auto& [outer, axis, inner] :
         {std::tuple{2u, 49u, 100u}, {5u, 3000u, 1u}, {1u, 20'000u, 3u}, {40u, 7u, 1u}}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(op) << " " << axis);
      const ReduceSpec spec{.op = op, .outer = outer, .axis = axis, .inner = inner};
      ExpectLikeCpu(MakeCudaReduce(spec), MakeReduce(spec),
                    {BytesOf(RandomFloats(outer * axis * inner))}, {outer * inner * 4}, 1e-4);
    }
  }
}

TEST(CudaReduce, NanGoesThroughMaximumAndMinimum) {
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    for (const std::size_t at : {0u, 1500u, 2999u}) {
      std::vector<float> x = RandomFloats(2 * 3000);
      x[at] = std::numeric_limits<float>::quiet_NaN();
      const ReduceSpec spec{.op = op, .outer = 2, .axis = 3000};
      ExpectLikeCpu(MakeCudaReduce(spec), MakeReduce(spec), {BytesOf(x)}, {8}, 1e-4);
    }
  }
}

TEST(CudaPool, EveryKindWithPaddingAndDilation) {
  for (const auto kind :
       {PoolSpec::Kind::kMax, PoolSpec::Kind::kAverage, PoolSpec::Kind::kAverageCountPadding}) {
    const PoolSpec spec{.kind = kind,
                        .window = {.batch = 2,
                                   .height = 11,
                                   .width = 9,
                                   .out_height = 5,
                                   .out_width = 5,
                                   .kernel_h = 3,
                                   .kernel_w = 2,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .pad_top = 1,
                                   .pad_left = 1},
                        .channels = 20,
                        .pad_bottom = 1,
                        .pad_right = 1};
    const std::size_t in = 2 * 11 * 9 * 20, out = 2 * 5 * 5 * 20;
    ExpectLikeCpu(MakeCudaPool(spec), MakePool(spec), {BytesOf(RandomFloats(in))}, {out * 4}, 1e-6);
  }
}

TEST(CudaPool, LongWindowsLookAtTheirGuards) {
  const PoolSpec spec{.kind = PoolSpec::Kind::kAverage,
                      .window = {.height = 40, .width = 30, .kernel_h = 40, .kernel_w = 30},
                      .channels = 5};
  const auto made = MakeCudaPool(spec);
  ASSERT_TRUE(made);
  testing::BoundBody bound(*made, {BytesOf(RandomFloats(6000))}, {20});
  ASSERT_EQ(bound.Run(bound.AllTiles(), {}).size(), 1u);
  EXPECT_GE(bound.barriers(), 1200u / 64);
  ExpectLikeCpu(made, MakePool(spec), {BytesOf(RandomFloats(6000))}, {20}, 1e-5);
}

TEST(CudaDepthwise, PaddingStrideBiasAndEpilogue) {
  const DepthwiseSpec spec{.window = {.batch = 2,
                                      .height = 9,
                                      .width = 10,
                                      .out_height = 5,
                                      .out_width = 5,
                                      .kernel_h = 3,
                                      .kernel_w = 3,
                                      .stride_h = 2,
                                      .stride_w = 2,
                                      .pad_top = 1,
                                      .pad_left = 1},
                           .channels = 30,
                           .bias = true,
                           .epilogue = {.activation = Activation::kClip, .low = -0.5f, .high = 1}};
  const std::vector<float> weights = RandomFloats(30 * 9, -1, 1, 2);
  Bytes packed(PackedDepthwiseWeightBytes(spec));
  PackDepthwiseWeights(spec, weights.data(), packed.data());
  ExpectLikeCpu(
      MakeCudaDepthwise(spec), MakeDepthwise(spec),
      {BytesOf(RandomFloats(2 * 9 * 10 * 30)), packed, BytesOf(RandomFloats(30, -1, 1, 3))},
      {2 * 5 * 5 * 30 * 4}, 1e-5);
}

}  // namespace
}  // namespace lagoon::cuda

#include <gtest/gtest.h>

#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::Floats;
using lagoon::testing::RandomFloats;
using testing::Bytes;
using testing::BytesOf;
using testing::ExpectLikeCpu;

TEST(CudaConcat, PartsOfDifferentLengthsAndEveryElementSize) {
  for (const std::size_t bytes : {1u, 2u, 4u, 8u}) {
    const std::vector<std::size_t> axes = {3, 1, 7};
    std::vector<Bytes> inputs;
    for (const std::size_t axis : axes) {
      Bytes& x = inputs.emplace_back(60 * axis * 9 * bytes);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::byte>(i * 31 + axis);
    }
    ExpectLikeCpu(MakeCudaConcat(60, axes, 9, bytes), MakeConcat(60, axes, 9, bytes), inputs,
                  {60 * 11 * 9 * bytes}, 0);
  }
}

TEST(CudaTake, PadsMirrorsAndRepeats) {
  const TakeSpec spec{.dims = {4, 30, 11},
                      .maps = {{3, 2, -1, 0, 0}, {29, -1, 0, 5, 5, 6, 28}, {-1, 0, 1, 10, 9}},
                      .fill = 0x3f800000};
  const Bytes x = BytesOf(RandomFloats(4 * 30 * 11));
  const auto made = MakeCudaTake(spec);
  const auto cpu = MakeTake(spec);
  ASSERT_TRUE(made && cpu);
  ExpectLikeCpu(made->kernel, {x, BytesOf(made->table)}, cpu->kernel, {x, BytesOf(cpu->table)},
                {5 * 7 * 5 * 4}, 0);
}

TEST(CudaChannelAffine, PartsSideBySideWithActivation) {
  const ChannelAffineSpec spec{
      .rows = 200, .channels = {5, 16, 12}, .epilogue = {.activation = Activation::kRelu}};
  ExpectLikeCpu(
      MakeCudaChannelAffine(spec), MakeChannelAffine(spec),
      {BytesOf(RandomFloats(33)), BytesOf(RandomFloats(33, -1, 1, 2)),
       BytesOf(RandomFloats(200 * 5, -1, 1, 3)), BytesOf(RandomFloats(200 * 16, -1, 1, 4)),
       BytesOf(RandomFloats(200 * 12, -1, 1, 5))},
      {200 * 33 * 4}, 1e-6);
}

TEST(CudaGroupedConv, GroupsOfSeveralChannels) {
  const GroupedConvSpec spec{.window = {.batch = 2,
                                        .height = 8,
                                        .width = 7,
                                        .out_height = 4,
                                        .out_width = 4,
                                        .kernel_h = 3,
                                        .kernel_w = 3,
                                        .stride_h = 2,
                                        .stride_w = 2,
                                        .pad_top = 1,
                                        .pad_left = 1},
                             .in_channels = 24,
                             .out_channels = 12,
                             .groups = 3,
                             .bias = true,
                             .epilogue = {.activation = Activation::kRelu}};
  const Floats weights = RandomFloats(12 * 8 * 9, -1, 1, 2);
  Bytes packed(PackedCudaGroupedWeightBytes(spec)), cpu_packed(PackedGroupedConvWeightBytes(spec));
  PackCudaGroupedWeights(spec, weights.data(), packed.data());
  PackGroupedConvWeights(spec, weights.data(), cpu_packed.data());
  const Bytes x = BytesOf(RandomFloats(2 * 8 * 7 * 24)), bias = BytesOf(RandomFloats(12, -1, 1, 3));
  ExpectLikeCpu(MakeCudaGroupedConv(spec), {x, packed, bias}, MakeGroupedConv(spec),
                {x, cpu_packed, bias}, {2 * 4 * 4 * 12 * 4}, 1e-5);
}

}  // namespace
}  // namespace lagoon::cuda

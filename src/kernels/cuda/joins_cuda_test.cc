#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/body_testing.h"
#include "kernels/ops_testing.h"
#include "plan/element.h"

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

TEST(CudaWhere, Broadcasts) {
  const WhereSpec spec{.condition = {7, 1}, .a = {3, 7, 300}, .b = {1}, .out = {3, 7, 300}};
  ExpectLikeCpu(MakeCudaWhere(spec), MakeWhere(spec),
                {BytesOf(std::vector<std::uint8_t>{1, 0, 1, 0, 0, 1, 1}),
                 BytesOf(RandomFloats(6300)), BytesOf(RandomFloats(1))},
                {6300 * 4}, 0);
}

TEST(CudaCast, HalvesThereAndBack) {
  for (const DataType half : {DataType::kBFloat16, DataType::kFloat16}) {
    Floats x = RandomFloats(5000, -1000, 1000);
    x[7] = 1e-6f;
    x[8] = 70'000;
    const auto cpu = MakeCast(x.size(), DataType::kFloat32, half);
    ASSERT_TRUE(cpu);
    ExpectLikeCpu(MakeCudaCast(x.size(), DataType::kFloat32, half), cpu, {BytesOf(x)}, {10'000}, 0);
    const Bytes halves = testing::RunOnCpu(*cpu, {BytesOf(x)}, {10'000})[0];
    ExpectLikeCpu(MakeCudaCast(x.size(), half, DataType::kFloat32),
                  MakeCast(x.size(), half, DataType::kFloat32), {halves}, {20'000}, 0);
  }
}

constexpr DataType kNumbers[] = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16,
                                 DataType::kFloat64, DataType::kBool,     DataType::kInt8,
                                 DataType::kInt16,   DataType::kInt32,    DataType::kInt64,
                                 DataType::kUInt8,   DataType::kUInt16,   DataType::kUInt32,
                                 DataType::kUInt64};

/// Around zero, at the bounds of every integer type and far beyond, in `type`.
Bytes EdgesOf(DataType type) {
  std::vector<double> values = {0,     -0.0, 0.5,   -0.5, 1,        -1,        1.5, 2.999,
                                1e-30, 1e30, -1e30, 3e38, INFINITY, -INFINITY, NAN};
  for (const int bits : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64}) {
    for (const double sign : {-1.0, 1.0}) {
      for (const double step : {-1.0, 0.0, 1.0})
        values.push_back(sign * std::ldexp(1, bits) + step);
    }
  }
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    Bytes bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T element = ConvertElement<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
    return bytes;
  });
}

TEST(CudaCast, BetweenAllTypesAtTheirBounds) {
  for (const DataType from : kNumbers) {
    const Bytes x = EdgesOf(from);
    const std::size_t count = x.size() / SizeOf(from);
    for (const DataType to : kNumbers) {
      if (from == to) continue;
      SCOPED_TRACE(::testing::Message() << OipName(from) << " to " << OipName(to));
      const auto cpu = MakeCast(count, from, to);
      ASSERT_TRUE(cpu) << cpu.error().message;
      const auto made = MakeCudaCast(count, from, to);
      ASSERT_TRUE(made) << made.error().message;
      testing::BoundBody bound(*made, {x}, {count * SizeOf(to)});
      ASSERT_EQ(bound.Run(bound.AllTiles(), {}), bound.AllTiles());
      const Bytes want = testing::RunOnCpu(*cpu, {x}, {count * SizeOf(to)})[0];
      for (std::size_t i = 0; i < count; ++i) {
        const std::byte *got_i = bound.outputs()[0].data(), *want_i = want.data();
        const double got = ElementAsDouble(to, got_i, i), expected = ElementAsDouble(to, want_i, i);
        const std::size_t size = SizeOf(to);
        const bool same = std::memcmp(got_i + i * size, want_i + i * size, size) == 0;
        EXPECT_TRUE(same || (std::isnan(got) && std::isnan(expected)))
            << "of " << ElementAsDouble(from, x.data(), i) << ": " << got << ", the CPU has "
            << expected;
      }
    }
  }
}

TEST(CudaGroupedConv, GroupsOfSeveralChannels) {
  const GroupedConvSpec spec{.batch = 2,
                             .height = 8,
                             .width = 7,
                             .in_channels = 24,
                             .out_height = 4,
                             .out_width = 4,
                             .out_channels = 12,
                             .groups = 3,
                             .kernel_h = 3,
                             .kernel_w = 3,
                             .stride_h = 2,
                             .stride_w = 2,
                             .pad_top = 1,
                             .pad_left = 1,
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

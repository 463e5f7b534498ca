#include <gmock/gmock.h>

#include <cmath>

#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"
#include "kernels/window.h"
#include "plan/element.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::Floats;
using lagoon::testing::RandomFloats;
using testing::BoundBody;
using testing::Bytes;
using testing::BytesOf;

/// `values` as the products of `math` see them.
Floats Rounded(const Floats& values, Math math) {
  Floats rounded = values;
  for (float& value : rounded) {
    if (math == Math::kBf16) value = ConvertElement<float>(ConvertElement<BFloat16>(value));
  }
  return rounded;
}

struct Operands {
  Floats x, weights, bias, residual;
};

Operands OperandsOf(const Conv2dSpec& spec) {
  const std::size_t in = InputPixels(spec.window) * spec.in_channels;
  const std::size_t out = OutputPixels(spec.window) * spec.out_channels;
  const std::size_t weights = WindowTaps(spec.window) * spec.in_channels * spec.out_channels;
  return {RandomFloats(in), RandomFloats(weights, -1, 1, 2),
          spec.bias ? RandomFloats(spec.out_channels, -1, 1, 3) : Floats{},
          spec.epilogue.residual ? RandomFloats(out, -1, 1, 4) : Floats{}};
}

Bytes ReferenceOf(const Conv2dSpec& spec, const Operands& operands, Math math, std::size_t count) {
  const auto cpu = MakeConv2d(spec);
  EXPECT_TRUE(cpu) << cpu.error().message;
  Bytes packed(PackedConv2dWeightBytes(spec));
  PackConv2dWeights(spec, Rounded(operands.weights, math).data(), packed.data());
  std::vector<Bytes> inputs = {BytesOf(Rounded(operands.x, math)), packed};
  if (spec.bias) inputs.push_back(BytesOf(operands.bias));
  if (spec.epilogue.residual) inputs.push_back(BytesOf(operands.residual));
  return testing::RunOnCpu(*cpu, inputs, {count * 4})[0];
}

/// Runs the convolution and, if there are parts, their sum. The reference has the exact products of
/// the rounded operands, so that only the order of sums differs.
void Check(const Conv2dSpec& spec, const ConvOptions& options, double tolerance = 3e-5) {
  SCOPED_TRACE(::testing::Message() << "math " << static_cast<u32>(options.math) << ", tile "
                                    << options.tile_rows << "x" << options.tile_columns);
  const auto made = MakeCudaConv2d(spec, options);
  ASSERT_TRUE(made) << made.error().message;
  const Operands operands = OperandsOf(spec);
  const std::size_t count = OutputPixels(spec.window) * spec.out_channels;
  Bytes weights(PackedCudaWeightBytes(spec, options.math));
  PackCudaWeights(spec, options.math, operands.weights.data(), weights.data());
  std::vector<Bytes> epilogue;
  if (spec.bias) epilogue.push_back(BytesOf(operands.bias));
  if (spec.epilogue.residual) epilogue.push_back(BytesOf(operands.residual));
  std::vector<Bytes> inputs = {BytesOf(operands.x), weights};
  if (!made->sum) inputs.insert(inputs.end(), epilogue.begin(), epilogue.end());
  const std::size_t bytes = made->sum ? made->workspace_bytes : count * 4;
  BoundBody product(made->product, inputs, {bytes});
  ASSERT_NO_FATAL_FAILURE(ExpectKeepsPromises(product));
  Bytes y = product.outputs()[0];
  if (made->sum) {
    epilogue.insert(epilogue.begin(), y);
    BoundBody sum(*made->sum, epilogue, {count * 4});
    ASSERT_NO_FATAL_FAILURE(ExpectKeepsPromises(sum));
    y = sum.outputs()[0];
  }
  testing::ExpectClose(y, ReferenceOf(spec, operands, options.math, count), tolerance);
}

constexpr Math kEveryMath[] = {Math::kFp32, Math::kBf16};

Conv2dSpec Gemm(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  return {.window = {.height = m, .out_height = m},
          .in_channels = k,
          .out_channels = n,
          .bias = true,
          .epilogue = {}};
}

TEST(CudaConv, ProductsInEveryTileAndMath) {
  for (const Math math : kEveryMath) {
    Check(Gemm(40, 36, 264), {.math = math, .tile_rows = 32, .tile_columns = 32, .splits = 1});
    Check(Gemm(70, 80, 136), {.math = math, .tile_rows = 64, .tile_columns = 64, .splits = 1});
    Check(Gemm(130, 136, 72), {.math = math, .tile_rows = 128, .tile_columns = 128, .splits = 1});
  }
}

TEST(CudaConv, DepthThatIsNoWholeChunk) {
  for (const Math math : kEveryMath) Check(Gemm(9, 10, 13), {.math = math});
}

TEST(CudaConv, WindowsWithPaddingStrideAndDilation) {
  for (const Math math : kEveryMath) {
    Check({.window = {.batch = 2,
                      .height = 9,
                      .width = 8,
                      .out_height = 5,
                      .out_width = 4,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .stride_h = 2,
                      .stride_w = 2,
                      .pad_top = 1,
                      .pad_left = 1},
           .in_channels = 16,
           .out_channels = 24,
           .epilogue = {}},
          {.math = math});
    Check({.window = {.height = 12,
                      .width = 11,
                      .out_height = 8,
                      .out_width = 11,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .dilation_h = 2,
                      .dilation_w = 2,
                      .pad_left = 2},
           .in_channels = 3,
           .out_channels = 20,
           .epilogue = {}},
          {.math = math});
  }
}

TEST(CudaConv, EpilogueInEveryOrder) {
  Conv2dSpec spec = Gemm(33, 20, 24);
  spec.epilogue = {.activation = Activation::kRelu, .residual = true};
  Check(spec, {.math = Math::kFp32});
  spec.epilogue.residual_last = true;
  Check(spec, {.math = Math::kFp32});
  spec.epilogue = {.activation = Activation::kUnary, .unary = UnaryOp::kGelu};
  Check(spec, {.math = Math::kFp32});
}

TEST(CudaConv, SplitDepthIsSummedByASecondKernel) {
  for (const std::uint32_t splits : {2u, 5u}) {
    Conv2dSpec spec = Gemm(20, 40, 328);
    spec.epilogue = {.activation = Activation::kRelu, .residual = true};
    Check(spec, {.math = Math::kBf16, .splits = splits});
    spec = Gemm(20, 42, 328);  // no whole groups of four outputs
    Check(spec, {.math = Math::kFp32, .splits = splits});
    spec = {.window = {.height = 6,
                       .width = 7,
                       .out_height = 6,
                       .out_width = 7,
                       .kernel_h = 3,
                       .kernel_w = 3,
                       .pad_top = 1,
                       .pad_left = 1},
            .in_channels = 24,  // a part begins in the middle of a tap
            .out_channels = 40,
            .epilogue = {}};
    Check(spec, {.math = Math::kFp32, .splits = splits});
    Check(spec, {.math = Math::kBf16, .splits = splits});
  }
}

TEST(CudaConv, ChoosesTilesThatFillTheGpu) {
  for (const Math math : kEveryMath) {
    const auto made = [&](const Conv2dSpec& spec) { return *MakeCudaConv2d(spec, {.math = math}); };
    const auto at = [&](BodyId fp32, BodyId bf16) { return math == Math::kFp32 ? fp32 : bf16; };
    EXPECT_EQ(made(Gemm(8192, 4096, 4096)).product.body,
              at(BodyId::kConv128x128Fp32, BodyId::kConv128x128Bf16));
    EXPECT_EQ(made(Gemm(1024, 3072, 768)).product.body,
              at(BodyId::kConv64x64Fp32, BodyId::kConv128x128Bf16));
    EXPECT_EQ(made(Gemm(1024, 768, 768)).product.body,
              at(BodyId::kConv32x32Fp32, BodyId::kConv64x64Bf16));
    const CudaConv narrow = made(Gemm(128, 768, 768));
    EXPECT_EQ(narrow.product.body, at(BodyId::kConv32x32Fp32, BodyId::kConv32x32Bf16));
    EXPECT_FALSE(narrow.sum) << "a second kernel costs more than it saves";
    const CudaConv deep = made(Gemm(8, 64, 65536));
    EXPECT_TRUE(deep.sum);
    EXPECT_GE(deep.product.blocks, 16u);
  }
}

TEST(CudaConv, RefusesWhatItCannot) {
  EXPECT_EQ(MakeCudaConv2d(Gemm(1, 1, 1), {.tile_rows = 128, .tile_columns = 64}).error().code,
            ErrorCode::kUnimplemented);
  EXPECT_FALSE(MakeCudaConv2d(Gemm(0, 1, 1), {}));
}

}  // namespace
}  // namespace lagoon::cuda

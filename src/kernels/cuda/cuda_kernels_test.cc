#include "kernels/cuda/cuda_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu_kernels.h"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/op_program.h"

namespace lagoon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

class CudaKernelsTest : public ::testing::Test {
 protected:
  const std::unique_ptr<const KernelMaker> make_ = CudaKernels(OpProgram(), 132);
};

TEST_F(CudaKernelsTest, KernelsOfOneBodyShareItsImage) {
  const Result<Kernel> small = make_->Unary({.op = UnaryOp::kRelu, .count = 4});
  const Result<Kernel> large = make_->Unary({.op = UnaryOp::kTanh, .count = 1 << 20});
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->body, nullptr);
  ASSERT_NE(small->cuda, nullptr);
  EXPECT_EQ(small->cuda, large->cuda);
  EXPECT_EQ(small->cuda->program, &OpProgram());
  EXPECT_EQ(small->cuda->body, static_cast<std::uint32_t>(BodyId::kUnary));
  EXPECT_EQ(small->cuda->entry, static_cast<std::uint32_t>(BodyId::kUnary));
  EXPECT_EQ(small->cuda->args_bytes, small->args.size());
  const Result<Kernel> softmax = make_->Softmax({.outer = 4, .axis = 100});
  ASSERT_TRUE(softmax);
  EXPECT_NE(softmax->cuda, small->cuda);
  EXPECT_GT(softmax->scratch_bytes, 0u);
}

TEST_F(CudaKernelsTest, WhatHasNoBodyIsNamedWithItsType) {
  const AxisSpec ints{.outer = 2, .axis = 3, .type = DataType::kInt64};
  const std::pair<std::function<Result<Kernel>()>, const char*> cases[] = {
      {[&] { return make_->Scan({ints}); }, "Scan of INT64 "},
      {[&] { return make_->Arg({ints}); }, "Arg of INT64 "},
      {[&] {
         return make_->TopK({ints, 2});
       },
       "TopK of INT64 "},
      {[&] { return make_->Fold(ints, FoldOp::kSum); }, "reduction 0 of INT64 "},
      {[&] { return make_->Unary({.count = 4, .type = DataType::kFloat64}); },
       "unary Relu of FP64 "},
      {[&] {
         return make_->Binary(
             {.op = BinaryOp::kPow, .a = {4}, .b = {4}, .out = {4}, .type = DataType::kFloat64});
       },
       "binary Pow of FP64 "},
      {[&] { return make_->Quantize({.quantized = DataType::kInt8}); }, "Quantize of INT8 "},
      {[&] { return make_->Interpolate({.in = 2, .out = 3}); }, "Interpolate of FP32 "},
  };
  for (const auto& [made, what] : cases) {
    const Result<Kernel> kernel = made();
    ASSERT_FALSE(kernel.has_value()) << what;
    EXPECT_EQ(kernel.error().code, ErrorCode::kUnimplemented) << what;
    EXPECT_THAT(
        kernel.error().message,
        AllOf(StartsWith(what), EndsWith("has no CUDA body yet; run it with --device cpu")));
  }
}

TEST_F(CudaKernelsTest, WhatTheCpuRefusesIsRefusedInTheSameWords) {
  const AxisSpec empty{.axis = 0};
  EXPECT_EQ(make_->Scan({empty}).error().message, CpuKernels().Scan({empty}).error().message);
  EXPECT_EQ(make_->Softmax({.axis = 0}).error().message,
            CpuKernels().Softmax({.axis = 0}).error().message);
  Conv2dSpec nothing;
  nothing.window.batch = 0;
  EXPECT_EQ(make_->Conv2d(nothing).error().message, CpuKernels().Conv2d(nothing).error().message);
}

TEST_F(CudaKernelsTest, ACopyMovesElementsOfAnyType) {
  const Result<Kernel> copy =
      make_->Unary({.op = UnaryOp::kCopy, .count = 4, .type = DataType::kInt64});
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(copy->cuda->body, static_cast<std::uint32_t>(BodyId::kStridedCopy));
}

/// A product of `rows` by `depth` with `columns` columns, and a bias.
Conv2dSpec Product(std::uint32_t rows, std::uint32_t depth, std::uint32_t columns) {
  Conv2dSpec spec;
  spec.window.height = spec.window.out_height = rows;
  spec.in_channels = depth;
  spec.out_channels = columns;
  spec.bias = true;
  return spec;
}

TEST_F(CudaKernelsTest, ASplitDepthLeavesBiasToTheSum) {
  const Result<PackedKernel> whole = make_->Conv2d(Product(4096, 64, 256));
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->kernel.inputs.size(), 3u);
  EXPECT_FALSE(whole->sum.has_value());
  const Result<PackedKernel> split = make_->Conv2d(Product(2, 4096, 10));
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->kernel.inputs.size(), 2u);
  ASSERT_TRUE(split->sum.has_value());
  EXPECT_EQ(split->sum->inputs.size(), 2u);
  EXPECT_EQ(split->parts_bytes % (2 * 10 * sizeof(float)), 0u);
}

TEST_F(CudaKernelsTest, Bf16WeightsTakeHalfTheBytes) {
  Conv2dSpec spec = Product(64, 64, 64);
  const Result<PackedKernel> fp32 = make_->Conv2d(spec);
  spec.precision = Precision::kBf16;
  const Result<PackedKernel> bf16 = make_->Conv2d(spec);
  ASSERT_TRUE(fp32 && bf16);
  EXPECT_EQ(bf16->weight_bytes * 2, fp32->weight_bytes);
  EXPECT_TRUE(make_->CheckPrecision(Precision::kBf16));
}

}  // namespace
}  // namespace lagoon::cuda

#include <gmock/gmock.h>

#include "kernels/cuda/testing/body.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/move/transpose.h"
#include "kernels/testing/ops.h"
#include "plan/elementwise_ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::Floats;
using lagoon::testing::RandomFloats;
using testing::Bytes;
using testing::BytesOf;
using testing::ExpectLikeCpu;

/// True for functions from fp32 to fp32.
bool IsOfFp32(const elementwise::UnaryRow& row) {
  return !row.gives_flags && FindUnaryRow(row.op, DataType::kFloat32) != nullptr;
}
bool IsOfFp32(const elementwise::BinaryRow& row) {
  return !row.gives_flags && FindBinaryRow(row.op, DataType::kFloat32) != nullptr;
}

TEST(CudaUnary, EveryFp32Function) {
  const Floats x = RandomFloats(5000, -4, 4);
  for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
    if (!IsOfFp32(row)) continue;
    SCOPED_TRACE(row.name);
    const UnarySpec spec{.op = row.op, .count = x.size(), .alpha = 0.25, .beta = 0.75};
    ExpectLikeCpu(MakeCudaUnary(spec), MakeUnary(spec), {BytesOf(x)}, {x.size() * 4}, 4e-6);
  }
}

TEST(CudaUnary, NanAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Floats x = {NAN, infinity, -infinity, 0.0f, -0.0f};
  for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
    if (!IsOfFp32(row)) continue;
    SCOPED_TRACE(row.name);
    const UnarySpec spec{.op = row.op, .count = x.size(), .alpha = 0.5, .beta = 1};
    ExpectLikeCpu(MakeCudaUnary(spec), MakeUnary(spec), {BytesOf(x)}, {x.size() * 4}, 1e-6);
  }
}

void CheckBinary(const BinarySpec& spec, float low = -3) {
  const auto count = [](const std::vector<std::int64_t>& dims) {
    std::size_t n = 1;
    for (const auto dim : dims) n *= static_cast<std::size_t>(dim);
    return n;
  };
  ExpectLikeCpu(MakeCudaBinary(spec), MakeBinary(spec),
                {BytesOf(RandomFloats(count(spec.a), low, 3)),
                 BytesOf(RandomFloats(count(spec.b), low, 3, 2))},
                {count(spec.out) * 4}, 1e-5);
}

TEST(CudaBinary, EveryFp32OpBroadcasts) {
  for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
    if (!IsOfFp32(row)) continue;
    SCOPED_TRACE(row.name);
    const float low = row.op == BinaryOp::kPow ? 0.1f : -3;
    CheckBinary({.op = row.op, .a = {2, 3, 70, 11}, .b = {3, 1, 11}, .out = {2, 3, 70, 11}}, low);
  }
  CheckBinary({.op = BinaryOp::kAdd, .a = {1}, .b = {5, 1}, .out = {5, 1}});
  CheckBinary({.op = BinaryOp::kAdd, .a = {9000}, .b = {9000}, .out = {9000}});
  CheckBinary({.op = BinaryOp::kAdd,
               .a = {9, 1, 7},
               .b = {1, 5, 7},
               .out = {9, 5, 7},
               .epilogue = {.activation = Activation::kRelu}});
}

TEST(CudaTranspose, AnyPermutation) {
  const Floats x = RandomFloats(2 * 33 * 5 * 40);
  for (const std::vector<std::int64_t>& permutation : {std::vector<std::int64_t>{0, 3, 1, 2},
                                                       {0, 2, 3, 1},
                                                       {3, 2, 1, 0},
                                                       {1, 0, 2, 3},
                                                       {0, 1, 2, 3}}) {
    const std::vector<std::int64_t> dims = {2, 33, 5, 40};
    ExpectLikeCpu(MakeCudaTranspose(dims, permutation), MakeTranspose(dims, permutation),
                  {BytesOf(x)}, {x.size() * 4}, 0);
  }
}

TEST(CudaTranspose, MatricesAreFlippedInSharedMemory) {
  EXPECT_STREQ(MakeCudaTranspose(std::vector<std::int64_t>{2, 12, 9, 40},
                                 std::vector<std::int64_t>{0, 2, 3, 1})
                   ->name,
               "flip");
  EXPECT_STREQ(MakeCudaTranspose(std::vector<std::int64_t>{2, 3, 9, 40},
                                 std::vector<std::int64_t>{0, 2, 3, 1})
                   ->name,
               "strided_copy")
      << "three rows would leave most of a tile empty";
  EXPECT_STREQ(MakeCudaTranspose(std::vector<std::int64_t>{2, 3, 9, 40},
                                 std::vector<std::int64_t>{3, 2, 1, 0})
                   ->name,
               "strided_copy");
}

TEST(CudaStridedCopy, BackwardsBroadcastAndEveryElementSize) {
  for (const std::size_t bytes : {1u, 2u, 4u, 8u}) {
    const StridedCopySpec spec{
        .out = {3, 50, 7}, .strides = {0, -7, 1}, .start = 49 * 7, .element_bytes = bytes};
    Bytes x(50 * 7 * bytes);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::byte>(i * 37);
    ExpectLikeCpu(MakeCudaStridedCopy(spec), MakeStridedCopy(spec), {x}, {3 * 50 * 7 * bytes}, 0);
  }
}

TEST(CudaStridedCopy, AFunctionBehindIt) {
  const StridedCopySpec spec{
      .out = {40, 30},
      .strides = {1, 40},
      .epilogue = {.activation = Activation::kUnary, .unary = UnaryOp::kSigmoid}};
  ExpectLikeCpu(MakeCudaStridedCopy(spec), MakeStridedCopy(spec), {BytesOf(RandomFloats(1200))},
                {1200 * 4}, 1e-5);
}

TEST(CudaGather, RowsAtIndicesSomeOutOfRange) {
  const Floats table = RandomFloats(20 * 300);
  const std::vector<std::int64_t> indices = {3, -1, 19, 20, 0, -21, 7};
  const IndexSpec spec{.entries = {7},
                       .index_strides = {1},
                       .base_strides = {0},
                       .sizes = {20},
                       .strides = {300},
                       .run = 300,
                       .tensor = 6000};
  ExpectLikeCpu(MakeCudaGather(spec), MakeGather(spec), {BytesOf(table), BytesOf(indices)},
                {7 * 300 * 4}, 0);
}

TEST(CudaGather, TuplesOfNarrowIndices) {
  const Floats x = RandomFloats(2 * 4 * 5);
  const std::vector<std::int32_t> indices = {0, 0, 3, 4, -1, 2, 1, 1, 2, 5, 0, 3};
  const IndexSpec spec{.entries = {2, 3},
                       .index_strides = {6, 2},
                       .base_strides = {20, 0},
                       .sizes = {4, 5},
                       .strides = {5, 1},
                       .run = 1,
                       .tensor = 40,
                       .index_type = DataType::kInt32};
  ExpectLikeCpu(MakeCudaGather(spec), MakeGather(spec), {BytesOf(x), BytesOf(indices)}, {6 * 4}, 0);
}

}  // namespace
}  // namespace lagoon::cuda

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"
#include "plan/element.h"
#include "plan/elementwise_ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::Floats;
using lagoon::testing::RandomFloats;
using testing::Bytes;
using testing::BytesOf;
using testing::ExpectLikeCpu;

TEST(CudaWhere, Broadcasts) {
  const WhereSpec spec{.condition = {7, 1}, .a = {3, 7, 300}, .b = {1}, .out = {3, 7, 300}};
  ExpectLikeCpu(MakeCudaWhere(spec), MakeWhere(spec),
                {BytesOf(std::vector<std::uint8_t>{1, 0, 1, 0, 0, 1, 1}),
                 BytesOf(RandomFloats(6300)), BytesOf(RandomFloats(1))},
                {6300 * 4}, 0);
}

TEST(CudaWhere, ElementsOfEverySize) {
  for (const DataType type :
       {DataType::kBool, DataType::kFloat16, DataType::kInt32, DataType::kInt64}) {
    const WhereSpec spec{.condition = {50}, .a = {50}, .b = {50}, .out = {50}, .type = type};
    Bytes condition(50), a(50 * SizeOf(type)), b(a.size());
    for (std::size_t i = 0; i < 50; ++i) condition[i] = static_cast<std::byte>(i % 3 == 0);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<std::byte>(i * 7);
      b[i] = static_cast<std::byte>(~i);
    }
    ExpectLikeCpu(MakeCudaWhere(spec), MakeWhere(spec), {condition, a, b}, {a.size()}, 0);
  }
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

/// Values around zero, at the bounds of every integer type and far beyond, in `type`.
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

/// Expects the same bits as the CPU's, or NaN in both; floats may differ by up to `tolerance`.
void ExpectSameElements(const Result<CudaKernel>& made, const Result<Kernel>& cpu,
                        const std::vector<Bytes>& inputs, std::size_t count, DataType type,
                        double tolerance = 0) {
  ASSERT_TRUE(cpu) << cpu.error().message;
  ASSERT_TRUE(made) << made.error().message;
  testing::BoundBody bound(*made, inputs, {count * SizeOf(type)});
  ASSERT_EQ(bound.Run(bound.AllTiles(), {}), bound.AllTiles());
  const Bytes want = testing::RunOnCpu(*cpu, inputs, {count * SizeOf(type)})[0];
  const std::size_t size = SizeOf(type);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte *got_i = bound.outputs()[0].data(), *want_i = want.data();
    if (std::memcmp(got_i + i * size, want_i + i * size, size) == 0) continue;
    const double got = ElementAsDouble(type, got_i, i), expected = ElementAsDouble(type, want_i, i);
    const bool close = std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
    EXPECT_TRUE(close || (std::isnan(got) && std::isnan(expected)))
        << "element " << i << ": " << got << ", the CPU has " << expected;
  }
}

TEST(CudaCast, BetweenAllTypesAtTheirBounds) {
  for (const DataType from : kNumbers) {
    const Bytes x = EdgesOf(from);
    const std::size_t count = x.size() / SizeOf(from);
    for (const DataType to : kNumbers) {
      if (from == to) continue;
      SCOPED_TRACE(::testing::Message() << OipName(from) << " to " << OipName(to));
      ExpectSameElements(MakeCudaCast(count, from, to), MakeCast(count, from, to), {x}, count, to);
    }
  }
}

// True for what only the CPU computes; CUDA must support everything else.
bool IsLeftOut(BinaryOp op, DataType type) {
  return type == DataType::kFloat64 &&
         (op == BinaryOp::kPow || op == BinaryOp::kMod || op == BinaryOp::kFmod);
}
bool IsLeftOut(UnaryOp op, DataType type) {
  const bool is_float = type == DataType::kFloat32 || type == DataType::kBFloat16 ||
                        type == DataType::kFloat16 || type == DataType::kFloat64;
  if (type == DataType::kFloat64) return op != UnaryOp::kIsNaN && op != UnaryOp::kIsInf;
  return !is_float && op == UnaryOp::kShrink;
}

/// Every element paired with every other one.
std::pair<Bytes, Bytes> Pairs(DataType type) {
  const Bytes x = EdgesOf(type);
  const std::size_t size = SizeOf(type), count = x.size() / size;
  Bytes a, b;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      a.insert(a.end(), &x[i * size], &x[i * size] + size);
      b.insert(b.end(), &x[j * size], &x[j * size] + size);
    }
  }
  return {std::move(a), std::move(b)};
}

TEST(CudaTypedBinary, EveryOpOfEveryTypeAtItsBounds) {
  int checked = 0;
  for (const DataType type : kNumbers) {
    const auto [a, b] = Pairs(type);
    const auto count = static_cast<std::int64_t>(a.size() / SizeOf(type));
    for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
      const BinaryOp kind = row.op;
      const BinarySpec spec{.op = kind, .a = {count}, .b = {count}, .out = {count}, .type = type};
      const Result<Kernel> cpu = MakeBinary(spec);
      const bool fp32 = type == DataType::kFloat32 && ResultType(kind, type) == type;
      if (!cpu || fp32) continue;
      SCOPED_TRACE(::testing::Message() << row.name << " of " << OipName(type));
      const Result<CudaKernel> made = MakeCudaBinary(spec);
      if (IsLeftOut(kind, type)) {
        EXPECT_EQ(made.error().code, ErrorCode::kUnimplemented);
        continue;
      }
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(made->body, BodyId::kTypedBinary);
      // Halves are rounded from fp32, whose library functions differ in the last bit.
      ExpectSameElements(made, cpu, {a, b}, a.size() / SizeOf(type), ResultType(kind, type),
                         kind == BinaryOp::kPow ? 0.01 : 0);
      ++checked;
    }
  }
  EXPECT_GT(checked, 150);
}

TEST(CudaTypedBinary, AnyByteButZeroIsTrue) {
  const Bytes a = BytesOf(std::vector<std::uint8_t>{0, 0, 1, 2, 2, 255});
  const Bytes b = BytesOf(std::vector<std::uint8_t>{0, 2, 2, 1, 4, 0});
  for (const BinaryOp op : {BinaryOp::kAnd, BinaryOp::kOr, BinaryOp::kXor, BinaryOp::kEqual}) {
    SCOPED_TRACE(static_cast<unsigned>(op));
    const BinarySpec spec{.op = op, .a = {6}, .b = {6}, .out = {6}, .type = DataType::kBool};
    ExpectSameElements(MakeCudaBinary(spec), MakeBinary(spec), {a, b}, 6, DataType::kBool);
  }
  ExpectSameElements(MakeCudaCast(6, DataType::kBool, DataType::kInt32),
                     MakeCast(6, DataType::kBool, DataType::kInt32), {a}, 6, DataType::kInt32);
}

TEST(CudaTypedBinary, Broadcasts) {
  const BinarySpec spec{.op = BinaryOp::kEqual,
                        .a = {2, 1, 70, 3},
                        .b = {1},
                        .out = {2, 5, 70, 3},
                        .type = DataType::kInt64};
  std::vector<std::int64_t> a(420);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int64_t>(i % 4);
  ExpectLikeCpu(MakeCudaBinary(spec), MakeBinary(spec),
                {BytesOf(a), BytesOf(std::vector<std::int64_t>{2})}, {2100}, 0);
}

TEST(CudaTypedUnary, EveryFunctionOfEveryTypeAtItsBounds) {
  int checked = 0;
  for (const DataType type : kNumbers) {
    const Bytes x = EdgesOf(type);
    const std::size_t count = x.size() / SizeOf(type);
    for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
      const UnaryOp kind = row.op;
      const double alpha = kind == UnaryOp::kIsInf ? 0 : 0.5;
      const UnarySpec spec{.op = kind, .count = count, .alpha = alpha, .beta = 1, .type = type};
      const Result<Kernel> cpu = MakeUnary(spec);
      const bool fp32 = type == DataType::kFloat32 && ResultType(kind, type) == type;
      if (!cpu || fp32) continue;
      SCOPED_TRACE(::testing::Message() << row.name << " of " << OipName(type));
      const Result<CudaKernel> made = MakeCudaUnary(spec);
      if (IsLeftOut(kind, type)) {
        EXPECT_EQ(made.error().code, ErrorCode::kUnimplemented);
        continue;
      }
      ExpectSameElements(made, cpu, {x}, count, ResultType(kind, type), 0.01);
      ++checked;
    }
  }
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace lagoon::cuda

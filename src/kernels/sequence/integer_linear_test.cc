#include "kernels/sequence/integer_linear.h"

#include <algorithm>
#include <array>
#include <random>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::Floats;

/// The operands of one product, and what it must give.
template <typename T>
struct Case {
  IntegerLinearSpec spec;
  std::vector<T> x, zero;
  std::vector<std::int16_t> w;
  Floats x_scale{0.02f}, w_scale, bias, residual;

  Case(std::size_t rows, std::size_t depth, std::size_t columns, Epilogue epilogue = {})
      : spec{rows, depth, columns, std::is_signed_v<T> ? DataType::kInt8 : DataType::kUInt8,
             epilogue} {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> bytes(0, 255), differences(-255, 255);
    for (std::size_t i = 0; i < rows * depth; ++i) x.push_back(static_cast<T>(bytes(random)));
    for (std::size_t i = 0; i < depth * columns; ++i) {
      w.push_back(static_cast<std::int16_t>(differences(random)));
    }
    zero.push_back(static_cast<T>(bytes(random)));
    // The greatest sum of a pair.
    std::fill_n(x.begin(), std::min<std::size_t>(depth, 9), T{0});
    if constexpr (!std::is_signed_v<T>) zero[0] = 255;
    w_scale = testing::RandomFloats(columns, 0.1f, 1, 3);
    bias = testing::RandomFloats(columns, -9, 9, 4);
    if (epilogue.residual) residual = testing::RandomFloats(rows * columns, -9, 9, 5);
  }

  float At(std::size_t i, std::size_t j) const {
    std::int32_t sum = 0;
    for (std::size_t p = 0; p < spec.depth; ++p) {
      sum += (x[i * spec.depth + p] - zero[0]) * w[p * spec.columns + j];
    }
    const std::size_t at = i * spec.columns + j;
    const Epilogue& epilogue = spec.epilogue;
    float y = static_cast<float>(sum) * (x_scale[0] * w_scale[j]) + bias[j];
    if (epilogue.residual && !epilogue.residual_last) y += residual[at];
    if (epilogue.activation == Activation::kRelu) y = std::max(y, 0.0f);
    if (epilogue.activation == Activation::kUnary) y = std::abs(y);
    return epilogue.residual && epilogue.residual_last ? y + residual[at] : y;
  }

  Bytes PackedIntegers() const {
    Bytes packed(PackedIntegerWeightBytes(spec.depth, spec.columns));
    PackIntegerWeights(spec.depth, spec.columns, w.data(), packed.data());
    return packed;
  }
  Bytes PackedBytes() const {
    Bytes packed(PackedIntegerByteWeightBytes(spec.depth, spec.columns));
    std::vector<std::int8_t> columns(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      columns[i % spec.columns * spec.depth + i / spec.columns] = static_cast<std::int8_t>(w[i]);
    }
    PackIntegerByteWeights(spec.depth, spec.columns, columns.data(), packed.data());
    return packed;
  }

  void Check() const {
    SCOPED_TRACE(::testing::Message() << spec.rows << " " << spec.depth << " " << spec.columns);
    const Bytes packed = spec.byte_weights ? PackedBytes() : PackedIntegers();
    std::vector<Bytes> inputs{
        testing::ToBytes(x),       testing::ToBytes(zero),    packed,
        testing::ToBytes(x_scale), testing::ToBytes(w_scale), testing::ToBytes(bias)};
    if (spec.epilogue.residual) inputs.push_back(testing::ToBytes(residual));
    const Result<Kernel> kernel = MakeIntegerLinear(spec);
    ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
    testing::TypedRun run(*kernel, inputs, {spec.rows * spec.columns * sizeof(float)});
    run.ExpectTiles();
    const Floats y = testing::FromBytes<float>(run.Run()[0]);
    for (std::size_t at = 0; at < y.size(); ++at) {
      const float expected = this->At(at / spec.columns, at % spec.columns);
      ASSERT_NEAR(y[at], expected, 1e-6f * std::max(1.0f, std::abs(expected))) << at;
    }
  }
};

TEST(IntegerLinear, AnySizeOnEveryTarget) {
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    for (const auto& [rows, depth, columns] : {std::array<std::size_t, 3>{1, 1, 1},
                                               {1, 700, 37},
                                               {5, 33, 64},
                                               {6, 2, 16},
                                               {13, 512, 8},
                                               {3, 5, 23},
                                               {50, 257, 33},
                                               {97, 1030, 65}}) {
      Case<std::uint8_t>(rows, depth, columns).Check();
      Case<std::int8_t>(rows, depth, columns).Check();
    }
  }
}

TEST(IntegerLinear, WeightsOfBytesGiveTheSame) {
  for (const auto& [rows, depth, columns] : {std::array<std::size_t, 3>{1, 4, 1},
                                             {1, 700, 37},
                                             {13, 512, 8},
                                             {50, 260, 33},
                                             {97, 1028, 65},
                                             {2, 8196, 40}}) {
    for (const bool residual : {false, true}) {
      Case<std::uint8_t> bytes(rows, depth, columns, {.residual = residual});
      if (!TakesByteWeights(bytes.spec)) GTEST_SKIP() << "this level has no products of bytes";
      for (std::int16_t& w : bytes.w) w = static_cast<std::int16_t>(std::clamp<int>(w, -128, 127));
      bytes.spec.byte_weights = true;
      bytes.Check();
    }
  }
  IntegerLinearSpec odd{.depth = 3, .byte_weights = true};
  testing::ExpectInvalid(MakeIntegerLinear(odd), {"integer_linear", "depth 3"});
}

TEST(IntegerLinear, ResidualAndActivationInEveryOrder) {
  for (const bool residual : {false, true}) {
    for (const bool last : {false, true}) {
      Epilogue epilogue{.activation = Activation::kRelu, .residual = residual};
      epilogue.residual_last = residual && last;
      Case<std::uint8_t>(50, 20, 70, epilogue).Check();
      epilogue.activation = Activation::kUnary;
      epilogue.unary = UnaryOp::kAbs;
      Case<std::uint8_t>(50, 20, 70, epilogue).Check();
    }
  }
}

TEST(IntegerLinear, RefusesBadSizesAndTypesByName) {
  testing::ExpectInvalid(MakeIntegerLinear({.rows = 0}), {"integer_linear", "rows is 0"});
  const Result<Kernel> wide = MakeIntegerLinear({.x_type = DataType::kInt16});
  ASSERT_FALSE(wide.has_value());
  EXPECT_EQ(wide.error().code, ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace lagoon

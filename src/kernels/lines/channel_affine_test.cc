#include "kernels/lines/channel_affine.h"

#include <algorithm>
#include <numeric>

#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

double Activate(const Epilogue& e, double value) {
  if (e.activation == Activation::kRelu) return std::max(0.0, value);
  if (e.activation == Activation::kUnary) return value / (1 + std::exp(-value));  // kSwish
  return value;
}

void Check(const ChannelAffineSpec& s) {
  SCOPED_TRACE(::testing::Message()
               << s.rows << " rows of " << ::testing::PrintToString(s.channels));
  const std::size_t row = std::accumulate(s.channels.begin(), s.channels.end(), std::size_t{0});
  std::vector<Floats> inputs = {testing::RandomFloats(row, -2, 2, 100),
                                testing::RandomFloats(row, -2, 2, 101)};
  Doubles reference(s.rows * row);
  std::size_t first = 0;
  for (std::size_t part = 0; part < s.channels.size(); ++part) {
    const std::size_t channels = s.channels[part];
    inputs.push_back(testing::RandomFloats(s.rows * channels, -1, 1, unsigned(part)));
    for (std::size_t i = 0; i < s.rows * channels; ++i) {
      const std::size_t c = first + i % channels;
      const double value = double(inputs.back()[i]) * inputs[0][c] + inputs[1][c];
      reference[i / channels * row + c] = Activate(s.epilogue, value);
    }
    first += channels;
  }
  testing::ExpectKernel([&] { return MakeChannelAffine(s); }, inputs, reference, 1e-6);
}

TEST(ChannelAffine, OnePart) {
  for (const std::size_t channels : {1u, 3u, 15u, 16u, 17u, 64u, 100u}) {
    Check({1, {channels}});
    Check({49, {channels}});
  }
}

TEST(ChannelAffine, JoinsParts) {
  Check({7, {1, 2, 3}});
  Check({10, {64, 32, 32, 32}});
  Check({3, {5, 16, 31, 8, 1}});
  Check({2, std::vector<std::size_t>(kMaxAffineParts, 3)});
}

TEST(ChannelAffine, CutsLongWork) {
  const ChannelAffineSpec rows{1500, {64, 33}};
  Check(rows);
  EXPECT_GE(MakeChannelAffine(rows)->blocks, 2u);
  const ChannelAffineSpec row{1, {200'001, 50'000}};  // a block begins within a row
  Check(row);
  EXPECT_GE(MakeChannelAffine(row)->blocks, 2u);
}

TEST(ChannelAffine, Activations) {
  ChannelAffineSpec s{21, {20, 13}};
  s.epilogue.activation = Activation::kRelu;
  Check(s);
  s.epilogue = {.activation = Activation::kUnary};
  s.epilogue.unary = UnaryOp::kSwish;
  Check(s);
}

TEST(ChannelAffine, RefusesBadSpecsByName) {
  testing::ExpectInvalid(MakeChannelAffine({1, {}}), {"channel_affine", "0 parts"});
  testing::ExpectInvalid(MakeChannelAffine({1, std::vector<std::size_t>(65, 1)}), {"65 parts"});
  testing::ExpectInvalid(MakeChannelAffine({0, {1}}), {"rows is 0"});
  testing::ExpectInvalid(MakeChannelAffine({2, {4, 0}}), {"channels is 0"});
  testing::ExpectInvalid(MakeChannelAffine({1u << 20, {2048, 1}}), {"y has", "2049"});
  ChannelAffineSpec s{1, {4}};
  s.epilogue.residual = true;
  testing::ExpectInvalid(MakeChannelAffine(s), {"residual"});
}

}  // namespace
}  // namespace lagoon

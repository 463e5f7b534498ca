#include <gmock/gmock.h>

#include <limits>

#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::Floats;
using lagoon::testing::RandomFloats;
using testing::Bytes;
using testing::BytesOf;
using testing::ExpectLikeCpu;

/// Operands [batch, head, row, column], dense.
AttentionSpec DenseAttention(std::size_t rows, std::size_t keys, std::size_t depth,
                             std::size_t value_depth) {
  AttentionSpec spec;
  spec.batch = 2;
  spec.heads = 3;
  spec.rows = rows;
  spec.keys = keys;
  spec.depth = depth;
  spec.value_depth = value_depth;
  spec.scale = 0.125f;
  const auto view = [](std::size_t lines, std::size_t columns) {
    return AttentionView{3 * lines * columns, lines * columns, columns, 1};
  };
  spec.q = view(rows, depth);
  spec.k = view(keys, depth);
  spec.v = view(keys, value_depth);
  spec.y = view(rows, value_depth);
  return spec;
}

void CheckAttention(const AttentionSpec& spec, std::vector<Bytes> more = {}) {
  const std::size_t heads = spec.batch * spec.heads;
  std::vector<Bytes> inputs = {
      BytesOf(RandomFloats(heads * spec.rows * spec.depth, -2, 2)),
      BytesOf(RandomFloats(heads * spec.keys * spec.depth, -2, 2, 2)),
      BytesOf(RandomFloats(heads * spec.keys * spec.value_depth, -1, 1, 3))};
  for (Bytes& operand : more) inputs.push_back(std::move(operand));
  ExpectLikeCpu(MakeCudaAttention(spec), MakeAttention(spec), inputs,
                {heads * spec.rows * spec.value_depth * 4}, 2e-5);
}

TEST(CudaAttention, AnyShape) {
  CheckAttention(DenseAttention(1, 1, 1, 1));
  CheckAttention(DenseAttention(17, 70, 24, 40));
  CheckAttention(DenseAttention(5, 33, 100, 128));
  CheckAttention(DenseAttention(3, 130, 7, 5));  // no whole groups of four, and many steps
}

TEST(CudaAttention, MaskWhoseFirstKeysAreMinusInfinity) {
  AttentionSpec spec = DenseAttention(20, 80, 16, 16);
  spec.mask = true;
  spec.mask_view = {0, 0, 80, 1};
  Floats mask = RandomFloats(20 * 80, -3, 3, 4);
  for (std::size_t row = 0; row < 20; ++row) {
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(row * 80), 40 + row,
                -std::numeric_limits<float>::infinity());
  }
  CheckAttention(spec, {BytesOf(mask)});
}

TEST(CudaAttention, MaskThatRepeats) {
  AttentionSpec spec = DenseAttention(9, 40, 8, 8);  // of a batch of 2
  spec.mask = true;
  spec.mask_view = {3 * 40, 40, 0, 1};
  const Bytes mask = BytesOf(RandomFloats(2 * 3 * 40, -3, 3, 4));
  for (const std::size_t windows : {0u, 1u, 2u}) {
    spec.mask_batches = windows;
    CheckAttention(spec, {mask});
  }
}

TEST(CudaAttention, KeepAndSharedKeys) {
  AttentionSpec spec = DenseAttention(9, 40, 8, 8);
  spec.heads = 3;
  spec.sharing = 3;
  spec.keep = true;
  spec.keep_view = {0, 0, 40, 1};
  spec.kept = false;
  spec.fill = -4;
  std::vector<std::uint8_t> keep(9 * 40);
  for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = i % 3 == 0;
  CheckAttention(spec, {BytesOf(keep)});
}

TEST(CudaAttention, DeepHeadsAreRefused) {
  const auto made = MakeCudaAttention(DenseAttention(2, 2, 129, 8));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(made.error().message, ::testing::HasSubstr("depth 129"));
}

void CheckCell(const CellSpec& spec) {
  SCOPED_TRACE(static_cast<int>(spec.kind));
  const std::size_t states = spec.batch * spec.hidden;
  const bool lstm = spec.kind == CellKind::kLstm, rnn = spec.kind == CellKind::kRnn;
  const std::size_t gates = lstm ? 4 : rnn ? 1 : 3;
  std::vector<Bytes> inputs = {
      BytesOf(RandomFloats(gates * states)),
      BytesOf(RandomFloats(gates * spec.hidden * spec.hidden, -0.3f, 0.3f, 2)),
      BytesOf(RandomFloats(states, -1, 1, 3))};
  const auto cpu = MakeCell(spec);
  ASSERT_TRUE(cpu);
  // c, z and r * h are states; peepholes [3 * hidden] and biases [hidden] have other sizes.
  for (unsigned seed = 4; inputs.size() < cpu->inputs.size(); ++seed) {
    inputs.push_back(BytesOf(RandomFloats(states + 3 * spec.hidden, -1, 1, seed)));
  }
  ExpectLikeCpu(MakeCudaCell(spec), cpu, inputs,
                std::vector<std::size_t>(cpu->outputs.size(), states * 4), 1e-5);
}

TEST(CudaCell, EveryKind) {
  for (const CellKind kind : {CellKind::kLstm, CellKind::kRnn, CellKind::kGruGates,
                              CellKind::kGruState, CellKind::kGruLinear}) {
    CheckCell({.kind = kind, .batch = 3, .hidden = 37});
    CheckCell({.kind = kind, .batch = 1, .hidden = 64});
  }
  CheckCell({.kind = CellKind::kLstm, .batch = 2, .hidden = 20, .peepholes = true});
}

}  // namespace
}  // namespace lagoon::cuda

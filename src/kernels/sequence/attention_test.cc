#include "kernels/sequence/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;
using ::testing::HasSubstr;

/// `bytes` as floats, for operands that are pointers to floats.
Floats BytesAsFloats(const std::vector<std::uint8_t>& bytes) {
  Floats floats(bytes.size() / sizeof(float) + 1);
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

/// Heads one behind the other, each with dense rows.
AttentionView Dense(std::size_t heads, std::size_t rows, std::size_t columns) {
  return {heads * rows * columns, rows * columns, columns, 1};
}

/// Heads side by side in a row.
AttentionView SideBySide(std::size_t heads, std::size_t rows, std::size_t columns) {
  return {rows * heads * columns, columns, heads * columns, 1};
}

AttentionSpec DenseSpec(std::size_t batch, std::size_t heads, std::size_t rows, std::size_t keys,
                        std::size_t depth, std::size_t value_depth) {
  AttentionSpec spec;
  spec.batch = batch;
  spec.heads = heads;
  spec.rows = rows;
  spec.keys = keys;
  spec.depth = depth;
  spec.value_depth = value_depth;
  spec.q = Dense(heads, rows, depth);
  spec.k = Dense(heads, keys, depth);
  spec.v = Dense(heads, keys, value_depth);
  spec.y = Dense(heads, rows, value_depth);
  spec.scale = 0.7F;
  return spec;
}

struct Operands {
  Floats q, k, v, mask;
  std::vector<std::uint8_t> keep;
};

std::size_t At(const AttentionView& view, std::size_t batch, std::size_t head, std::size_t row,
               std::size_t column) {
  return batch * view.batch + head * view.head + row * view.row + column * view.column;
}

std::size_t Room(const AttentionSpec& spec, const AttentionView& view, std::size_t rows,
                 std::size_t columns) {
  return At(view, spec.batch - 1, spec.heads - 1, rows - 1, columns - 1) + 1;
}

Operands Random(const AttentionSpec& spec) {
  Operands o;
  o.q = testing::RandomFloats(Room(spec, spec.q, spec.rows, spec.depth), -1, 1, 1);
  o.k = testing::RandomFloats(Room(spec, spec.k, spec.keys, spec.depth), -1, 1, 2);
  o.v = testing::RandomFloats(Room(spec, spec.v, spec.keys, spec.value_depth), -1, 1, 3);
  o.mask = testing::RandomFloats(Room(spec, spec.mask_view, spec.rows, spec.keys), -3, 0, 4);
  const Floats coins = testing::RandomFloats(Room(spec, spec.keep_view, spec.rows, spec.keys));
  for (const float coin : coins) o.keep.push_back(coin > 0 ? 1 : 0);
  return o;
}

std::vector<double> ScoresOf(const AttentionSpec& s, const Operands& o, std::size_t batch,
                             std::size_t head, std::size_t row) {
  std::vector<double> scores;
  for (std::size_t key = 0; key < s.keys; ++key) {
    double score = 0;
    for (std::size_t c = 0; c < s.depth; ++c) {
      score +=
          double{o.q[At(s.q, batch, head, row, c)]} * o.k[At(s.k, batch, head / s.sharing, key, c)];
    }
    score *= s.scale;
    if (s.keep && (o.keep[At(s.keep_view, batch, head, row, key)] != 0) != s.kept) score = s.fill;
    const std::size_t of_mask = s.mask_batches == 0 ? batch : batch % s.mask_batches;
    if (s.mask) score += o.mask[At(s.mask_view, of_mask, head, row, key)];
    score = std::max(score, double{s.floor});
    scores.push_back(score);
  }
  return scores;
}

Doubles Reference(const AttentionSpec& s, const Operands& o) {
  Doubles y(Room(s, s.y, s.rows, s.value_depth));
  for (std::size_t batch = 0; batch < s.batch; ++batch) {
    for (std::size_t head = 0; head < s.heads; ++head) {
      for (std::size_t row = 0; row < s.rows; ++row) {
        const std::vector<double> scores = ScoresOf(s, o, batch, head, row);
        const double max = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (const double score : scores) sum += std::exp(score - max);
        for (std::size_t c = 0; c < s.value_depth; ++c) {
          double value = 0;
          for (std::size_t key = 0; key < s.keys; ++key) {
            value += std::exp(scores[key] - max) * o.v[At(s.v, batch, head / s.sharing, key, c)];
          }
          y[At(s.y, batch, head, row, c)] = value / sum;
        }
      }
    }
  }
  return y;
}

void Check(const AttentionSpec& spec) {
  SCOPED_TRACE(::testing::Message() << spec.batch << "x" << spec.heads << "x" << spec.rows << " on "
                                    << spec.keys << ", " << spec.depth << " " << spec.value_depth);
  const Operands o = Random(spec);
  std::vector<Floats> inputs{o.q, o.k, o.v};
  if (spec.mask) inputs.push_back(o.mask);
  if (spec.keep) inputs.push_back(BytesAsFloats(o.keep));
  testing::ExpectKernel([&] { return MakeAttention(spec); }, inputs, Reference(spec, o), 1e-5);
}

TEST(Attention, AnySize) {
  for (const std::size_t rows : {1u, 3u, 70u}) {
    for (const std::size_t keys : {1u, 17u, 64u, 129u}) {
      Check(DenseSpec(2, 3, rows, keys, 8, 5));
    }
  }
  Check(DenseSpec(1, 2, 128, 128, 64, 64));
  Check(DenseSpec(1, 1, 5, 300, 300, 33));
}

// One row is a task of its own then.
TEST(Attention, LongRows) {
  Check(DenseSpec(1, 2, 1, 20'000, 16, 16));
  Check(DenseSpec(1, 1, 3, 30'001, 16, 19));
}

TEST(Attention, ReadsHeadsThatLieSideBySide) {
  AttentionSpec spec = DenseSpec(2, 3, 19, 21, 16, 16);
  spec.q = spec.y = SideBySide(3, 19, 16);
  spec.k = spec.v = SideBySide(3, 21, 16);
  Check(spec);
}

TEST(Attention, ReadsTransposedKeys) {
  AttentionSpec spec = DenseSpec(2, 2, 19, 21, 16, 16);
  spec.k.row = 1;
  spec.k.column = 21;
  Check(spec);
}

TEST(Attention, SharesKeysAndValuesAmongHeads) {
  AttentionSpec spec = DenseSpec(2, 6, 7, 21, 16, 16);
  spec.sharing = 3;
  spec.k = spec.v = Dense(2, 21, 16);
  Check(spec);
}

TEST(Attention, AddsAMaskAndKeepsScores) {
  AttentionSpec spec = DenseSpec(2, 3, 7, 21, 16, 16);
  spec.mask = true;
  spec.mask_view = {.batch = 21, .head = 0, .row = 0, .column = 1};
  Check(spec);
  spec.mask_view = {.batch = 0, .head = 7, .row = 1, .column = 0};
  Check(spec);
  spec.keep = true;
  spec.keep_view = {.batch = 0, .head = 0, .row = 21, .column = 1};
  spec.fill = -5;
  Check(spec);
  spec.kept = false;
  Check(spec);
}

TEST(Attention, AMaskOfWindowsRepeatsForEachImage) {
  AttentionSpec spec = DenseSpec(6, 2, 9, 21, 16, 16);
  spec.mask = true;
  spec.mask_view = Dense(2, 9, 21);
  for (const std::size_t windows : {0u, 1u, 2u, 3u, 6u}) {
    spec.mask_batches = windows;
    Check(spec);
  }
}

TEST(Attention, FewRowsReadTheKeysAsTheyLie) {
  for (const std::size_t rows : {1u, 2u, 3u, 4u}) {
    for (const std::size_t depth : {1u, 15u, 16u, 64u, 67u}) {
      AttentionSpec spec = DenseSpec(2, 6, rows, 301, depth, 19);
      spec.sharing = 2;
      spec.k = SideBySide(3, 301, depth);
      spec.v = SideBySide(3, 301, 19);
      Check(spec);
    }
  }
}

TEST(Attention, ScoresBelowTheFloorAreTheFloor) {
  AttentionSpec spec = DenseSpec(1, 2, 7, 21, 16, 16);
  spec.mask = true;
  spec.mask_view = {.batch = 21, .head = 0, .row = 0, .column = 1};
  spec.floor = -1;
  Check(spec);
}

TEST(Attention, WhatIsMaskedCountsForNothing) {
  AttentionSpec spec = DenseSpec(1, 1, 4, 40, 16, 16);
  spec.keep = true;
  spec.keep_view = {.batch = 0, .head = 0, .row = 40, .column = 1};
  spec.fill = -std::numeric_limits<float>::infinity();
  Check(spec);
}

// exp(-95) is below the normal numbers, and products with such numbers are slow.
TEST(Attention, NoScoreIsBelowTheNormalNumbers) {
  AttentionSpec spec = DenseSpec(1, 1, 3, 40, 16, 16);
  spec.mask = true;
  spec.mask_view = {.batch = 0, .head = 0, .row = 0, .column = 1};
  Operands o = Random(spec);
  std::fill(o.q.begin(), o.q.end(), 0.0F);
  std::fill(o.mask.begin(), o.mask.end(), 0.0F);
  o.mask[7] = -95;
  for (std::size_t c = 0; c < 16; ++c) o.v[At(spec.v, 0, 0, 7, c)] = 1e37F;  // 6e-5 of it counts
  Operands without = o;
  for (std::size_t c = 0; c < 16; ++c) without.v[At(spec.v, 0, 0, 7, c)] = 0;
  testing::ExpectKernel([&] { return MakeAttention(spec); }, {o.q, o.k, o.v, o.mask},
                        Reference(spec, without), 1e-6);
}

TEST(Attention, DoesNotReadKeysBehindTheLastOneThatIsKept) {
  // A buffer of keys of which the rows use 1 to 37; behind them lies what no one has written.
  AttentionSpec spec = DenseSpec(1, 2, 37, 90, 16, 16);
  spec.keep = true;
  spec.keep_view = {.batch = 0, .head = 0, .row = 90, .column = 1};
  spec.fill = std::numeric_limits<float>::lowest();
  Operands o = Random(spec);
  for (std::size_t i = 0; i < o.keep.size(); ++i) o.keep[i] = i % 90 <= i / 90 ? 1 : 0;
  const Doubles expected = Reference(spec, o);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t key = 37; key < 90; ++key) {
      o.k[At(spec.k, 0, head, key, 3)] = o.v[At(spec.v, 0, head, key, 5)] =
          std::numeric_limits<float>::quiet_NaN();
    }
  }
  testing::ExpectKernel([&] { return MakeAttention(spec); }, {o.q, o.k, o.v, BytesAsFloats(o.keep)},
                        expected, 1e-5);
}

TEST(Attention, ARowThatKeepsNothingHasTheMeanOfAllValues) {
  AttentionSpec spec = DenseSpec(1, 1, 3, 33, 8, 8);
  spec.keep = true;
  spec.keep_view = {.batch = 0, .head = 0, .row = 33, .column = 1};
  spec.fill = std::numeric_limits<float>::lowest();
  Operands o = Random(spec);
  std::fill(o.keep.begin() + 33, o.keep.begin() + 66, std::uint8_t{0});
  for (const bool kept : {true, false}) {
    spec.kept = kept;
    if (!kept) {
      for (std::uint8_t& keep : o.keep) keep = keep == 0 ? 1 : 0;
    }
    testing::ExpectKernel([&] { return MakeAttention(spec); },
                          {o.q, o.k, o.v, BytesAsFloats(o.keep)}, Reference(spec, o), 1e-5);
  }
}

TEST(Attention, RefusesWhatItCannotCompute) {
  AttentionSpec spec = DenseSpec(1, 3, 4, 8, 16, 16);
  spec.sharing = 2;
  EXPECT_THAT(MakeAttention(spec).error().message, HasSubstr("3 heads that share by 2"));
  spec = DenseSpec(1, 3, 4, kMaxAttentionKeys + 1, 16, 16);
  EXPECT_THAT(MakeAttention(spec).error().message, HasSubstr("131073 keys"));
  spec = DenseSpec(1, 3, 0, 8, 16, 16);
  EXPECT_THAT(MakeAttention(spec).error().message, HasSubstr("rows is 0"));
  spec = DenseSpec(1, 3, 4, 8, 16, 16);
  spec.v.column = 2;
  EXPECT_THAT(MakeAttention(spec).error().message, HasSubstr("columns 2"));
  spec = DenseSpec(4, 3, 4, 8, 16, 16);
  spec.mask_batches = 3;
  EXPECT_THAT(MakeAttention(spec).error().message, HasSubstr("repeats after 3 of a batch of 4"));
}

}  // namespace
}  // namespace lagoon

// What ops that came with the opsets 24 to 28 compute.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan/element.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::FromBytes;
using testing::ModelBuilder;
using testing::RawTensor;
using testing::RunModel;
using testing::ToBytes;
using Floats = std::vector<float>;
using I64 = std::vector<std::int64_t>;

constexpr int kFloat = onnx::TensorProto::FLOAT;
constexpr int kInt64 = onnx::TensorProto::INT64;

Floats Numbers(std::size_t count, std::size_t seed = 0) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * 37 + 11 + seed * 29) % 101) / 50.0f - 1.0f;
  }
  return numbers;
}

void ExpectNear(const testing::Bytes& actual, const std::vector<double>& expected) {
  const Floats values = FromBytes<float>(actual);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], 1e-5) << "element " << i;
  }
}

// One query head and one key head of two columns: which keys does each row see?
struct Sight {
  std::int64_t queries = 3, keys = 5, past = 0;
  I64 lengths = {};  // of two batches; empty: one batch that uses all keys
  bool causal = false;
  std::int64_t left = -1, right = -1;

  std::int64_t batches() const { return lengths.empty() ? 1 : 2; }
  bool Sees(std::int64_t batch, std::int64_t row, std::int64_t key) const {
    const std::int64_t length =
        lengths.empty() ? keys + past : lengths[static_cast<std::size_t>(batch)];
    const std::int64_t at = (lengths.empty() ? past : length - queries) + row;
    return key < length && (!causal || key <= at) && (left < 0 || key >= at - left) &&
           (right < 0 || key <= at + right);
  }
};

std::vector<double> AttendedBy(const Sight& sight, const Floats& q, const Floats& k,
                               const Floats& v) {
  std::vector<double> y;
  const auto all = static_cast<std::size_t>(sight.keys + sight.past);
  for (std::int64_t b = 0; b < sight.batches(); ++b) {
    const auto* const keys = k.data() + static_cast<std::size_t>(b) * all * 2;
    const auto* const values = v.data() + static_cast<std::size_t>(b) * all * 2;
    for (std::int64_t row = 0; row < sight.queries; ++row) {
      const auto* const query = q.data() + (b * sight.queries + row) * 2;
      double sum = 0, first = 0, second = 0;
      for (std::size_t key = 0; key < all; ++key) {
        if (!sight.Sees(b, row, static_cast<std::int64_t>(key))) continue;
        const double weight = std::exp(0.5 * (double{query[0]} * double{keys[2 * key]} +
                                              double{query[1]} * double{keys[2 * key + 1]}));
        sum += weight;
        first += weight * double{values[2 * key]};
        second += weight * double{values[2 * key + 1]};
      }
      y.push_back(sum == 0 ? 0 : first / sum);
      y.push_back(sum == 0 ? 0 : second / sum);
    }
  }
  return y;
}

void ExpectAttention(const Sight& sight) {
  const std::int64_t batches = sight.batches();
  ModelBuilder model(25);
  model.Input("q", {batches, 1, sight.queries, 2}).Input("k", {batches, 1, sight.keys, 2});
  model.Input("v", {batches, 1, sight.keys, 2}).Output("y");
  const auto count = static_cast<std::size_t>(batches * sight.keys * 2);
  const Floats q = Numbers(static_cast<std::size_t>(batches * sight.queries * 2), 1);
  Floats k = Numbers(count, 2), v = Numbers(count, 3);
  std::vector<testing::Bytes> inputs{ToBytes(q), ToBytes(k), ToBytes(v)};
  std::vector<std::string> names{"q", "k", "v"};
  if (sight.past > 0) {
    const auto before = Numbers(static_cast<std::size_t>(sight.past * 2), 4);
    model.Input("p", {1, 1, sight.past, 2});
    names.insert(names.end(), {"", "p", "p"});
    inputs.push_back(ToBytes(before));
    k.insert(k.begin(), before.begin(), before.end());
    v.insert(v.begin(), before.begin(), before.end());
  }
  if (!sight.lengths.empty()) {
    model.Input("n", {2}, kInt64);
    names.insert(names.end(), {"", "", "", "n"});
    inputs.push_back(ToBytes(sight.lengths));
  }
  model.Add("Attention", names, {"y"})
      .Float("scale", 0.5f)
      .Int("is_causal", sight.causal ? 1 : 0)
      .Int("left_window_size", sight.left)
      .Int("right_window_size", sight.right);
  ExpectNear(RunModel(model, inputs)[0], AttendedBy(sight, q, k, v));
}

TEST(NewestOps, AttentionSeesAWindow) {
  ExpectAttention({.left = 1});
  ExpectAttention({.right = 0});
  ExpectAttention({.left = 1, .right = 2});
  ExpectAttention({.past = 2, .causal = true, .left = 2, .right = 3});
  ExpectAttention({.queries = 5, .keys = 2, .left = 0});  // the last rows see no key
}

TEST(NewestOps, AttentionSeesTheKeysInUse) {
  ExpectAttention({.lengths = {4, 5}});
  ExpectAttention({.lengths = {5, 3}, .causal = true});
  ExpectAttention({.lengths = {1, 4}, .causal = true});  // rows without a key are zero
  ExpectAttention({.lengths = {3, 4}, .left = 1, .right = 1});
}

TEST(NewestOps, ShortMaskKeepsNoneOfTheOtherKeys) {
  for (const bool flags : {true, false}) {
    ModelBuilder model(24);
    model.Input("q", {1, 1, 3, 2}).Input("k", {1, 1, 5, 2}).Output("y");
    if (flags) {
      *model.graph().add_initializer() =
          RawTensor<std::uint8_t>("m", onnx::TensorProto::BOOL, {3, 2}, {1, 1, 1, 1, 1, 1});
    } else {
      model.Floats("m", {3, 2}, Floats(6, 0.0f));
    }
    model.Add("Attention", {"q", "k", "k", "m"}, {"y"}).Float("scale", 0.5f);
    const Floats q = Numbers(6, 1), k = Numbers(10, 2);
    const Sight two{.keys = 2};
    ExpectNear(RunModel(model, {ToBytes(q), ToBytes(k)})[0], AttendedBy(two, q, k, k));
  }
}

TEST(NewestOps, AttentionShowsItsScoresWithTheMask) {
  ModelBuilder model(25);
  model.Input("q", {1, 1, 2, 2}).Input("k", {1, 1, 2, 2}).Output("y").Output("s");
  model.Add("Attention", {"q", "k", "k"}, {"y", "", "", "s"})
      .Float("scale", 1)
      .Float("softcap", 2)
      .Int("is_causal", 1)
      .Int("qk_matmul_output_mode", 2);
  const auto y = RunModel(model, {ToBytes(Floats{1, 0, 0, 1}), ToBytes(Floats{2, 1, 4, 3})});
  const Floats scores = FromBytes<float>(y[1]);
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_NEAR(scores[0], 2 * std::tanh(1.0), 1e-5);
  EXPECT_TRUE(std::isinf(scores[1]) && scores[1] < 0);
  EXPECT_NEAR(scores[2], 2 * std::tanh(0.5), 1e-5);
  EXPECT_NEAR(scores[3], 2 * std::tanh(1.5), 1e-5);
}

TEST(NewestOps, SwishAndItsGate) {
  ModelBuilder model(28);
  model.Input("a", {5}).Input("b", {5}).Output("y").Output("z");
  model.Add("Swish", {"a"}, {"y"}).Float("alpha", 0.5f);
  model.Add("SwiGLU", {"a", "b"}, {"z"});
  const Floats a{-3, -0.5f, 0, 1, 4}, b{1, 2, 3, -4, 5};
  const auto results = RunModel(model, {ToBytes(a), ToBytes(b)});
  std::vector<double> y, z;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    y.push_back(x / (1 + std::exp(-0.5 * x)));
    z.push_back(x / (1 + std::exp(-x)) * double{b[i]});
  }
  ExpectNear(results[0], y);
  ExpectNear(results[1], z);
}

TEST(NewestOps, TensorScatterWritesRowsOfACache) {
  for (const bool circular : {false, true}) {
    ModelBuilder model(24);
    model.Input("c", {2, 4, 2}).Input("u", {2, 2, 2}).Input("at", {2}, kInt64).Output("y");
    model.Add("TensorScatter", {"c", "u", "at"}, {"y"})
        .Text("mode", circular ? "circular" : "linear");
    const Floats u{1, 2, 3, 4, 5, 6, 7, 8};
    const auto y =
        RunModel(model, {ToBytes(Floats(16, 0.0f)), ToBytes(u), ToBytes(I64{1, circular ? 3 : 2})});
    const Floats linear{0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8};
    const Floats wrapped{0, 0, 1, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 0, 5, 6};
    EXPECT_EQ(FromBytes<float>(y[0]), circular ? wrapped : linear);
  }
}

TEST(NewestOps, TensorScatterWritesToTheFrontWithoutPlaces) {
  ModelBuilder model(24);
  model.Input("c", {1, 1, 3}).Input("u", {1, 1, 2}).Output("y");
  model.Add("TensorScatter", {"c", "u"}, {"y"}).Int("axis", -1);
  const auto y = RunModel(model, {ToBytes(Floats{1, 2, 3}), ToBytes(Floats{8, 9})});
  EXPECT_EQ(FromBytes<float>(y[0]), (Floats{8, 9, 3}));
}

TEST(NewestOps, CausalConvGoesOnWhereItsStateEnds) {
  // A run over 7 columns, and the same columns in runs of 5 and 2.
  const auto run = [](const Floats& x, const Floats& state) {
    ModelBuilder model(27);
    const auto length = static_cast<std::int64_t>(x.size() / 2);
    model.Input("x", {1, 2, length}).Input("s", {1, 2, 2}).Output("y").Output("t");
    model.Weights("w", {2, 1, 3}).Weights("b", {2});
    model.Add("CausalConvWithState", {"x", "w", "b", "s"}, {"y", "t"}).Text("activation", "silu");
    return RunModel(model, {ToBytes(x), ToBytes(state)});
  };
  const Floats x = Numbers(14), none(4, 0.0f);
  Floats first, second;
  for (std::size_t c = 0; c < 2; ++c) {
    first.insert(first.end(), x.begin() + c * 7, x.begin() + c * 7 + 5);
    second.insert(second.end(), x.begin() + c * 7 + 5, x.begin() + c * 7 + 7);
  }
  const Floats whole = FromBytes<float>(run(x, none)[0]);
  const auto before = run(first, none);
  const auto after = run(second, FromBytes<float>(before[1]));
  const Floats y = FromBytes<float>(after[0]);
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(y[c * 2 + i], whole[c * 7 + 5 + i], 1e-6);
  }
  EXPECT_EQ(FromBytes<float>(after[1]), second);
  const Floats w = Numbers(6), b = Numbers(2);
  const double sum = double{b[0]} + double{w[0]} * double{x[4]} + double{w[1]} * double{x[5]} +
                     double{w[2]} * double{x[6]};
  EXPECT_NEAR(whole[6], sum / (1 + std::exp(-sum)), 1e-6);
}

// [1,steps,..] of 2 heads of the query over 1 state of 2 x 2.
struct Recurrence {
  bool gated = false, delta = false;
  Floats q{}, k{}, v{}, decay{}, beta{};

  std::vector<double> Run(std::vector<double>& s) const {
    std::vector<double> y;
    for (std::size_t t = 0; t < v.size() / 2; ++t) {
      double in[2] = {v[2 * t], v[2 * t + 1]};
      for (std::size_t i = 0; i < 4 && gated; ++i) s[i] *= std::exp(double{decay[2 * t + i / 2]});
      for (std::size_t c = 0; c < 2 && delta; ++c) {
        const double known = double{k[2 * t]} * s[c] + double{k[2 * t + 1]} * s[2 + c];
        in[c] = double{beta[t]} * (in[c] - known);
      }
      for (std::size_t i = 0; i < 4; ++i) s[i] += double{k[2 * t + i / 2]} * in[i % 2];
      for (std::size_t i = 0; i < 4; ++i) {  // head i / 2, column i % 2
        const double* const state = s.data() + i % 2;
        y.push_back(0.5 * (double{q[4 * t + i / 2 * 2]} * state[0] +
                           double{q[4 * t + i / 2 * 2 + 1]} * state[2]));
      }
    }
    return y;
  }
};

TEST(NewestOps, LinearAttentionFollowsItsRecurrence) {
  for (const char* const rule : {"linear", "gated", "delta", "gated_delta"}) {
    Recurrence r{.gated = std::string(rule).starts_with("gated"),
                 .delta = std::string(rule).ends_with("delta")};
    ModelBuilder model(27);
    model.Input("q", {1, 3, 4}).Input("k", {1, 3, 2}).Input("v", {1, 3, 2});
    model.Input("s", {1, 1, 2, 2}).Output("y").Output("t");
    r.q = Numbers(12, 1), r.k = Numbers(6, 2), r.v = Numbers(6, 3);
    r.decay = Numbers(6, 4), r.beta = Numbers(3, 5);
    const Floats state = Numbers(4, 6);
    std::vector<testing::Bytes> inputs{ToBytes(r.q), ToBytes(r.k), ToBytes(r.v), ToBytes(state)};
    std::vector<std::string> names{"q", "k", "v", "s", "", ""};
    if (r.gated) {
      model.Input("d", {1, 3, 2});
      inputs.push_back(ToBytes(r.decay));
      names[4] = "d";
    }
    if (r.delta) {
      model.Input("b", {1, 3, 1});
      inputs.push_back(ToBytes(r.beta));
      names[5] = "b";
    }
    model.Add("LinearAttention", names, {"y", "t"})
        .Text("update_rule", rule)
        .Float("scale", 0.5f)
        .Int("q_num_heads", 2)
        .Int("kv_num_heads", 1);
    std::vector<double> s(state.begin(), state.end());
    const std::vector<double> y = r.Run(s);
    const auto results = RunModel(model, inputs);
    ExpectNear(results[0], y);
    ExpectNear(results[1], s);
  }
}

TEST(NewestOps, BitCastKeepsTheBits) {
  ModelBuilder model(26);
  model.Input("x", {2}).Input("h", {2}, onnx::TensorProto::UINT16).Output("i").Output("f");
  model.Input("b", {3}, onnx::TensorProto::UINT8).Output("flags");
  model.Add("BitCast", {"x"}, {"i"}).Int("to", onnx::TensorProto::INT32);
  model.Add("BitCast", {"h"}, {"half"}).Int("to", onnx::TensorProto::FLOAT16);
  model.Add("Cast", {"half"}, {"f"}).Int("to", kFloat);
  model.Add("BitCast", {"b"}, {"flags"}).Int("to", onnx::TensorProto::BOOL);
  const auto y =
      RunModel(model, {ToBytes(Floats{1, -2}), ToBytes(std::vector<std::uint16_t>{0x3c00, 0xc000}),
                       ToBytes(std::vector<std::uint8_t>{0, 1, 1})});
  EXPECT_EQ(FromBytes<std::int32_t>(y[0]),
            (std::vector<std::int32_t>{0x3f800000, std::bit_cast<std::int32_t>(0xc0000000U)}));
  EXPECT_EQ(FromBytes<float>(y[1]), (Floats{1, -2}));
  EXPECT_EQ(FromBytes<std::uint8_t>(y[2]), (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(NewestOps, BitCastOfAComputedHalfTakesTheRoundedOne) {
  ModelBuilder model(26);
  model.Input("h", {1}, onnx::TensorProto::UINT16).Output("y");
  model.Add("BitCast", {"h"}, {"x"}).Int("to", onnx::TensorProto::FLOAT16);
  model.Add("Add", {"x", "x"}, {"sum"});
  model.Add("BitCast", {"sum"}, {"y"}).Int("to", onnx::TensorProto::INT16);
  const auto y = RunModel(model, {ToBytes(std::vector<std::uint16_t>{0x3c00})});
  EXPECT_EQ(FromBytes<std::int16_t>(y[0]), std::vector<std::int16_t>{0x4000});
}

TEST(NewestOps, BitCastOfConstantsIsAConstant) {
  ModelBuilder model(26);
  model.Input("x", {2}, onnx::TensorProto::INT32).Floats("c", {2}, {1, -2}).Output("y");
  model.Add("BitCast", {"c"}, {"i"}).Int("to", onnx::TensorProto::INT32);
  model.Add("Sub", {"x", "i"}, {"y"});
  const auto y = RunModel(model, {ToBytes(std::vector<std::uint32_t>{0x3f800001, 0xc0000002})});
  EXPECT_EQ(FromBytes<std::int32_t>(y[0]), (std::vector<std::int32_t>{1, 2}));
}

TEST(NewestOps, SpaceToDepthUndoesDepthToSpaceInBothOrders) {
  for (const char* const mode : {"DCR", "CRD"}) {
    ModelBuilder model(28);
    model.Input("x", {1, 8, 3, 5}).Output("y");
    model.Add("DepthToSpace", {"x"}, {"wide"}).Int("blocksize", 2).Text("mode", mode);
    model.Add("SpaceToDepth", {"wide"}, {"y"}).Int("blocksize", 2).Text("mode", mode);
    const Floats x = Numbers(120);
    EXPECT_EQ(FromBytes<float>(RunModel(model, {ToBytes(x)})[0]), x) << mode;
  }
}

TEST(NewestOps, CumProdMultiplies) {
  ModelBuilder model(26);
  model.Input("x", {2, 3}, kInt64).Number("axis", -1).Output("y").Output("z");
  model.Add("CumProd", {"x", "axis"}, {"y"});
  model.Add("CumProd", {"x", "axis"}, {"z"}).Int("exclusive", 1).Int("reverse", 1);
  const auto y = RunModel(model, {ToBytes(I64{1, 2, 3, 4, 5, 0})});
  EXPECT_EQ(FromBytes<std::int64_t>(y[0]), (I64{1, 2, 6, 4, 20, 0}));
  EXPECT_EQ(FromBytes<std::int64_t>(y[1]), (I64{6, 3, 1, 0, 0, 1}));
}

TEST(NewestOps, RangeOfHalvesIsRoundedOnce) {
  ModelBuilder model(27);
  model.Input("x", {4}).Output("y");
  const auto half = [](float value) { return Float16::From(value).bits; };
  for (const auto& [name, value] :
       {std::pair("a", half(2048)), std::pair("b", half(2054)), std::pair("d", half(1.5f))}) {
    *model.graph().add_initializer() =
        RawTensor<std::uint16_t>(name, onnx::TensorProto::FLOAT16, {}, {value});
  }
  model.Add("Range", {"a", "b", "d"}, {"r"});
  model.Add("Cast", {"r"}, {"w"}).Int("to", kFloat);
  model.Add("Add", {"x", "w"}, {"y"});
  const auto y = RunModel(model, {ToBytes(Floats(4, 0.0f))});
  EXPECT_EQ(FromBytes<float>(y[0]), (Floats{2048, 2050, 2052, 2052}));  // 2049.5, 2051, 2052.5
}

}  // namespace
}  // namespace lagoon

// Attention in the forms that exporters write, as one kernel and op by op: where the probabilities
// are an output too, nothing is fused.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ModelBuilder;
using testing::Ops;
using testing::RunModel;
using Floats = std::vector<float>;
using Form = std::function<void(ModelBuilder&)>;

constexpr std::size_t kBatch = 2, kHeads = 3, kRows = 5, kKeys = 7, kDepth = 8;

Bytes Numbers(std::size_t count, std::size_t seed) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * 37 + seed) % 101) / 50.0f - 1.0f;
  }
  Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// "q", "k" and "v" of rank 3, heads and batch merged, from inputs with the heads side by side; and
/// "s", the scores.
void AddMergedScores(ModelBuilder& m) {
  m.Input("x", {kBatch, kRows, kHeads * kDepth}).Input("z", {kBatch, kKeys, kHeads * kDepth});
  m.Ints("x4", {kBatch, kRows, kHeads, kDepth}).Ints("z4", {kBatch, kKeys, kHeads, kDepth});
  m.Ints("x3", {kBatch * kHeads, kRows, kDepth}).Ints("z3", {kBatch * kHeads, kKeys, kDepth});
  m.Ints("s4", {kBatch, kHeads, kRows, kKeys}).Ints("s3", {kBatch * kHeads, kRows, kKeys});
  m.Ints("y4", {kBatch, kHeads, kRows, kDepth});
  const auto heads = [&](const std::string& from, const std::string& to, const std::string& as) {
    m.Add("Reshape", {from, as + "4"}, {to + "a"});
    m.Add("Transpose", {to + "a"}, {to + "b"}).Ints("perm", {0, 2, 1, 3});
    m.Add("Reshape", {to + "b", as + "3"}, {to});
  };
  heads("x", "q", "x");
  heads("z", "k", "z");
  heads("z", "v", "z");
  m.Add("Transpose", {"k"}, {"kt"}).Ints("perm", {0, 2, 1});
  m.Add("MatMul", {"q", "kt"}, {"s"});
}

/// Adds `form`, which computes the operand "t" of the Softmax from "s"; compares "y" of the fused
/// graph with that of the ops.
void Check(const Form& form, const std::vector<Bytes>& more) {
  std::vector<Bytes> inputs{Numbers(kBatch * kRows * kHeads * kDepth, 1),
                            Numbers(kBatch * kKeys * kHeads * kDepth, 2)};
  inputs.insert(inputs.end(), more.begin(), more.end());
  std::vector<Floats> results;
  for (const bool fused : {true, false}) {
    ModelBuilder m;
    AddMergedScores(m);
    form(m);
    m.Add("Softmax", {"t"}, {"p"}).Int("axis", -1);
    m.Add("MatMul", {"p", "v"}, {"o"});
    m.Add("Reshape", {"o", "y4"}, {"o4"});
    m.Add("Transpose", {"o4"}, {"y"}).Ints("perm", {0, 2, 1, 3});
    m.Output("y");
    if (!fused) m.Output("p");
    const Result<Graph> graph = m.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const bool has = Ops(*graph).find("Attention") != std::string::npos;
    ASSERT_EQ(has, fused) << Ops(*graph);
    ASSERT_EQ(Ops(*graph).find("MatMul") == std::string::npos, fused) << Ops(*graph);
    const Bytes y = RunModel(m, inputs)[0];
    Floats floats(y.size() / sizeof(float));
    std::memcpy(floats.data(), y.data(), y.size());
    results.push_back(std::move(floats));
  }
  ASSERT_EQ(results[0].size(), kBatch * kRows * kHeads * kDepth);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    ASSERT_NEAR(results[0][i], results[1][i], 2e-6) << "element " << i;
  }
}

TEST(AttentionForms, MergedHeadsWithAScale) {
  Check(
      [](ModelBuilder& m) {
        m.Floats("eight", {}, {8});
        m.Add("Div", {"s", "eight"}, {"t"});
      },
      {});
}

TEST(AttentionForms, AMaskWhereBatchAndHeadsAreSplit) {
  Check(
      [](ModelBuilder& m) {
        m.Input("mask", {kBatch, 1, kRows, kKeys});
        m.Add("Reshape", {"s", "s4"}, {"a"});
        m.Add("Add", {"a", "mask"}, {"b"});
        m.Add("Reshape", {"b", "s3"}, {"t"});
      },
      {Numbers(kBatch * kRows * kKeys, 3)});
}

TEST(AttentionForms, AMaskOfMergedHeads) {
  Check(
      [](ModelBuilder& m) {
        m.Input("mask", {kBatch * kHeads, 1, kKeys});
        m.Add("Add", {"mask", "s"}, {"t"});
      },
      {Numbers(kBatch * kHeads * kKeys, 3)});
}

TEST(AttentionForms, TwoMasksAndALeastScore) {
  Check(
      [](ModelBuilder& m) {
        m.Input("bias", {1, kHeads, kRows, 1}).Input("mask", {kBatch, 1, 1, kKeys});
        m.Floats("least", {}, {-0.5F});
        m.Add("Reshape", {"s", "s4"}, {"a"});
        m.Add("Add", {"a", "bias"}, {"b"});
        m.Add("Add", {"b", "mask"}, {"c"});
        m.Add("Max", {"c", "least"}, {"d"});
        m.Add("Reshape", {"d", "s3"}, {"t"});
      },
      {Numbers(kHeads * kRows, 3), Numbers(kBatch * kKeys, 4)});
}

TEST(AttentionForms, AChoiceBeforeAMaskAndASummandOfZeros) {
  Check(
      [](ModelBuilder& m) {
        m.Input("mask", {kBatch, 1, 1, kKeys}).Floats("low", {}, {-3});
        m.Floats("zeros", {1}, {0}).Floats("none", {1, 1, 1}, {0});
        m.Add("Add", {"s", "none"}, {"n"});
        m.Add("Reshape", {"n", "s4"}, {"a"});
        m.Add("Greater", {"mask", "zeros"}, {"keep"});
        m.Add("Where", {"keep", "a", "low"}, {"b"});
        m.Add("Add", {"b", "mask"}, {"c"});
        m.Add("Reshape", {"c", "s3"}, {"t"});
      },
      {Numbers(kBatch * kKeys, 4)});
}

/// Windows of images as the batch, as Swin transformers have them.
struct Windows {
  std::int64_t images = 1, windows = 1;
  bool fused = true;  // whether all is one node
};

/// Computes "y" from "s", the scores [images * windows, kHeads, 5, 7]. `form` adds masks: "s5" and
/// "s4" are the shapes with and without an axis of windows. Compares with the ops one by one.
void CheckWindows(const Windows& of, const Form& form, const std::vector<Bytes>& more) {
  SCOPED_TRACE(::testing::Message() << of.images << " images of " << of.windows << " windows");
  const std::int64_t batch = of.images * of.windows;
  const auto size = static_cast<std::size_t>(batch);
  std::vector<Bytes> inputs{Numbers(size * kRows * kHeads * kDepth, 1),
                            Numbers(size * kKeys * kHeads * kDepth, 2)};
  inputs.insert(inputs.end(), more.begin(), more.end());
  std::vector<Floats> results;
  for (const bool whole : {true, false}) {
    ModelBuilder m;
    m.Input("x", {batch, kRows, kHeads, kDepth}).Input("z", {batch, kKeys, kHeads, kDepth});
    m.Ints("s4", {batch, kHeads, kRows, kKeys});
    m.Ints("s5", {of.images, of.windows, kHeads, kRows, kKeys});
    m.Add("Transpose", {"x"}, {"q"}).Ints("perm", {0, 2, 1, 3});
    m.Add("Transpose", {"z"}, {"k"}).Ints("perm", {0, 2, 3, 1});
    m.Add("Transpose", {"z"}, {"v"}).Ints("perm", {0, 2, 1, 3});
    m.Add("MatMul", {"q", "k"}, {"s"});
    form(m);
    m.Add("Softmax", {"t"}, {"p"}).Int("axis", -1);
    m.Add("MatMul", {"p", "v"}, {"o"});
    m.Add("Transpose", {"o"}, {"y"}).Ints("perm", {0, 2, 1, 3});
    m.Output("y");
    if (!whole) m.Output("p");
    const Result<Graph> graph = m.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const bool has = Ops(*graph).find("Attention") != std::string::npos;
    ASSERT_EQ(has, whole && of.fused) << Ops(*graph);
    results.push_back(testing::FromBytes<float>(RunModel(m, inputs)[0]));
  }
  ASSERT_EQ(results[0].size(), size * kRows * kHeads * kDepth);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    ASSERT_NEAR(results[0][i], results[1][i], 2e-6) << "element " << i;
  }
}

/// A bias of all windows, then a mask of the first dims `mask`, each row of keys its own.
Form BiasAndMask(const std::vector<std::int64_t>& mask, bool bias_last = false) {
  return [mask, bias_last](ModelBuilder& m) {
    std::vector<std::int64_t> dims = mask;
    dims.insert(dims.end(), {1, kRows, kKeys});
    m.Input("bias", {1, kHeads, kRows, kKeys}).Input("mask", dims);
    if (!bias_last) m.Add("Add", {"s", "bias"}, {"a"});
    m.Add("Reshape", {bias_last ? "s" : "a", "s5"}, {"b"});
    m.Add("Add", {"b", "mask"}, {"c"});
    m.Add("Reshape", {"c", "s4"}, {bias_last ? "d" : "t"});
    if (bias_last) m.Add("Add", {"bias", "d"}, {"t"});
  };
}

TEST(AttentionForms, AMaskOfWindows) {
  for (const std::int64_t images : {1, 2, 3}) {
    for (const std::int64_t windows : {1, 2, 4}) {
      const std::vector<Bytes> masks{Numbers(kHeads * kRows * kKeys, 3),
                                     Numbers(static_cast<std::size_t>(windows) * kRows * kKeys, 4)};
      CheckWindows({images, windows}, BiasAndMask({1, windows}), masks);
      CheckWindows({images, windows}, BiasAndMask({windows}), masks);
      CheckWindows({images, windows}, BiasAndMask({windows}, /*bias_last=*/true), masks);
      const auto alone = [&](ModelBuilder& m) {
        m.Input("mask", {windows, 1, kRows, kKeys});
        m.Add("Reshape", {"s", "s5"}, {"a"});
        m.Add("Add", {"mask", "a"}, {"b"});
        m.Add("Reshape", {"b", "s4"}, {"t"});
      };
      CheckWindows({images, windows}, alone, {masks[1]});
    }
  }
}

TEST(AttentionForms, AMaskOfEachWindowOfEachImage) {
  const std::vector<Bytes> masks{Numbers(kHeads * kRows * kKeys, 3), Numbers(6 * kRows * kKeys, 4)};
  CheckWindows({2, 3}, BiasAndMask({2, 3}), masks);
}

/// All windows of an image share the mask: the batch neither repeats it nor divides it.
TEST(AttentionForms, AMaskOfImagesIsAddedByItself) {
  const std::vector<Bytes> masks{Numbers(kHeads * kRows * kKeys, 3), Numbers(2 * kRows * kKeys, 4)};
  CheckWindows({2, 3, /*fused=*/false}, BiasAndMask({2, 1}), masks);
  CheckWindows({2, 1}, BiasAndMask({2, 1}), masks);
}

/// The second mask has a batch that only its own tensor divides into images and windows.
TEST(AttentionForms, MasksWhoseSumHasNoShapeAreAddedOneByOne) {
  const auto form = [](ModelBuilder& m) {
    m.Input("bias", {4, kHeads, kRows, 1}).Input("mask", {2, 1, 1, kKeys});
    m.Add("Add", {"s", "bias"}, {"a"});
    m.Add("Reshape", {"a", "s5"}, {"b"});
    m.Add("Add", {"b", "mask"}, {"c"});
    m.Add("Reshape", {"c", "s4"}, {"t"});
  };
  const std::vector<Bytes> masks{Numbers(4 * kHeads * kRows, 3), Numbers(2 * kKeys, 4)};
  CheckWindows({2, 2, /*fused=*/false}, form, masks);
}

TEST(AttentionForms, AChoiceForEachWindow) {
  const auto form = [](ModelBuilder& m) {
    m.Input("mask", {2, 1, kRows, kKeys}).Floats("low", {}, {-3}).Floats("zero", {1}, {0});
    m.Add("Reshape", {"s", "s5"}, {"a"});
    m.Add("Greater", {"mask", "zero"}, {"keep"});
    m.Add("Where", {"keep", "a", "low"}, {"b"});
    m.Add("Reshape", {"b", "s4"}, {"t"});
  };
  const std::vector<Bytes> masks{Numbers(2 * kRows * kKeys, 3)};
  CheckWindows({1, 2}, form, masks);
  CheckWindows({2, 2, /*fused=*/false}, form, masks);
}

/// The axis of windows is one of heads: three heads of two windows are no two heads of three.
TEST(AttentionForms, HeadsThatAReshapeDividesOtherwise) {
  const auto form = [](ModelBuilder& m) {
    m.Input("mask", {3, 1, kRows, kKeys}).Ints("other", {1, 3, 2, kRows, kKeys});
    m.Add("Reshape", {"s", "other"}, {"a"});
    m.Add("Add", {"a", "mask"}, {"b"});
    m.Add("Reshape", {"b", "s4"}, {"t"});
  };
  CheckWindows({1, 2, /*fused=*/false}, form, {Numbers(3 * kRows * kKeys, 3)});
}

/// Heads of which each has two rows of the queries are no heads of the keys.
TEST(AttentionForms, OperandsThatDivideOtherwiseAreReadMerged) {
  ModelBuilder m;
  m.Input("q", {4, 5, 8}).Input("z", {2, 2, 7, 8}).Input("w", {4, 1, 7, 8}).Output("y");
  m.Ints("z3", {4, 7, 8}).Ints("s4", {1, 4, 5, 7}).Ints("s3", {4, 5, 7});
  m.Input("mask", {1, 4, 1, 7});
  m.Add("Reshape", {"z", "z3"}, {"k"});
  m.Add("Reshape", {"w", "z3"}, {"v"});
  m.Add("Transpose", {"k"}, {"kt"}).Ints("perm", {0, 2, 1});
  m.Add("MatMul", {"q", "kt"}, {"s"});
  m.Add("Reshape", {"s", "s4"}, {"a"});
  m.Add("Add", {"a", "mask"}, {"b"});
  m.Add("Reshape", {"b", "s3"}, {"t"});
  m.Add("Softmax", {"t"}, {"p"}).Int("axis", -1);
  m.Add("MatMul", {"p", "v"}, {"y"});
  std::vector<Bytes> inputs{Numbers(160, 1), Numbers(224, 2), Numbers(224, 3), Numbers(28, 4)};
  const Bytes fused = RunModel(m, inputs)[0];
  m.Output("p");
  const Bytes open = RunModel(m, inputs)[0];
  ASSERT_EQ(fused.size(), open.size());
  for (std::size_t i = 0; i < fused.size(); i += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, fused.data() + i, sizeof(float));
    std::memcpy(&b, open.data() + i, sizeof(float));
    ASSERT_NEAR(a, b, 2e-6) << "byte " << i;
  }
}

/// Attention of 4 heads, of which 2 share keys and values. `axis`: along which keys are repeated.
/// 2: neighbouring heads share them, 1: they do not. `values`: of each head its own.
void CheckShared(std::int64_t axis, bool values, bool shares) {
  constexpr std::int64_t kShared = 2;
  std::vector<Floats> results;
  for (const bool fused : {true, false}) {
    ModelBuilder m;
    m.Input("q", {kBatch, 2 * kShared, kRows, kDepth}).Input("k", {kBatch, kShared, kKeys, kDepth});
    m.Ints("axis", {axis}).Ints("wide", {kBatch, kShared, 2, kKeys, kDepth});
    m.Ints("heads", {kBatch, 2 * kShared, kKeys, kDepth});
    const auto repeat = [&](const std::string& from, const std::string& to) {
      m.Add("Unsqueeze", {from, "axis"}, {to + "u"});
      m.Add("Expand", {to + "u", "wide"}, {to + "w"});
      m.Add("Reshape", {to + "w", "heads"}, {to});
    };
    m.Input("v", {kBatch, values ? 2 * kShared : kShared, kKeys, kDepth});
    repeat("k", "ks");
    if (!values) repeat("v", "vs");
    m.Add("Transpose", {"ks"}, {"kt"}).Ints("perm", {0, 1, 3, 2});
    m.Add("MatMul", {"q", "kt"}, {"s"});
    m.Add("Softmax", {"s"}, {"p"}).Int("axis", -1);
    m.Add("MatMul", {"p", values ? "v" : "vs"}, {"y"});
    m.Output("y");
    if (!fused) m.Output("p");
    const Result<Graph> graph = m.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    EXPECT_EQ(Ops(*graph).find("Attention") != std::string::npos, fused) << Ops(*graph);
    EXPECT_EQ(Ops(*graph).find("Expand") == std::string::npos, fused && shares) << Ops(*graph);
    const std::size_t of_v = values ? 2 * kShared : kShared;
    const std::vector<Bytes> inputs{Numbers(kBatch * 2 * kShared * kRows * kDepth, 1),
                                    Numbers(kBatch * kShared * kKeys * kDepth, 2),
                                    Numbers(kBatch * of_v * kKeys * kDepth, 3)};
    results.push_back(testing::FromBytes<float>(RunModel(m, inputs)[0]));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    ASSERT_NEAR(results[0][i], results[1][i], 2e-6) << "element " << i;
  }
}

TEST(AttentionForms, NeighbouringHeadsReadTheKeysThatTheyShareAsTheyAre) {
  CheckShared(2, /*values=*/false, /*shares=*/true);
}

TEST(AttentionForms, OtherRepetitionsOfKeysAreComputed) {
  CheckShared(1, /*values=*/false, /*shares=*/false);
  CheckShared(2, /*values=*/true, /*shares=*/false);
}

}  // namespace
}  // namespace lagoon

// What models answer where a rule is easy to miss: parts that nothing reads, NaN, rows without
// keys, padding, positions in the middle of two pixels, random numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "plan/element.h"
#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::FromBytes;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::RunModel;
using testing::ToBytes;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Floats Answer(const ModelBuilder& model, const std::vector<Bytes>& inputs, std::size_t output = 0) {
  return FromBytes<float>(RunModel(model, inputs)[output]);
}

Floats CountedTo(std::size_t count) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i);
  return numbers;
}

TEST(Answers, SplitWhoseLastPartsNothingReads) {
  for (const std::string read : {"a", "b", "c"}) {
    for (const std::int64_t opset : {11, 13}) {
      ModelBuilder model(opset);
      model.Input("x", {1, 6}).Output("y");
      if (opset == 11) {
        model.Add("Split", {"x"}, {"a", "b", "c"}).Int("axis", 1).Ints("split", {1, 2, 3});
      } else {
        model.Ints("sizes", {1, 2, 3});
        model.Add("Split", {"x", "sizes"}, {"a", "b", "c"}).Int("axis", 1);
      }
      model.Add("Neg", {read}, {"y"});
      const std::size_t part = static_cast<std::size_t>(read[0] - 'a');
      const Floats expected[] = {{0}, {-1, -2}, {-3, -4, -5}};
      EXPECT_EQ(Answer(model, {ToBytes(CountedTo(6))}), expected[part]) << read << opset;
    }
  }
}

TEST(Answers, NanGoesThroughMaximumAndMinimum) {
  constexpr std::size_t kWidth = 37;  // whole vectors and a rest
  for (std::size_t at = 0; at < kWidth; ++at) {
    Floats x = CountedTo(kWidth);
    x[at] = kNan;
    for (const std::string op : {"Max", "Min"}) {
      ModelBuilder model;
      model.Input("x", {1, kWidth}).Output("y").Output("z").Floats("c", {1}, {17});
      model.Add(op, {"x", "c"}, {"y"});
      model.Add(op, {"c", "x"}, {"z"});
      const std::vector<Bytes> both = RunModel(model, {ToBytes(x)});
      for (const Bytes& one : both) {
        const Floats y = FromBytes<float>(one);
        for (std::size_t i = 0; i < kWidth; ++i) EXPECT_EQ(std::isnan(y[i]), i == at) << op << i;
      }
    }
    for (const std::string op : {"ReduceMax", "ReduceMin"}) {
      ModelBuilder rows;
      rows.Input("x", {1, kWidth}).Output("y");
      rows.Add(op, {"x"}, {"y"}).Ints("axes", {1});
      EXPECT_TRUE(std::isnan(Answer(rows, {ToBytes(x)})[0])) << op << at;
      ModelBuilder columns;
      columns.Input("x", {kWidth, 1}).Input("k", {1, 5}).Output("y");
      columns.Add("Add", {"x", "k"}, {"wide"});
      columns.Add(op, {"wide"}, {"y"}).Ints("axes", {0});
      EXPECT_THAT(Answer(columns, {ToBytes(x), ToBytes(CountedTo(5))}), Each(::testing::IsNan()));
    }
    ModelBuilder arg;
    arg.Input("x", {1, kWidth}).Output("most").Output("least");
    arg.Add("ArgMax", {"x"}, {"most"}).Int("axis", 1);
    arg.Add("ArgMin", {"x"}, {"least"}).Int("axis", 1);
    for (const Bytes& index : RunModel(arg, {ToBytes(x)})) {
      EXPECT_THAT(FromBytes<std::int64_t>(index), ElementsAre(at));
    }
  }
}

TEST(Answers, NanGoesThroughMaximaOfWindows) {
  for (std::size_t at = 0; at < 9; ++at) {
    Floats x = CountedTo(9);
    x[at] = kNan;
    ModelBuilder image;
    image.Input("x", {1, 1, 3, 3}).Output("y");
    image.Add("MaxPool", {"x"}, {"y"}).Ints("kernel_shape", {3, 3});
    EXPECT_TRUE(std::isnan(Answer(image, {ToBytes(x)})[0])) << at;
    ModelBuilder indexed;
    indexed.Input("x", {1, 1, 9}).Output("y").Output("i");
    indexed.Add("MaxPool", {"x"}, {"y", "i"}).Ints("kernel_shape", {9});
    const std::vector<Bytes> outputs = RunModel(indexed, {ToBytes(x)});
    EXPECT_TRUE(std::isnan(FromBytes<float>(outputs[0])[0])) << at;
    EXPECT_THAT(FromBytes<std::int64_t>(outputs[1]), ElementsAre(at));
  }
}

TEST(Answers, SoftmaxOfARowWithNanIsNan) {
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    for (const std::size_t at : {0, 5, 36}) {
      Floats x = CountedTo(37);
      x[at] = kNan;
      ModelBuilder model;
      model.Input("x", {1, 37}).Output("y");
      model.Add(op, {"x"}, {"y"}).Int("axis", 1);
      EXPECT_THAT(Answer(model, {ToBytes(x)}), Each(::testing::IsNan())) << op << at;
    }
  }
}

TEST(Answers, LpNormalizationOfZerosIsZero) {
  for (const std::int64_t p : {1, 2}) {
    ModelBuilder model;
    model.Input("x", {2, 3}).Output("y");
    model.Add("LpNormalization", {"x"}, {"y"}).Int("axis", 1).Int("p", p);
    const Floats y = Answer(model, {ToBytes(Floats{0, 0, 0, 0, 2, 0})});
    EXPECT_THAT(y, ElementsAre(0, 0, 0, 0, 1, 0)) << p;
  }
}

/// Attention of two queries over three keys; the keys are zeros, so that the answer is the mean of
/// the values that a row keeps.
ModelBuilder Attention(bool flags, bool constant, const Bytes& mask) {
  const int type = flags ? onnx::TensorProto::BOOL : onnx::TensorProto::FLOAT;
  ModelBuilder model(23);
  model.Input("q", {1, 1, 2, 4}).Input("v", {1, 1, 3, 4}).Output("y").Output("weights");
  model.Floats("k", {1, 1, 3, 4}, Floats(12));
  if (constant) {
    *model.graph().add_initializer() = testing::RawTensor("m", type, {2, 3}, mask);
  } else {
    model.Input("m", {2, 3}, type);
  }
  model.Add("Attention", {"q", "k", "v", "m"}, {"y", "", "", "weights"})
      .Int("qk_matmul_output_mode", 3);
  return model;
}

TEST(Answers, AttentionWithoutAnyKeyIsZero) {
  const Floats v{3, 0, 0, 1, 6, 0, 0, 1, 9, 0, 0, 1};
  const Bytes floats = ToBytes(Floats{0, -kInfinity, 0, -kInfinity, -kInfinity, -kInfinity});
  const Bytes flags = ToBytes(std::vector<char>{1, 0, 1, 0, 0, 0});
  for (const bool are_flags : {false, true}) {
    for (const bool constant : {false, true}) {
      const Bytes& mask = are_flags ? flags : floats;
      std::vector<Bytes> inputs{ToBytes(Floats(8, 1)), ToBytes(v)};
      if (!constant) inputs.push_back(mask);
      const auto answer = RunModel(Attention(are_flags, constant, mask), inputs);
      EXPECT_THAT(FromBytes<float>(answer[0]), ElementsAre(6, 0, 0, 1, 0, 0, 0, 0));
      EXPECT_THAT(FromBytes<float>(answer[1]), ElementsAre(0.5, 0, 0.5, 0, 0, 0));
    }
  }
}

// y[i] = the sum of the window's elements, divided by the number of places in x and its padding.
Floats Averages(const Floats& x, std::int64_t kernel, std::int64_t stride, std::int64_t begin,
                std::int64_t end, std::int64_t count) {
  Floats y;
  const auto size = static_cast<std::int64_t>(x.size());
  for (std::int64_t out = 0; out < count; ++out) {
    float sum = 0, places = 0;
    for (std::int64_t at = out * stride - begin; at < out * stride - begin + kernel; ++at) {
      if (at >= 0 && at < size) sum += x[static_cast<std::size_t>(at)];
      if (at < size + end) ++places;
    }
    y.push_back(sum / places);
  }
  return y;
}

TEST(Answers, AveragePoolCountsPaddingButNotWhatCeilModeAdds) {
  struct Case {
    std::int64_t size, kernel, stride, begin, end, count;
  };
  for (const auto& [size, kernel, stride, begin, end, count] :
       {Case{4, 3, 2, 1, 1, 3}, Case{7, 3, 3, 0, 1, 3}, Case{7, 4, 3, 1, 0, 3}}) {
    const Floats x = CountedTo(static_cast<std::size_t>(size));
    for (const std::int64_t before : {0, 1, 2}) {  // axes of one element before the padded one
      Dims dims(static_cast<std::size_t>(before) + 3, 1);
      dims.back() = size;
      const std::size_t axes = dims.size() - 2;
      std::vector<std::int64_t> window(axes, 1), strides(axes, 1), pads(2 * axes, 0);
      window.back() = kernel;
      strides.back() = stride;
      pads[axes - 1] = begin;
      pads.back() = end;
      ModelBuilder model;
      model.Input("x", dims).Output("y");
      model.Add("AveragePool", {"x"}, {"y"})
          .Ints("kernel_shape", window)
          .Ints("strides", strides)
          .Ints("pads", pads)
          .Int("ceil_mode", 1)
          .Int("count_include_pad", 1);
      const Floats expected = Averages(x, kernel, stride, begin, end, count);
      EXPECT_THAT(Answer(model, {ToBytes(x)}), ::testing::Pointwise(FloatNear(1e-5F), expected))
          << size << " " << before;
    }
  }
}

ModelBuilder Resize(std::int64_t from, const Floats& scales, std::int64_t to,
                    const std::function<void(NodeRef)>& set) {
  ModelBuilder model(13);
  model.Input("x", {1, from}).Output("y").Floats("scales", {2}, scales).Ints("sizes", {1, to});
  std::vector<std::string> inputs{"x", "", "scales"};
  if (to != 0) inputs = {"x", "", "", "sizes"};
  set(model.Add("Resize", inputs, {"y"}));
  return model;
}

TEST(Answers, ResizeToTheNearestPixelKnowsTheMiddle) {
  // Elements 1 and 4 lie at 4.5 and 14.5.
  for (const std::int64_t to : {0, 6}) {
    for (const bool up : {false, true}) {
      const ModelBuilder model = Resize(20, {1, 0.3F}, to, [&](NodeRef n) {
        n.Text("nearest_mode", up ? "round_prefer_ceil" : "round_prefer_floor");
      });
      const Floats y = Answer(model, {ToBytes(CountedTo(20))});
      EXPECT_EQ(y[1], up ? 5 : 4) << to;
      EXPECT_EQ(y[4], up ? 15 : 14) << to;
    }
  }
}

TEST(Answers, ResizeThatAlignsCornersEndsAtTheLastPixel) {
  for (const std::string mode : {"linear", "nearest", "cubic"}) {
    for (const float scale : {0.6F, 1.7F, 2.3F}) {
      const ModelBuilder model = Resize(7, {1, scale}, 0, [&](NodeRef n) {
        n.Text("coordinate_transformation_mode", "align_corners").Text("mode", mode);
      });
      const Floats y = Answer(model, {ToBytes(CountedTo(7))});
      EXPECT_THAT(y.front(), FloatNear(0, 1e-5F)) << mode << scale;
      EXPECT_THAT(y.back(), FloatNear(6, 1e-5F)) << mode << scale;
    }
  }
}

// x / sqrt(mean of x * x): 300 * 300 is beyond FP16.
TEST(Answers, ValuesBetweenNodesOfHalvesStayInFloat32) {
  ModelBuilder model;
  model.Input("x", {1, 4}, onnx::TensorProto::FLOAT16).Output("square").Output("y");
  model.Add("Mul", {"x", "x"}, {"square"});
  model.Add("Transpose", {"square"}, {"turned"}).Ints("perm", {1, 0});
  model.Add("ReduceMean", {"turned"}, {"mean"}).Ints("axes", {0});
  model.Add("Sqrt", {"mean"}, {"root"});
  model.Add("Div", {"x", "root"}, {"y"});
  std::vector<Float16> x;
  for (const float number : {300.0F, 1.0F, 2.0F, 3.0F}) x.push_back(Float16::From(number));
  const std::vector<Bytes> outputs = RunModel(model, {ToBytes(x)});
  const auto square = FromBytes<Float16>(outputs[0]), y = FromBytes<Float16>(outputs[1]);
  EXPECT_TRUE(std::isinf(static_cast<float>(square[0])));
  EXPECT_EQ(static_cast<float>(square[3]), 9);
  EXPECT_NEAR(static_cast<float>(y[0]), 2, 0.002);
  EXPECT_NEAR(static_cast<float>(y[1]), 1 / 150.0, 0.0001);
}

TEST(Answers, TransposeOfManyAxes) {
  constexpr std::int64_t kAxes = 12;
  ModelBuilder model;
  model.Input("x", {1 << kAxes}).Output("y").Ints("split", Dims(kAxes, 2));
  model.Ints("join", {1 << kAxes});
  std::vector<std::int64_t> perm;
  for (std::int64_t i = 0; i < kAxes; ++i) perm.push_back((i * 5 + 2) % kAxes);
  model.Add("Reshape", {"x", "split"}, {"r"});
  model.Add("Transpose", {"r"}, {"t"}).Ints("perm", perm);
  model.Add("Reshape", {"t", "join"}, {"y"});
  const Floats y = Answer(model, {ToBytes(CountedTo(1 << kAxes))});
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::size_t from = 0;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      const std::size_t bit = i >> (kAxes - 1 - axis) & 1;
      from |= bit << (kAxes - 1 - static_cast<std::size_t>(perm[axis]));
    }
    ASSERT_EQ(y[i], static_cast<float>(from)) << i;
  }
}

TEST(Answers, RandomNumbersHaveTheirDistributionAndStayTheSame) {
  ModelBuilder model;
  model.Input("x", {100, 100}).Output("n").Output("u").Output("other");
  model.Add("RandomNormalLike", {"x"}, {"n"}).Float("mean", 3).Float("scale", 2).Float("seed", 7);
  model.Add("RandomUniform", {}, {"u"}).Ints("shape", {10000}).Float("low", -1).Float("high", 5);
  model.Add("RandomNormalLike", {"x"}, {"other"}).Float("seed", 7);
  const std::vector<Bytes> first = RunModel(model, {Bytes(40000)});
  EXPECT_EQ(RunModel(model, {Bytes(40000)}), first);
  const auto moments = [](const Floats& numbers) {
    double sum = 0, squares = 0;
    for (const float number : numbers) sum += number;
    const double mean = sum / static_cast<double>(numbers.size());
    for (const float number : numbers) squares += (number - mean) * (number - mean);
    return std::pair(mean, std::sqrt(squares / static_cast<double>(numbers.size())));
  };
  const Floats normal = FromBytes<float>(first[0]), uniform = FromBytes<float>(first[1]);
  EXPECT_NEAR(moments(normal).first, 3, 0.1);
  EXPECT_NEAR(moments(normal).second, 2, 0.1);
  EXPECT_NEAR(moments(uniform).first, 2, 0.1);
  EXPECT_NEAR(moments(uniform).second, 6 / std::sqrt(12), 0.1);
  EXPECT_GE(*std::ranges::min_element(uniform), -1);
  EXPECT_LE(*std::ranges::max_element(uniform), 5);
  EXPECT_EQ(std::set<float>(uniform.begin(), uniform.end()).size() > 9000, true);
  EXPECT_NE(normal[0], 3 + 2 * FromBytes<float>(first[2])[0]) << "another node, other numbers";
}

TEST(Answers, DrawsFollowTheirProbabilities) {
  ModelBuilder coin(15);
  coin.Input("p", {3, 1}).Output("y").Ints("shape", {3, 4000});
  coin.Add("Expand", {"p", "shape"}, {"wide"});
  coin.Add("Bernoulli", {"wide"}, {"drawn"});
  coin.Add("ReduceMean", {"drawn"}, {"y"}).Ints("axes", {1});
  const Floats means = Answer(coin, {ToBytes(Floats{0, 0.25F, 1})});
  EXPECT_EQ(means[0], 0);
  EXPECT_NEAR(means[1], 0.25, 0.05);
  EXPECT_EQ(means[2], 1);

  ModelBuilder dice(15);
  dice.Input("p", {1, 3}).Output("y");
  dice.Add("Log", {"p"}, {"logs"});
  dice.Add("Multinomial", {"logs"}, {"y"}).Int("sample_size", 4000);
  std::vector<double> counts(3);
  for (const std::int32_t drawn :
       FromBytes<std::int32_t>(RunModel(dice, {ToBytes(Floats{0.5F, 0, 0.5F})})[0])) {
    counts.at(static_cast<std::size_t>(drawn)) += 1;
  }
  EXPECT_NEAR(counts[0] / 4000, 0.5, 0.05);
  EXPECT_EQ(counts[1], 0);
}

}  // namespace
}  // namespace lagoon

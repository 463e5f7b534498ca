// Ops along axes so long that their lines are cut into pieces.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "program/testing/typed_graph.h"

namespace lagoon {
namespace {

using testing::FromBytes;
using testing::ToBytes;
using testing::TypedGraph;

std::vector<float> Random(std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-4, 4);
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return numbers(random); });
  return values;
}

/// A graph of one op on [outer, axis, inner], along the middle axis.
struct LineOp {
  std::int64_t outer = 1, axis = 1, inner = 1;
  DataType type = DataType::kFloat32;

  Dims dims() const { return {outer, axis, inner}; }
  std::size_t count() const { return static_cast<std::size_t>(outer * axis * inner); }
  std::size_t At(std::int64_t o, std::int64_t a, std::int64_t i) const {
    return static_cast<std::size_t>((o * axis + a) * inner + i);
  }
  template <typename F>
  void ForLines(F&& visit) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) visit(o, i);
    }
  }
  template <typename Y, typename X>
  std::vector<Y> Run(const std::string& op, const std::vector<X>& x, DataType to,
                     const Dims& dims_of_y, std::map<std::string, Attribute> attributes) const {
    TypedGraph graph;
    const ValueId in = graph.Input(type, dims());
    graph.Output(graph.Op(op, {in}, to, dims_of_y, std::move(attributes)));
    return FromBytes<Y>(graph.Run({ToBytes(x)})[0]);
  }
};

TEST(LongLines, SoftmaxReadsALineOnlyAFewTimes) {
  for (const LineOp line : {LineOp{2, 300'000, 1}, LineOp{1, 40'000, 3}}) {
    const std::vector<float> x = Random(line.count());
    for (const bool log : {false, true}) {
      const auto y = line.Run<float>(log ? "LogSoftmax" : "Softmax", x, DataType::kFloat32,
                                     line.dims(), {{"axis", std::int64_t{1}}});
      line.ForLines([&](std::int64_t o, std::int64_t i) {
        double sum = 0;
        for (std::int64_t a = 0; a < line.axis; ++a) sum += std::exp(double{x[line.At(o, a, i)]});
        double worst = 0;
        for (std::int64_t a = 0; a < line.axis; ++a) {
          const double expected = x[line.At(o, a, i)] - std::log(sum);
          const double got = log ? y[line.At(o, a, i)] : std::log(double{y[line.At(o, a, i)]});
          worst = std::max(worst, std::abs(got - expected));
        }
        EXPECT_LT(worst, 2e-5) << log;
      });
    }
  }
}

// The time of the kernel of short lines grows with the square of the line.
TEST(LongLines, SoftmaxIsNotOneKernel) {
  const auto kernels = [](std::int64_t axis) {
    TypedGraph graph;
    const ValueId x = graph.Input(DataType::kFloat32, {1, axis});
    graph.Output(
        graph.Op("Softmax", {x}, DataType::kFloat32, {1, axis}, {{"axis", std::int64_t{1}}}));
    const auto device = testing::MakeDevice(1);
    const auto loaded = testing::Compile(graph.graph(), *device);
    std::vector<std::string> names;
    for (const PlanOp& op : loaded->plan.ops) names.push_back(op.kernel_name);
    return names;
  };
  EXPECT_EQ(kernels(1'000), std::vector<std::string>{"softmax"});
  const std::vector<std::string> of_long = kernels(1 << 20);
  EXPECT_EQ(std::ranges::count(of_long, "softmax"), 0);
  EXPECT_EQ(std::ranges::count(of_long, "reduce"), 4);  // two for the maximum, two for the sum
}

TEST(LongLines, FoldsOfPieces) {
  const LineOp line{2, 300'000, 2};
  const std::vector<float> x = Random(line.count());
  const auto fold = [&](const std::string& op) {
    return line.Run<float>(op, x, DataType::kFloat32, {2, 1, 2},
                           {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
  };
  const auto max = fold("ReduceMax"), mean = fold("ReduceMean"), square = fold("ReduceSumSquare"),
             exp = fold("ReduceLogSumExp"), norm = fold("ReduceL2");
  std::size_t at = 0;
  line.ForLines([&](std::int64_t o, std::int64_t i) {
    double most = -100, sum = 0, squares = 0, exps = 0;
    for (std::int64_t a = 0; a < line.axis; ++a) {
      const double value = x[line.At(o, a, i)];
      most = std::max(most, value);
      sum += value;
      squares += value * value;
      exps += std::exp(value);
    }
    EXPECT_EQ(max[at], static_cast<float>(most));
    EXPECT_NEAR(mean[at], sum / static_cast<double>(line.axis), 5e-5);
    EXPECT_NEAR(square[at] / squares, 1, 5e-5);
    EXPECT_NEAR(norm[at] / std::sqrt(squares), 1, 5e-5);
    EXPECT_NEAR(exp[at], std::log(exps), 1e-4);
    ++at;
  });
}

TEST(LongLines, ArgFindsTheSameElementInPieces) {
  const LineOp line{2, 1 << 19, 2};
  std::vector<float> x(line.count());
  std::mt19937 random(3);
  for (float& value : x) value = static_cast<float>(random() % 1000);  // many equal ones
  // A NaN is better than every number. This one begins a piece, and one lies within.
  x[line.At(0, 1 << 18, 0)] = x[line.At(0, 70'001, 0)] = std::numeric_limits<float>::quiet_NaN();
  x[line.At(0, (1 << 18) + 1, 0)] = 5'000;
  x[line.At(1, 0, 1)] = std::numeric_limits<float>::quiet_NaN();
  for (const bool least : {false, true}) {
    for (const bool last : {false, true}) {
      const auto y =
          line.Run<std::int64_t>(least ? "ArgMin" : "ArgMax", x, DataType::kInt64, {2, 1, 2},
                                 {{"axis", std::int64_t{1}},
                                  {"keepdims", std::int64_t{1}},
                                  {"select_last_index", std::int64_t{last ? 1 : 0}}});
      std::size_t at = 0;
      line.ForLines([&](std::int64_t o, std::int64_t i) {
        std::int64_t best = 0;
        for (std::int64_t a = 1; a < line.axis; ++a) {
          const float value = x[line.At(o, a, i)], than = x[line.At(o, best, i)];
          const bool nan = std::isnan(value), was_nan = std::isnan(than);
          const bool equal = nan || was_nan ? nan && was_nan : value == than;
          const bool better = nan || was_nan ? nan && !was_nan
                              : least        ? value < than
                                             : value > than;
          if (better || (last && equal)) best = a;
        }
        EXPECT_EQ(y[at++], best) << least << last;
      });
    }
  }
}

TEST(LongLines, RunningSumsOfPieces) {
  const LineOp line{2, 50'021, 3, DataType::kInt64};
  std::vector<std::int64_t> x(line.count());
  std::mt19937_64 random(5);
  for (std::int64_t& value : x) value = static_cast<std::int64_t>(random() % 1000) - 500;
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      const auto y = line.Run<std::int64_t>("CumSum", x, DataType::kInt64, line.dims(),
                                            {{"axis", std::int64_t{1}},
                                             {"exclusive", std::int64_t{exclusive ? 1 : 0}},
                                             {"reverse", std::int64_t{reverse ? 1 : 0}}});
      line.ForLines([&](std::int64_t o, std::int64_t i) {
        std::int64_t sum = 0, wrong = 0;
        for (std::int64_t n = 0; n < line.axis; ++n) {
          const std::size_t at = line.At(o, reverse ? line.axis - 1 - n : n, i);
          const std::int64_t before = sum;
          sum += x[at];
          wrong += y[at] != (exclusive ? before : sum) ? 1 : 0;
        }
        EXPECT_EQ(wrong, 0) << exclusive << reverse;
      });
    }
  }
}

TEST(LongLines, RunningProductsOfPieces) {
  const LineOp line{2, 50'021, 3, DataType::kInt64};
  std::vector<std::int64_t> x(line.count());
  std::mt19937_64 random(6);
  for (std::int64_t& value : x) value = static_cast<std::int64_t>(random() | 1);
  const auto y = line.Run<std::int64_t>("CumProd", x, DataType::kInt64, line.dims(),
                                        {{"axis", std::int64_t{1}}});
  line.ForLines([&](std::int64_t o, std::int64_t i) {
    std::uint64_t product = 1, wrong = 0;
    for (std::int64_t n = 0; n < line.axis; ++n) {
      product *= static_cast<std::uint64_t>(x[line.At(o, n, i)]);
      wrong += y[line.At(o, n, i)] != static_cast<std::int64_t>(product) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U);
  });
}

}  // namespace
}  // namespace lagoon

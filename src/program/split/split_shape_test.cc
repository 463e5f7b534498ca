#include "program/split/split_shape.h"

#include <gtest/gtest.h>

#include "program/split/choose.h"

namespace lagoon {
namespace {

struct Row {
  std::uint32_t parts;
  double sigma, overhead, fitness;
};

// Table 3 of SPLIT, in ms; the fitness follows from Eq. 2.
constexpr double kResNet50 = 28.35;
constexpr Row kResNet50Rows[] = {
    {2, .62, .154, -.102}, {3, 1.33, .424, -.200}, {4, 2, .503, -.207}};
constexpr double kVgg19 = 67.5;
constexpr Row kVgg19Rows[] = {{2, .02, .198, -.104}, {3, 1.1, .181, -.079}, {4, 5.03, .276, -.149}};

std::size_t Chosen(double whole, std::span<const Row> rows, double tie) {
  std::vector<double> fitness;
  for (const Row& row : rows) {
    fitness.push_back(SplitFitness(row.sigma, row.overhead, whole, row.parts));
    EXPECT_NEAR(fitness.back(), row.fitness, 5e-4) << row.parts << " parts of " << whole;
  }
  return rows[ChooseByFitness(fitness, tie)].parts;
}

TEST(SplitFitness, ChoosesTheNumberOfPartsThatThePaperGives) {
  for (const double tie : {0.0, ChooseOptions().tie}) {
    EXPECT_EQ(Chosen(kResNet50, kResNet50Rows, tie), 2u);
    EXPECT_EQ(Chosen(kVgg19, kVgg19Rows, tie), 3u);
  }
}

TEST(SplitFitness, EqualFitnessGivesMoreParts) {
  const double fitness[] = {-0.010, -0.011, -0.013, -0.020};
  EXPECT_EQ(ChooseByFitness(fitness, 0), 0u);
  EXPECT_EQ(ChooseByFitness(fitness, 0.002), 1u);
  EXPECT_EQ(ChooseByFitness(fitness, 0.003), 2u);
}

// Table 1 of the paper.
TEST(SplitFitness, ResNet50AndVgg19AreLongBesideYolo) {
  using std::chrono::microseconds;
  const microseconds shortest(10800);
  EXPECT_TRUE(IsLong(microseconds(28350), shortest));
  EXPECT_TRUE(IsLong(microseconds(67500), shortest));
  EXPECT_FALSE(IsLong(microseconds(20400), shortest));
  EXPECT_FALSE(IsLong(shortest, shortest));
}

SplitModel FourOps(CutMode mode) {
  SplitModel model;
  model.op_us = {10, 20, 30, 40};
  model.boundary_bytes = {7, 800, 400, 200, 9};
  model.cost = {.mode = mode, .bubble_us = 5, .bytes_per_us = 100, .session_us = 3};
  return model;
}

TEST(SplitShape, APlanPaysOneBubbleForEachCut) {
  const PartCosts costs(FourOps(CutMode::kPlan));
  const std::uint32_t ends[] = {2, 3, 4};
  const SplitShape shape = costs.Shape(ends);
  EXPECT_EQ(shape.part_us, (std::vector<double>{30, 30, 40}));
  EXPECT_NEAR(shape.overhead, 2 * 5 / 100.0, 1e-12);
  EXPECT_NEAR(shape.range, 10 / (100 / 3.0), 1e-12);
  EXPECT_NEAR(shape.sigma_us, 4.714, 1e-3);
  EXPECT_NEAR(shape.fitness, SplitFitness(shape.sigma_us, 0.1, 100, 3), 1e-12);
  EXPECT_DOUBLE_EQ(shape.fitness, costs.Fitness(ends));
}

TEST(SplitShape, AnOnnxPartPaysItsCopiesAndACall) {
  const PartCosts costs(FourOps(CutMode::kOnnx));
  EXPECT_DOUBLE_EQ(costs.whole_us(), 103);  // what enters and leaves the model is copied anyway
  const std::uint32_t ends[] = {2, 3, 4};
  EXPECT_EQ(costs.Shape(ends).part_us,
            (std::vector<double>{30 + 4 + 3, 4 + 30 + 2 + 3, 2 + 40 + 3}));
  EXPECT_DOUBLE_EQ(costs.Shape(ends).overhead, 121 / 103.0 - 1);
  const std::uint32_t whole[] = {4};
  EXPECT_DOUBLE_EQ(costs.Shape(whole).overhead, 0);
}

// Eq. 1: a request arrives at any time while the parts run, and waits for the end of its part.
TEST(SplitShape, TheMeanWaitIsTheIntegralOverArrivals) {
  const std::vector<double> parts = {30, 5, 40, 25};
  double waited = 0;
  constexpr double kStep = 0.01;
  double whole = 0;
  for (const double part : parts) {
    for (double at = kStep / 2; at < part; at += kStep) waited += (part - at) * kStep;
    whole += part;
  }
  SplitModel model;
  model.op_us = parts;
  const std::uint32_t ends[] = {1, 2, 3, 4};
  EXPECT_NEAR(PartCosts(model).Shape(ends).wait_us, waited / whole, 1e-6);
}

TEST(PartEnds, AscendToTheNumberOfOps) {
  using Ends = std::vector<std::uint32_t>;
  EXPECT_TRUE(ArePartEnds(Ends{4}, 4));
  EXPECT_TRUE(ArePartEnds(Ends{1, 3, 4}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{0, 4}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{2, 2, 4}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{3, 2, 4}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{1, 3}, 4));
  EXPECT_FALSE(ArePartEnds(Ends{1, 5}, 4));
}

}  // namespace
}  // namespace lagoon

#include "learn/mlp.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/testing/paths.h"
#include "learn/product.h"
#include "sim/learn/adam.h"

namespace lagoon::learn {
namespace {

// What tools/learn_golden.py wrote.
const std::map<std::string, std::vector<float>>& Golden() {
  static const auto* golden = [] {
    auto* read = new std::map<std::string, std::vector<float>>;
    std::ifstream file(SourceFolder() + "/src/learn/pytorch_golden.txt");
    std::string line, name;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      words >> name;
      float value = 0;
      while (words >> value) (*read)[name].push_back(value);
    }
    return read;
  }();
  return *golden;
}

Matrix GoldenMatrix(const std::string& name, Eigen::Index columns) {
  const std::vector<float>& values = Golden().at(name);
  const auto size = static_cast<Eigen::Index>(values.size());
  return Eigen::Map<const Matrix>(values.data(), size / columns, columns);
}

void ExpectGolden(const std::string& name, std::span<const float> values) {
  const std::vector<float>& golden = Golden().at(name);
  ASSERT_EQ(golden.size(), values.size()) << name;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_NEAR(golden[i], values[i], 1e-5) << name << " " << i;
  }
}

Mlp GoldenNetwork() {
  Mlp mlp({5, 7, 6, 3});
  const std::vector<float>& parameters = Golden().at("parameters");
  std::ranges::copy(parameters, mlp.parameters().begin());
  return mlp;
}

std::span<const float> ElementsOf(const Matrix& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

Matrix RandomMatrix(Eigen::Index rows, Eigen::Index columns, Random& random) {
  Matrix matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = static_cast<float>(random.Normal());
  }
  return matrix;
}

TEST(Mlp, OutputsAreThoseOfPyTorch) {
  ExpectGolden("outputs", ElementsOf(GoldenNetwork().Forward(GoldenMatrix("inputs", 5))));
}

TEST(Mlp, GradientsAreThoseOfPyTorch) {
  const Mlp mlp = GoldenNetwork();
  Tape tape;
  mlp.Forward(GoldenMatrix("inputs", 5), &tape);
  std::vector<float> gradient;
  Matrix din;
  mlp.Backward(tape, GoldenMatrix("factors", 3), &gradient, &din);
  ExpectGolden("gradient", gradient);
  ExpectGolden("input_gradient", ElementsOf(din));
}

TEST(Mlp, TenStepsOfAdamAreThoseOfPyTorch) {
  Mlp mlp = GoldenNetwork();
  Adam adam(mlp.parameters().size(), 0.01F);
  for (int step = 0; step < 10; ++step) {
    Tape tape;
    mlp.Forward(GoldenMatrix("inputs", 5), &tape);
    std::vector<float> gradient;
    mlp.Backward(tape, GoldenMatrix("factors", 3), &gradient, nullptr);
    adam.Step(mlp.parameters(), gradient);
  }
  ExpectGolden("after_adam", mlp.parameters());
}

TEST(Mlp, TheSameSeedGivesTheSameParameters) {
  Random first(7), second(7), other(8);
  const Mlp a({3, 4, 2}, first), b({3, 4, 2}, second), c({3, 4, 2}, other);
  EXPECT_TRUE(std::ranges::equal(a.parameters(), b.parameters()));
  EXPECT_FALSE(std::ranges::equal(a.parameters(), c.parameters()));
}

TEST(Mlp, TheLastLayerIsScaled) {
  Random first(7), second(7);
  const Mlp whole({3, 4, 2}, first), small({3, 4, 2}, second, 0.5F);
  EXPECT_EQ(whole.parameters().front(), small.parameters().front());
  EXPECT_EQ(whole.parameters().back() / 2, small.parameters().back());
}

TEST(Mlp, MoveTowardsGoesPartOfTheWay) {
  Random random(1);
  const Mlp source({2, 2}, random);
  Mlp target({2, 2});
  MoveTowards(source, 0.25F, &target);
  for (std::size_t i = 0; i < source.parameters().size(); ++i) {
    EXPECT_FLOAT_EQ(target.parameters()[i], 0.25F * source.parameters()[i]);
  }
}

TEST(Product, AllPathsAgreeForAllEdges) {
  Random random(3);
  for (const Eigen::Index rows : {1, 5, 6, 7, 12, 13, 25}) {
    for (const Eigen::Index columns : {1, 15, 16, 17, 32, 40}) {
      const Matrix a = RandomMatrix(rows, 9, random), b = RandomMatrix(9, columns, random);
      const Matrix a_turned = a.transpose(), b_turned = b.transpose();
      const Matrix exact = (a.cast<double>() * b.cast<double>()).cast<float>();
      Matrix fused;  // of the first path that fuses
      for (const ProductPath path : ProductPaths()) {
        SCOPED_TRACE(fmt::format("{} x {}, path {}", rows, columns, static_cast<int>(path)));
        Matrix out(rows, columns), turned(rows, columns);
        Multiply(ViewOf(a), ViewOf(b), out.data(), path);
        EXPECT_LT((out - exact).cwiseAbs().maxCoeff(), 1e-5);
        Multiply(ViewOf(a_turned).Transposed(), ViewOf(b_turned).Transposed(), turned.data(), path);
        EXPECT_LT((turned - exact).cwiseAbs().maxCoeff(), 1e-5);
        if (path == ProductPath::kEigen) continue;
        EXPECT_EQ(out, turned);
        if (fused.size() == 0) fused = out;
        EXPECT_EQ(out, fused);
      }
    }
  }
}

}  // namespace
}  // namespace lagoon::learn

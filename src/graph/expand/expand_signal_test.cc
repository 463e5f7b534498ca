// Tables of speech models, and what their ops and the Fourier transforms refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/testing/folded.h"
#include "graph/testing/one_node.h"

namespace lagoon {
namespace {

using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::OneNode;

std::vector<double> WindowOf(const std::string& op, std::int64_t size, bool periodic) {
  ModelBuilder model(17);
  model.Number("size", size).Output("y");
  model.Add(op, {"size"}, {"y"}).Int("periodic", periodic ? 1 : 0);
  return Folded(model);
}

TEST(Signal, SymmetricWindowsHaveTheirTextbookValues) {
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  const auto near = [](double value) { return DoubleNear(value, 1e-7); };
  EXPECT_THAT(WindowOf("HannWindow", 5, false),
              ElementsAre(near(0), near(0.5), near(1), near(0.5), near(0)));
  EXPECT_THAT(WindowOf("HannWindow", 4, true), ElementsAre(near(0), near(0.5), near(1), near(0.5)));
  const double edge = 4.0 / 46, middle = 25.0 / 46;
  EXPECT_THAT(WindowOf("HammingWindow", 5, false),
              ElementsAre(near(edge), near(middle), near(1), near(middle), near(edge)));
  EXPECT_THAT(WindowOf("BlackmanWindow", 5, false),
              ElementsAre(near(0), near(0.34), near(1), near(0.34), near(0)));
  EXPECT_THAT(WindowOf("BlackmanWindow", 1, false), ElementsAre(near(1)));
}

ModelBuilder MelModel(std::int64_t filters, float high) {
  ModelBuilder model(17);
  model.Number("filters", filters).Number("length", 64).Number("rate", 8000);
  model.Floats("low", {}, {100}).Floats("high", {}, {high}).Output("y");
  model.Add("MelWeightMatrix", {"filters", "length", "rate", "low", "high"}, {"y"});
  return model;
}

TEST(Signal, MelFiltersAreTrianglesInOrderOfFrequency) {
  Dims dims;
  const std::vector<double> table = Folded(MelModel(6, 4000), 0, &dims);
  ASSERT_EQ(dims, (Dims{33, 6}));
  std::size_t last_peak = 0;
  for (std::size_t filter = 0; filter < 6; ++filter) {
    std::size_t peak = 0;
    for (std::size_t bin = 1; bin < 33; ++bin) {
      if (table[bin * 6 + filter] > table[peak * 6 + filter]) peak = bin;
    }
    EXPECT_EQ(table[peak * 6 + filter], 1) << filter;
    for (std::size_t bin = 1; bin < 33; ++bin) {
      const double step = table[bin * 6 + filter] - table[(bin - 1) * 6 + filter];
      EXPECT_TRUE(bin <= peak ? step >= 0 : step <= 0) << filter << " at " << bin;
    }
    EXPECT_GT(peak, last_peak);
    last_peak = peak;
  }
}

TEST(SignalErrors, NameTheValues) {
  EXPECT_THAT(MessageOf(MelModel(6, 4001).Import(), ErrorCode::kInvalidArgument),
              HasSubstr("from 100 to 4001 Hz"));
  EXPECT_THAT(MessageOf(MelModel(0, 4000).Import(), ErrorCode::kInvalidArgument),
              HasSubstr("num_mel_bins is 0"));
  ModelBuilder window(17);
  window.Number("size", -3).Output("y");
  window.Add("HannWindow", {"size"}, {"y"});
  EXPECT_THAT(MessageOf(window.Import(), ErrorCode::kInvalidArgument), HasSubstr("size is -3"));
}

OneNode Dft(const Dims& dims, std::int64_t axis, std::int64_t one_sided = 0) {
  return {.op = "DFT",
          .dims = dims,
          .configure = [=](testing::NodeRef n) { n.Int("axis", axis).Int("onesided", one_sided); },
          .opset = 17};
}

TEST(SignalErrors, TransformsRefuseShapesThatDoNotFit) {
  EXPECT_THAT(Dft({2, 8, 3}, 1).Invalid(), HasSubstr("its last axis must have size 1"));
  EXPECT_THAT(Dft({2, 8, 1}, 2).Invalid(), HasSubstr("axis 2 does not fit shape [2,8,1]"));
  EXPECT_THAT(Dft({2, 8, 2}, 1, 1).Invalid(), HasSubstr("set onesided to 0"));
  EXPECT_THAT(Dft({1, 1 << 16, 1}, 1).Unimplemented(), HasSubstr("is too long"));

  OneNode attribute = Dft({2, 8, 1}, 1);
  attribute.opset = 20;
  EXPECT_THAT(attribute.Unimplemented(), HasSubstr("attribute 'axis'"));

  OneNode stft{.op = "STFT",
               .dims = {1, 16, 1},
               .parameters = {"step", "", "length"},
               .prepare = [](ModelBuilder& model) { model.Number("step", 4).Number("length", 17); },
               .opset = 17};
  EXPECT_THAT(stft.Invalid(), HasSubstr("frames of 17 samples, 4 apart"));
}

TEST(SignalErrors, DeterminantsAreOfSmallSquareMatrices) {
  EXPECT_THAT((OneNode{.op = "Det", .dims = {2, 3}}.Invalid()), HasSubstr("square matrices"));
  EXPECT_THAT((OneNode{.op = "Det", .dims = {5, 5}}.Unimplemented()), HasSubstr("1 to 4"));
}

}  // namespace
}  // namespace lagoon

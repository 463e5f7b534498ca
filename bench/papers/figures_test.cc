#include "bench/papers/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Json RunOf(const FiguresOptions& options, std::string* table = nullptr) {
  Report report("figures", {}, "test");
  std::string text;
  const Status status = RunFigures(options, report, text);
  EXPECT_TRUE(status) << status.error().message;
  if (table != nullptr) *table = text;
  return report.json();
}

FiguresOptions Only(const std::string& name, double effort = 0.01) {
  FiguresOptions options;
  options.only = {name};
  options.effort = effort;
  return options;
}

std::string MessageOf(const std::string& name) {
  Report report("figures", {}, "test");
  std::string table;
  const Status status = RunFigures(Only(name), report, table);
  return status ? "" : status.error().message;
}

// Checks that each figure has what readers of the file need: series that can be drawn, and numbers
// with their source.
void ExpectWhole(const Json& figure) {
  ASSERT_FALSE(figure.at("panels").empty());
  for (const Json& panel : figure.at("panels")) {
    ASSERT_FALSE(panel.at("series").empty());
    for (const Json& series : panel.at("series")) {
      ASSERT_EQ(series.at("x").size(), series.at("y").size());
      ASSERT_FALSE(series.at("y").empty());
      for (const Json& value : series.at("y")) {
        EXPECT_TRUE(value.is_number() && std::isfinite(value.get<double>())) << series;
        EXPECT_TRUE(!panel.at("log_y") || value.get<double>() > 0) << series;
      }
      if (panel.at("groups").empty()) continue;
      for (const Json& at : series.at("x")) EXPECT_LT(at, panel.at("groups").size());
    }
  }
  for (const Json& number : figure.at("paper")) {
    EXPECT_TRUE(number.at("got").is_number()) << number;
    EXPECT_THAT(number.at("source").get<std::string>(),
                ::testing::AnyOf(HasSubstr("REEF"), HasSubstr("Paella"), HasSubstr("GSLICE"),
                                 HasSubstr("InSS")));
  }
}

TEST(Figures, EveryOneThatCanRunGivesSeriesAndNumbers) {
  std::set<std::string_view> names;
  for (const FigureInfo& info : FigureTable()) {
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_NE(info.run == nullptr, info.refused.empty());
    if (info.run == nullptr) continue;
    const Json report = RunOf(Only(std::string(info.name)));
    ASSERT_EQ(report.at("figures").size(), 1u);
    ExpectWhole(report.at("figures")[0]);
    const Json& metrics = report.at("metrics");
    ASSERT_FALSE(metrics.empty());
    for (const auto& [metric, value] : metrics.items()) {
      EXPECT_TRUE(metric.starts_with(info.name)) << metric;
    }
  }
}

// Paella's drawing: ends at 3, 5, 7, 9 with one queue; at 5, 5, 6, 6 with a queue per task; under
// Paella, which has nothing wait on the device, at 3, 3, 6, 6.
TEST(Figures, PaellaFigure1IsAsItIsDrawn) {
  std::string table;
  const Json report = RunOf(Only("paella-1"), &table);
  const Json& metrics = report.at("metrics");
  EXPECT_DOUBLE_EQ(metrics.at("paella-1.mean_end.one queue"), 6);
  EXPECT_DOUBLE_EQ(metrics.at("paella-1.mean_end.a queue per task"), 5.5);
  const Json& series = report.at("figures")[0].at("panels")[0].at("series");
  ASSERT_EQ(series.size(), 4u);
  const std::vector<std::vector<double>> ends = {
      {3, 5, 5, 3}, {5, 5, 5, 3}, {7, 6, 6, 6}, {9, 6, 6, 6}};
  // Columns: one queue; a queue per task; paella; paella, nothing ahead.
  for (std::size_t task = 0; task < 4; ++task) {
    EXPECT_EQ(series[task].at("y").get<std::vector<double>>(), ends[task]) << "task " << task;
  }
  EXPECT_THAT(table, AllOf(HasSubstr("paper says"), HasSubstr("one queue")));
}

TEST(VerdictOf, IsByTheDistanceFromThePapersNumber) {
  const auto verdict = [](double paper, double got) {
    Figure figure;
    figure.Compare("time_ms", paper, got, "GSLICE");
    return VerdictOf(figure.numbers.back());
  };
  EXPECT_EQ(verdict(100, 100), "reproduced within 0 %");
  EXPECT_EQ(verdict(100, 100.4), "reproduced within 1 %");
  EXPECT_EQ(verdict(100, 75), "reproduced within 25 %");
  EXPECT_EQ(verdict(100, 125), "reproduced within 25 %");
  EXPECT_EQ(verdict(100, 74.9), "not reproduced");
  EXPECT_EQ(verdict(100, 125.1), "not reproduced");
  EXPECT_EQ(verdict(2, 3), "not reproduced") << "a number that is no gain has no direction";
}

TEST(VerdictOf, AGainMayHaveTheRightDirection) {
  const auto verdict = [](double paper, double got) {
    Figure figure;
    figure.CompareGain("gain", paper, got, "GSLICE");
    return VerdictOf(figure.numbers.back());
  };
  EXPECT_EQ(verdict(2, 2.1), "reproduced within 5 %");
  EXPECT_EQ(verdict(2, 1.1), "direction only");
  EXPECT_EQ(verdict(2, 9), "direction only");
  EXPECT_EQ(verdict(2, 1), "not reproduced");
  EXPECT_EQ(verdict(2, 0.9), "not reproduced");
  EXPECT_EQ(verdict(0.5, 0.9), "direction only");
  EXPECT_EQ(verdict(1.05, 0.98), "not reproduced") << "near, but a loss";
  EXPECT_EQ(verdict(0.5, 1.1), "not reproduced");
}

TEST(VerdictOf, ARangeIsMetWithinItsBounds) {
  const auto verdict = [](double got) {
    Figure figure;
    figure.CompareRange("idle_us", {50, 60}, got, "GSLICE");
    return VerdictOf(figure.numbers.back());
  };
  EXPECT_EQ(verdict(50), "reproduced within 0 %");
  EXPECT_EQ(verdict(55), "reproduced within 0 %");
  EXPECT_EQ(verdict(45), "reproduced within 10 %");
  EXPECT_EQ(verdict(66), "reproduced within 10 %");
  EXPECT_EQ(verdict(30), "not reproduced");
  EXPECT_EQ(verdict(90), "not reproduced");
}

TEST(VerdictOf, AnOwnVerdictCounts) {
  Figure figure;
  figure.Compare("time_ms", 100, 100, "GSLICE");
  figure.Judge("sim:v100", "set: it is the published one");
  EXPECT_EQ(VerdictOf(figure.numbers.back()), "set: it is the published one");
}

TEST(Figures, EqualSeedsGiveEqualFigures) {
  const Json one = RunOf(Only("reef-22")).at("figures");
  EXPECT_EQ(RunOf(Only("reef-22")).at("figures"), one);
  FiguresOptions other = Only("reef-22");
  other.seed = 2;
  EXPECT_NE(RunOf(other).at("figures"), one);
}

TEST(Figures, UnknownAndRefusedOnesAreNamedWithTheReason) {
  EXPECT_THAT(MessageOf("reef-99"), AllOf(HasSubstr("'reef-99'"), HasSubstr("paella-1, paella-2")));
  EXPECT_THAT(MessageOf("reef-25"), AllOf(HasSubstr("'reef-25'"), HasSubstr("real code")));
}

}  // namespace
}  // namespace lagoon::bench

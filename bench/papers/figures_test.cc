#include "bench/papers/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
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

// The report of one figure at little effort. Several tests look at it; some figures take seconds.
const Json& ReportOf(const std::string& name) {
  static std::map<std::string, Json> reports;
  const auto found = reports.find(name);
  return found != reports.end() ? found->second : reports[name] = RunOf(Only(name));
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
    const Json& report = ReportOf(std::string(info.name));
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
  EXPECT_EQ(verdict(2, 2.1), "reproduced within 10 %") << "of the gain, not of the whole";
  EXPECT_EQ(verdict(1.264, 1.0003), "not reproduced") << "99.9 % of the gain are missing";
  EXPECT_EQ(verdict(1.264, 1.002), "direction only");
  EXPECT_EQ(verdict(1.66, 1.26), "direction only");
  EXPECT_EQ(verdict(1.005, 1.007), "reproduced within 1 %") << "of the whole";
  EXPECT_EQ(verdict(1.02, 1.135), "direction only");
  EXPECT_EQ(verdict(1, 1.2), "reproduced within 20 %") << "there is no gain to compare with";
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

TEST(VerdictOf, WhatIsSetIsNoPrediction) {
  Figure figure;
  figure.Compare("time_ms", 100, 100, "GSLICE");
  figure.Set("the list has the time");
  EXPECT_TRUE(figure.numbers.back().set);
  EXPECT_EQ(VerdictOf(figure.numbers.back()), "set: the list has the time");
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

// The inputs of figures against the papers' text.
TEST(Figures, InputsAreThoseOfThePapers) {
  const auto inputs = [](const std::string& name) {
    std::map<std::string, double> values;
    const Json& report = ReportOf(name);
    for (const Json& input : report.at("figures")[0].at("inputs")) values[input[0]] = input[1];
    return values;
  };
  // GSLICE 2.1.2: VGG-19 has half of the 80 units, each ResNet-50 a quarter.
  const std::map<std::string, double> shares = inputs("gslice-1");
  EXPECT_EQ(shares.at("units_of_vgg19"), 40);
  EXPECT_EQ(shares.at("units_of_resnet50"), 20);
  EXPECT_EQ(inputs("gslice-8").at("slo_ms"), 25);                   // GSLICE 4.2
  EXPECT_EQ(inputs("paella-12").at("share_of_short_jobs"), 0.952);  // Paella 7.1
  for (const char* name : {"gslice-8", "gslice-10", "gslice-14", "gslice-table-5"}) {
    EXPECT_EQ(inputs(name).at("warmup_s"), 30) << name;  // SLAB and shares have settled
    EXPECT_EQ(inputs(name).at("granules"), 100) << name;
  }
  const std::map<std::string, double> two = inputs("gslice-15");  // 4.6.1
  EXPECT_EQ(two.at("slo_ms"), 50);
  EXPECT_EQ(two.at("vgg19_starts_at_s"), 20);
  EXPECT_EQ(two.at("vgg16_stops_at_s"), 53);
  EXPECT_EQ(inputs("gslice-16").at("slo_ms"), 50);  // 4.6.2
  EXPECT_EQ(inputs("gslice-16").at("requests_per_s"), 35);
  EXPECT_EQ(inputs("gslice-7").at("units_of_resnext50"), 56);  // 70 % of 80
  EXPECT_EQ(inputs("gslice-7").at("units_of_alexnet"), 24);
  EXPECT_EQ(inputs("gslice-2").at("units"), 80);
  const std::map<std::string, double> cluster = inputs("inss-10");
  EXPECT_EQ(cluster.at("gpus"), 4);                                    // InSS 6.1
  EXPECT_EQ(inputs("inss-16").at("gpus"), 64);                         // 6.3
  EXPECT_EQ(inputs("inss-1").at("rows"), 8);                           // Fig. 1
  EXPECT_EQ(inputs("inss-table-3").at("measured_of_each_model"), 19);  // 4.1
  EXPECT_EQ(inputs("inss-table-4").at("measured_of_each_model"), 19);
  EXPECT_EQ(inputs("inss-2-printed").at("share_of_resnet50"), 0.4);  // Fig. 2
  for (const char* name : {"inss-10", "inss-11", "inss-13", "inss-16"}) {
    const std::map<std::string, double> run = inputs(name);
    EXPECT_NEAR(run.at("warmup_s"), run.at("seconds") / 3, 0.01) << name;
  }
}

TEST(Figures, OfGsliceAndInssSayTheirInputs) {
  for (const FigureInfo& info : FigureTable()) {
    const bool batches = info.name.starts_with("gslice") || info.name.starts_with("inss");
    if (info.run == nullptr || !batches) continue;
    EXPECT_FALSE(ReportOf(std::string(info.name)).at("figures")[0].at("inputs").empty())
        << info.name;
  }
}

// GSLICE Fig. 15 decides between the rules of default MPS: VGG-16 beside VGG-19 does 200 a second.
TEST(Figures, DefaultMpsSharesByKneesAsFigure15Says) {
  std::map<std::string, double> off;
  for (const Json& number : ReportOf("gslice-15").at("figures")[0].at("paper")) {
    if (!number.at("paper").is_number()) continue;  // a range
    const double got = number.at("got"), paper = number.at("paper");
    off[number.at("metric")] = std::abs(got / paper - 1);
  }
  EXPECT_LT(off.at("vgg16_ips.mps-slab.shared"), 0.12);
  EXPECT_GT(off.at("vgg16_ips.mps-slab-by-work.shared"), 0.25);
}

// InSS Fig. 19: all that decide are listed, also those that are faster than inss.
TEST(Figures, TimesOfDecisionsAreThoseOfAllPlacers) {
  const Json& figure = ReportOf("inss-19").at("figures")[0];
  std::set<std::string> placers;
  for (const Json& number : figure.at("paper")) placers.insert(number.at("metric"));
  for (const Json& finding : figure.at("findings")) placers.insert(finding.at(0));
  for (const char* placer : {"inss", "lagoon", "gslice", "igniter", "gpulet", "usher"}) {
    EXPECT_TRUE(placers.contains(std::string("decision of ") + placer + ", 64 GPUs, ms")) << placer;
  }
}

// A constant that was calibrated on a number of a paper predicts nothing about this number.
TEST(Figures, WhatADeviceWasCalibratedOnIsSet) {
  const auto is_set = [](const std::string& figure, const std::string& metric) {
    const Json& report = ReportOf(figure);
    for (const Json& number : report.at("figures")[0].at("paper")) {
      if (number.at("metric") == metric) return number.at("set").get<bool>();
    }
    ADD_FAILURE() << figure << " has no " << metric;
    return false;
  };
  EXPECT_TRUE(is_set("reef-15", "throughput_normalized.streams.C"));
  EXPECT_FALSE(is_set("reef-15", "realtime_latency_normalized_mean.streams.C"));
  EXPECT_TRUE(is_set("reef-18", "preemption_us_of_any_model.reset, kills.gv100"));
  EXPECT_FALSE(is_set("reef-18", "preemption_us.wait.mi50.resnet152"));
  EXPECT_TRUE(is_set("reef-20", "preemption_us.depth_4"));
  EXPECT_TRUE(is_set("reef-21", "execution_ms_saved.depth_1_to_4"));
  EXPECT_TRUE(is_set("reef-21", "preemption_us.depth_4"));
}

TEST(Figures, UnknownAndRefusedOnesAreNamedWithTheReason) {
  EXPECT_THAT(MessageOf("reef-99"), AllOf(HasSubstr("'reef-99'"), HasSubstr("paella-1, paella-2")));
  EXPECT_THAT(MessageOf("reef-25"), AllOf(HasSubstr("'reef-25'"), HasSubstr("real code")));
  EXPECT_THAT(MessageOf("paella-14"), HasSubstr("a client that waits"));
  EXPECT_THAT(MessageOf("reef-3"), HasSubstr("take them as inputs"));
}

}  // namespace
}  // namespace lagoon::bench

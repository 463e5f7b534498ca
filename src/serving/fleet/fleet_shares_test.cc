#include "serving/fleet/fleet_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Row {
  std::string model;
  std::optional<double> share;
  bool fixed = false;
};

SharesReport ReportOf(ShareKind kind, std::uint32_t units, const std::vector<Row>& rows) {
  SharesReport report;
  report.kind = kind;
  report.units = units;
  for (const Row& row : rows) {
    ModelShare model;
    model.model = row.model;
    model.version = "1";
    model.share = row.share;
    model.fixed = row.fixed;
    report.models.push_back(model);
  }
  return report;
}

/// As "model part", "model auto" or "model none".
std::vector<std::string> TextOf(const std::vector<ShareResize>& resizes) {
  std::vector<std::string> lines;
  for (const ShareResize& resize : resizes) {
    const int percent = static_cast<int>(100 * resize.wanted.part.value_or(0) + 0.5);
    lines.push_back(resize.model + " " +
                    (resize.wanted.automatic ? "auto"
                     : resize.wanted.none    ? "none"
                                             : std::to_string(percent)));
  }
  return lines;
}

TEST(FleetShares, ThoseThatShrinkMakeRoomFirst) {
  const SharesReport report =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.2, true}, {"b", 0.5, true}, {"c", 0.3, true}});
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.5}, {"b", 0.3}, {"c", 0.2}})),
              ElementsAre("b 30", "c 20", "a 50"));
}

TEST(FleetShares, SmallChangesStayUnlessOneIsLarge) {
  const SharesReport report =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.5, true}, {"b", 0.3, true}, {"c", 0.2, true}});
  EXPECT_THAT(SharesToSet(report, {{"a", 0.46}, {"b", 0.34}, {"c", 0.2}}), IsEmpty());
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.44}, {"b", 0.33}, {"c", 0.2}})),
              ElementsAre("a 44", "b 33"));
}

TEST(FleetShares, PartsBecomeWholeGranulesThatFit) {
  const SharesReport report = ReportOf(ShareKind::kUnits, 4, {{"a", 0.3}, {"b", 0.3}, {"c", 0.3}});
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.38}, {"b", 0.37}, {"c", 0.25}})),
              ElementsAre("b 25", "c 25", "a 50"));
}

TEST(FleetShares, MoreModelsThanGranulesKeepTheirParts) {
  const SharesReport report = ReportOf(ShareKind::kUnits, 1, {{"a", 0.3}, {"b", 0.3}});
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.6}, {"b", 0.4}})), ElementsAre("b 40", "a 60"));
}

// The placer does not know of the fixed shares of other models.
TEST(FleetShares, PartsFitBesideTheFixedSharesOfOthers) {
  const SharesReport weights =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.3}, {"b", 0.3}, {"x", 0.2, true}});
  EXPECT_THAT(TextOf(SharesToSet(weights, {{"a", 0.75}, {"b", 0.25}})),
              ElementsAre("b 20", "a 60"));
  EXPECT_THAT(TextOf(SharesToSet(weights, {{"a", 0.5}, {"b", 0.25}})), ElementsAre("b 25", "a 50"))
      << "there is room";
  const SharesReport units =
      ReportOf(ShareKind::kUnits, 4, {{"a", 0.3}, {"b", 0.3}, {"x", 0.5, true}});
  EXPECT_THAT(TextOf(SharesToSet(units, {{"a", 0.9}, {"b", 0.1}})), ElementsAre("a 25", "b 25"));
  const SharesReport full = ReportOf(ShareKind::kWeight, 1, {{"a", 0.3}, {"x", 1.0, true}});
  EXPECT_THAT(SharesToSet(full, {{"a", 0.9}}), IsEmpty());
}

TEST(FleetShares, TheReplicasOfAFleetAreOneVersion) {
  const SharesReport report = ReportOf(ShareKind::kWeight, 2, {{"a", 0.3}, {"a", 0.3}});
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.5}})), ElementsAre("a 50"));
}

TEST(FleetShares, ADeviceTunesAgainWhatThePlacerLeavesToIt) {
  const SharesReport report =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.5, true}, {"b", 0.3, false}, {"c", 0.2, true}});
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", {}}, {"b", {}}})), ElementsAre("a auto"));
}

TEST(FleetShares, LimitsOfBatchesMoveWithoutTheirShares) {
  SharesReport report =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.5, true}, {"b", 0.3, true}, {"c", 0.2, false}});
  report.models[1].ceiling = 4;
  report.models[2].ceiling = 2;
  const std::vector<ShareResize> resizes =
      SharesToSet(report, {{"a", 0.52, 8}, {"b", 0.28, 4}, {"c", {}, 0}});
  ASSERT_THAT(TextOf(resizes), ElementsAre("c auto", "a 50"));
  EXPECT_EQ(resizes[0].wanted.rows, 0);
  EXPECT_EQ(resizes[1].wanted.rows, 8);
  EXPECT_THAT(SharesToSet(report, {{"b", 0.28, 4}, {"c", {}, 2}}), IsEmpty());
  EXPECT_EQ(SharesBefore(report, "b", "")[0].wanted.rows, 4);
}

TEST(FleetShares, ModelsThatAreNotThereAreLeftOut) {
  EXPECT_THAT(SharesToSet(ReportOf(ShareKind::kWeight, 1, {}), {{"a", 0.5}, {"b", {}}}), IsEmpty());
}

TEST(FleetShares, WhatWasBeforeIsSetAgain) {
  SharesReport report =
      ReportOf(ShareKind::kWeight, 1, {{"a", 0.5, true}, {"b", 0.3, false}, {"a", 0.2, true}});
  report.models[2].version = "2";
  EXPECT_THAT(TextOf(SharesBefore(report, "a", "")), ElementsAre("a 50", "a 20"));
  EXPECT_THAT(TextOf(SharesBefore(report, "a", "2")), ElementsAre("a 20"));
  EXPECT_THAT(TextOf(SharesBefore(report, "b", "")), ElementsAre("b auto"));
  report.models[1].share.reset();
  EXPECT_THAT(TextOf(SharesBefore(report, "b", "")), ElementsAre("b none"));
}

TEST(FleetShares, VersionsShareThePartOfTheirModel) {
  SharesReport report = ReportOf(ShareKind::kWeight, 1, {{"a", 0.3}, {"a", 0.3}});
  report.models[1].version = "2";
  EXPECT_THAT(TextOf(SharesToSet(report, {{"a", 0.5}})), ElementsAre("a 25", "a 25"));
}

}  // namespace
}  // namespace lagoon

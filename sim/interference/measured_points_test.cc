#include "sim/interference/measured_points.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon {
namespace {

TEST(MeasuredPoints, AreReadAndWritten) {
  const auto points = ParseMeasuredPoints(
      "# comment\n"
      "\n"
      "resnet50 8 0.5 11.2\r\n"
      "resnet50\t4 0.25 6 cache=0.31 dram=0.42 # alone\n"
      "resnet50 8 0.5 12.9 beside alexnet:8:0.25 vgg16:4:0.25\n"
      "alexnet 1 1 0.5 cache=0 dram=10 beside vgg16:1:1",
      "points.txt");
  ASSERT_TRUE(points.has_value()) << points.error().message;
  ASSERT_EQ(points->size(), 4u);
  EXPECT_EQ((*points)[0].model, "resnet50");
  EXPECT_EQ((*points)[0].rows, 8);
  EXPECT_FALSE((*points)[0].load.has_value());
  ASSERT_TRUE((*points)[1].load.has_value());
  EXPECT_EQ((*points)[1].load->dram, 0.42);
  ASSERT_EQ((*points)[2].neighbours.size(), 2u);
  EXPECT_EQ((*points)[2].neighbours[1], (MeasuredNeighbour{"vgg16", 4, 0.25}));
  const auto again = ParseMeasuredPoints(MeasuredPointsText(*points), "again");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, *points);
}

TEST(MeasuredPoints, ErrorsNameTheLineAndTheValue) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : {
           Case{"", "p: there are no points"},
           Case{"# only a comment", "p: there are no points"},
           Case{"a 1 0.5", "p:1: has 3 fields"},
           Case{"a 1 0.5 2\nb x 0.5 2", "p:2: rows is 'x'"},
           Case{"a 0 0.5 2", "rows is 0"},
           Case{"a 1 0 2", "share is 0"},
           Case{"a 1 1.5 2", "share is 1.5"},
           Case{"a 1 nan 2", "share is nan"},
           Case{"a 1 0.5 nan", "latency_ms is nan"},
           Case{"a 1 0.5 inf", "latency_ms is inf"},
           Case{"a 1 0.5 -1", "latency_ms is -1"},
           Case{"a:b 1 0.5 1", "has a ':'"},
           Case{"a 1 0.5 1 cache=0.5", "go together"},
           Case{"a 1 0.5 1 dram=0.5 cache=0.5", "ends in 'dram=0.5'"},
           Case{"a 1 0.5 1 cache=0.5 up=0.5", "'up=0.5' where dram= must follow"},
           Case{"a 1 0.5 1 cache=-1 dram=0", "cache is -1"},
           Case{"a 1 0.5 1 cache=0 dram=nan", "dram is nan"},
           Case{"a 1 0.5 1 up=0.5", "up= and down= go together"},
           Case{"a 1 0.5 1 up=-0.5 down=0", "up is -0.5"},
           Case{"a 1 0.5 1 up=0 down=nan", "down is nan"},
           Case{"a 1 0.5 1 up=0.75 down=0.5", "up and down are 1.25 together"},
           Case{"a 1 0.5 1 beside", "ends in 'beside'"},
           Case{"a 1 0.5 1 beside b", "must be MODEL:ROWS:SHARE"},
           Case{"a 1 0.5 1 beside b:1:0.5:3", "must be MODEL:ROWS:SHARE"},
           Case{"a 1 0.5 1 beside :1:0.5", "must be MODEL:ROWS:SHARE"},
           Case{"a 1 0.5 1 beside b:1:2", "share of a neighbour is 2"},
           Case{"a 1 0.5 1 cache=0 dram=0 b:1:0.5", "ends in 'b:1:0.5'"},
       }) {
    const auto points = ParseMeasuredPoints(c.text, "p");
    ASSERT_FALSE(points.has_value()) << c.text;
    EXPECT_NE(points.error().message.find(c.message), std::string::npos)
        << c.text << ": " << points.error().message;
  }
}

TEST(MeasuredPoints, CopiesAreReadAndWritten) {
  const auto points = ParseMeasuredPoints("a 4 0.5 2 cache=0.5 dram=0.25 up=0.5 down=0.125", "p");
  ASSERT_TRUE(points.has_value()) << points.error().message;
  EXPECT_EQ(points->front().copies, (MeasuredCopies{0.5, 0.125}));
  EXPECT_EQ(points->front().load, (DeviceLoad{0.5, 0.25}));
  EXPECT_EQ(ParseMeasuredPoints(MeasuredPointsText(*points), "again"), *points);
}

TEST(MeasuredPoints, APointFromElsewhereIsCheckedLikeALine) {
  const MeasuredPoint good{.model = "a", .rows = 1, .share = 0.5, .latency_ms = 2};
  EXPECT_TRUE(CheckMeasuredPoint(good).has_value());
  const auto message = [&](auto&& change) {
    MeasuredPoint bad = good;
    change(bad);
    const Status status = CheckMeasuredPoint(bad);
    return status ? "" : status.error().message;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message([](auto& p) { p.rows = 0; }), "rows is 0, must be from 1 to 1024");
  EXPECT_EQ(message([](auto& p) { p.share = 2; }), "share is 2, must be from 0.001 to 1");
  EXPECT_TRUE(message([&](auto& p) { p.latency_ms = nan; }).starts_with("latency_ms is nan"));
  EXPECT_TRUE(message([](auto& p) { p.latency_ms = -3; }).starts_with("latency_ms is -3"));
  EXPECT_TRUE(message([](auto& p) { p.load = {-1, 0}; }).starts_with("cache is -1"));
  EXPECT_TRUE(message([&](auto& p) { p.load = {0, nan}; }).starts_with("dram is nan"));
  EXPECT_TRUE(message([](auto& p) { p.copies = {2, 0}; }).starts_with("up and down are 2"));
  EXPECT_TRUE(message([](auto& p) {
                p.neighbours = {{"b", 1, 0}};
              }).starts_with("share of a neighbour is 0"));
}

TEST(MeasuredPoints, AMissingFileIsNamed) {
  const auto points = ReadMeasuredPoints("/nonexistent/points.txt");
  ASSERT_FALSE(points.has_value());
  EXPECT_EQ(points.error().code, ErrorCode::kNotFound);
  EXPECT_NE(points.error().message.find("/nonexistent/points.txt"), std::string::npos);
}

}  // namespace
}  // namespace lagoon

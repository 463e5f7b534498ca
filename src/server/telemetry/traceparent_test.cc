#include "server/telemetry/traceparent.h"

#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

constexpr const char* kValidTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traceparent, IsReadAndWritten) {
  const TraceContext context = ParseTraceparent(kValidTrace);
  ASSERT_TRUE(context.any());
  EXPECT_TRUE(context.sampled);
  EXPECT_EQ(context.trace[0], 0x0a);
  EXPECT_EQ(context.trace[15], 0x9c);
  EXPECT_EQ(context.parent[0], 0xb7);
  EXPECT_EQ(FormatTraceparent(context), kValidTrace);
  std::string unsampled = kValidTrace;
  unsampled.back() = '0';
  EXPECT_FALSE(ParseTraceparent(unsampled).sampled);
  EXPECT_TRUE(ParseTraceparent(unsampled).any());
  EXPECT_EQ(FormatTraceparent(ParseTraceparent(unsampled)), unsampled);
}

TEST(Traceparent, OnlyTheLowestFlagCounts) {
  std::string text = kValidTrace;
  text.replace(53, 2, "fe");
  EXPECT_FALSE(ParseTraceparent(text).sampled);
  text.replace(53, 2, "ff");
  EXPECT_TRUE(ParseTraceparent(text).sampled);
}

TEST(Traceparent, ALaterVersionMayHaveMore) {
  std::string text = kValidTrace;
  text.replace(0, 2, "cc");
  EXPECT_TRUE(ParseTraceparent(text).any());
  EXPECT_TRUE(ParseTraceparent(text + "-what-the-future-brings").any());
  EXPECT_FALSE(ParseTraceparent(text + ".what").any());
  EXPECT_FALSE(ParseTraceparent(std::string(kValidTrace) + "-more").any())
      << "version 0 has no more";
}

TEST(Traceparent, WhatIsNotValidIsNone) {
  const auto with = [](std::size_t at, const std::string& what) {
    return std::string(kValidTrace).replace(at, what.size(), what);
  };
  for (const std::string& text :
       {std::string(), std::string("00"), std::string(kValidTrace).substr(0, 54), with(0, "ff"),
        with(0, "0g"), with(3, "0AF7"), with(2, "_"), with(35, "0"), with(52, " "), with(53, "0x"),
        with(3, std::string(32, '0')), with(36, std::string(16, '0')),
        with(10, std::string(1, '\0')), with(10, "\xff"), " " + std::string(kValidTrace),
        std::string(1 << 20, '0'), std::string(kValidTrace) + std::string(1 << 20, 'a')}) {
    const TraceContext context = ParseTraceparent(text);
    EXPECT_FALSE(context.any()) << text.substr(0, 80);
    EXPECT_FALSE(context.sampled) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace lagoon

#include "base/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <memory>
#include <sstream>

namespace lagoon {
namespace {

TEST(Log, OneLineEscapesControlCharactersOnly) {
  EXPECT_EQ(OneLine("a 'b' \xc3\xa4 \\n"), "a 'b' \xc3\xa4 \\n");
  EXPECT_EQ(OneLine(std::string_view("a\nb\r\0\x1b[31m\x7f", 11)), R"(a\x0ab\x0d\x00\x1b[31m\x7f)");
  EXPECT_EQ(OneLine(""), "");
}

TEST(Log, ANameWithALineBreakForgesNoLine) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out)));
  SetUpLog();
  spdlog::error("model '{}': not served", "evil\n00:00:00.000 info model 'good': served");
  spdlog::set_default_logger(before);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find(R"(model 'evil\x0a00:00)"), text.npos) << text;
}

TEST(Log, EveryNamedLevelIsOneOfSpdlogs) {
  for (const std::string_view name : kLogLevels) {
    // from_str returns `off` for a name that it does not know.
    EXPECT_EQ(spdlog::level::from_str(std::string(name)) == spdlog::level::off, name == "off");
  }
}

}  // namespace
}  // namespace lagoon

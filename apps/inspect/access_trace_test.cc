#include "apps/inspect/access_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

TEST(TraceFile, ReefFigure9) {
  const auto sets = ParseTrace(R"({"operations": [
      {"name": "K0", "reads": [[0, 1], [1, 1]], "writes": [[2, 1]]},
      {"name": "K1", "reads": [[2, 2]], "writes": [[4, 1]]},
      {"name": "K2", "reads": [[4, 1]], "writes": [[5, 1]]},
      {"name": "K3", "reads": [[2, 1], [4, 1]], "writes": [[4, 1]]}]})",
                               "figure9.json");
  ASSERT_TRUE(sets) << sets.error().message;
  EXPECT_EQ((*sets)[3].name, "K3");
  EXPECT_EQ(FindIdempotentGroups(*sets), (std::vector<std::uint32_t>{0, 1, 2, 1}));
}

void ExpectRefused(const std::string& json, const std::string& why) {
  const auto sets = ParseTrace(json, "t.json");
  ASSERT_FALSE(sets) << json;
  EXPECT_THAT(sets.error().message, HasSubstr("t.json"));
  EXPECT_THAT(sets.error().message, HasSubstr(why));
}

TEST(TraceFile, RefusesWhatIsNoTrace) {
  ExpectRefused("{", "not JSON");
  ExpectRefused("[]", "not an object");
  ExpectRefused("{}", "has no 'operations'");
  ExpectRefused(R"({"operations": 3})", "'operations' is '3'");
  ExpectRefused(R"({"operations": [7]})", "entry 0: is '7'");
  ExpectRefused(R"({"operations": [{}, {"read": []}]})", "entry 1: has the unknown field 'read'");
  ExpectRefused(R"({"operations": [{"reads": 1}]})", "'reads' is '1'; it takes a list");
  ExpectRefused(R"({"operations": [{"reads": [[1]]}]})", "[1]");
  ExpectRefused(R"({"operations": [{"reads": [[-1, 4]]}]})", "[-1,4]");
  ExpectRefused(R"({"operations": [{"writes": [[0, 0]]}]})", "empty");
  ExpectRefused(R"({"operations": [{"writes": [[18446744073709551615, 2]]}]})", "beyond 64 bits");
}

TEST(TraceFile, AMissingFileIsNamed) {
  const auto sets = ReadTraceFile("/nowhere/trace.json");
  ASSERT_FALSE(sets);
  EXPECT_EQ(sets.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(sets.error().message, HasSubstr("/nowhere/trace.json"));
}

}  // namespace
}  // namespace lagoon

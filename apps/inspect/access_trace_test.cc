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

// REEF's Figure 9, in which K3 says from where it restarts.
std::string Figure9(const std::string& restarts_from) {
  return R"({"operations": [
      {"name": "K0", "reads": [[0, 1], [1, 1]], "writes": [[2, 1]], "restarts_from": 0},
      {"name": "K1", "reads": [[2, 2]], "writes": [[4, 1]]},
      {"name": "K2", "reads": [[4, 1]], "writes": [[5, 1]], "restarts_from": 2},
      {"name": "K3", "reads": [[2, 1], [4, 1]], "writes": [[4, 1]], "restarts_from": )" +
         restarts_from + "}]}";
}

TEST(TraceFile, WhatIsTrueOfRestartsIsTaken) {
  for (const std::uint32_t first : {0u, 1u}) {  // K0 overwrites nothing that the others read
    const auto sets = ParseTrace(Figure9(std::to_string(first)), "t.json");
    ASSERT_TRUE(sets) << sets.error().message;
    EXPECT_EQ(sets->back().restarts_from, first);
    EXPECT_FALSE((*sets)[1].restarts_from);
  }
}

TEST(TraceFile, AKernelThatOverwritesItsInputCannotSayThatItRunsAgain) {
  ExpectRefused(Figure9("3"),
                "operation 3 'K3' says that it restarts from operation 3, but these operations "
                "read bytes 4 to 4 and overwrite them: it restarts from operation 1");
  ExpectRefused(Figure9("2"), "it restarts from operation 1");
  ExpectRefused(R"({"operations": [{"name": "relu", "reads": [[8, 64]], "writes": [[0, 16]],
                    "restarts_from": 0}]})",
                "operation 0 'relu' says that it restarts from operation 0, but these operations "
                "read bytes 8 to 15 and overwrite them: it restarts from nowhere");
}

// The memset before the accumulation makes a group of two; the kernel before the memset reads what
// the accumulation overwrites.
TEST(TraceFile, ALargerGroupThanNeededMayBeALieToo) {
  const auto trace = [](int first) {
    return R"({"operations": [{"name": "sum", "reads": [[4, 4]], "writes": [[16, 4]]},
        {"name": "memset", "writes": [[4, 4]]},
        {"name": "add", "reads": [[0, 8]], "writes": [[4, 4]], "restarts_from": )" +
           std::to_string(first) + "}]}";
  };
  EXPECT_TRUE(ParseTrace(trace(1), "t.json"));
  ExpectRefused(trace(0), "read bytes 4 to 7 and overwrite them: it restarts from operation 1");
}

TEST(TraceFile, ARestartIsFromAnOperationThatCameBefore) {
  ExpectRefused(Figure9("4"), "operation 4, which comes after it: name one from 0 to 3");
  ExpectRefused(Figure9("-1"), "'restarts_from' is '-1'");
  ExpectRefused(Figure9("1.5"), "'restarts_from' is '1.5'");
  ExpectRefused(Figure9("true"), "'restarts_from' is 'true'");
}

TEST(TraceFile, AMissingFileIsNamed) {
  const auto sets = ReadTraceFile("/nowhere/trace.json");
  ASSERT_FALSE(sets);
  EXPECT_EQ(sets.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(sets.error().message, HasSubstr("/nowhere/trace.json"));
}

}  // namespace
}  // namespace lagoon

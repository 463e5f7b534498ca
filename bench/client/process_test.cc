#include "bench/client/process.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

TEST(RunToEnd, EveryWordReachesTheProgramAsItIs) {
  const std::string word = "it's; $HOME \"`true`\" *";
  const Result<int> same = RunToEnd({"test", word, "=", word});
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(*same, 0);
  EXPECT_EQ(*RunToEnd({"test", word, "=", "other"}), 1);
}

TEST(RunToEnd, NamesAProgramThatIsNotThere) {
  const Result<int> absent = RunToEnd({"/absent/program"});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find("/absent/program"), std::string::npos);
}

TEST(RunToEnd, NamesTheSignalThatEndedTheProgram) {
  const Result<int> ended = RunToEnd({"sh", "-c", "kill -9 $$"});
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message.find("signal 9"), std::string::npos);
}

}  // namespace
}  // namespace lagoon::bench

#include "base/library_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds kLong = std::chrono::minutes(1);

Error ErrorOf(const std::function<Status()>& load, Nanoseconds limit = kLong) {
  const Status tried = TryInChild(load, limit);
  return tried ? Error{ErrorCode::kInternal, "it went well"} : tried.error();
}

TEST(LibraryTrial, ReturnsWhatTheChildFound) {
  EXPECT_TRUE(TryInChild([]() -> Status { return {}; }, kLong));
  const Error error =
      ErrorOf([]() -> Status { return Fail(ErrorCode::kNotFound, "is no program"); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message, "is no program");
  const Error large =
      ErrorOf([]() -> Status { return Fail(ErrorCode::kInternal, std::string(100'000, 'x')); });
  EXPECT_EQ(large.code, ErrorCode::kInternal);
  EXPECT_THAT(large.message, HasSubstr("xxxx"));
}

TEST(LibraryTrial, NamesEveryWayToFail) {
  EXPECT_THAT(ErrorOf([]() -> Status { throw std::runtime_error("no luck"); }).message,
              HasSubstr("throws when it is loaded: no luck"));
  EXPECT_THAT(ErrorOf([]() -> Status { _exit(3); }).message, HasSubstr("exits with 3"));
  const auto crash = []() -> Status {
    std::raise(SIGKILL);
    return {};
  };
  EXPECT_THAT(ErrorOf(crash).message, HasSubstr("crashes when it is loaded: Killed"));
  const auto hang = []() -> Status {
    for (;;) pause();
  };
  EXPECT_THAT(ErrorOf(hang, std::chrono::milliseconds(20)).message,
              HasSubstr("is not loaded after 20 ms"));
}

TEST(LibraryTrial, RefusesOneThatClosesAllDescriptors) {
  const auto close_all = []() -> Status {
    for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
    return {};
  };
  EXPECT_FALSE(TryInChild(close_all, kLong));
}

// Such a process would hold the pipe open, and outlive the server.
TEST(LibraryTrial, EndsWhatTheChildHasForked) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto fork_one = [&]() -> Status {
    if (fork() != 0) return {};
    for (;;) pause();
  };
  EXPECT_TRUE(TryInChild(fork_one, kLong));
  close(ends[1]);
  char nothing = 0;
  EXPECT_EQ(read(ends[0], &nothing, 1), 0);  // returns once no process has the other end
  close(ends[0]);
}

}  // namespace
}  // namespace lagoon

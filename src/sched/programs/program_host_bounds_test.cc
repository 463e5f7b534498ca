// The memory of a ProgramHost is bounded, for any behaviour of its callers.

#include <gtest/gtest.h>

#include <atomic>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

// The host itself checks that it holds at most MostNews() news: more would end the test.
TEST_F(ProgramHostFixture, CancellationsDoNotPileUpWhileACoroutineComputes) {
  constexpr int kFlood = 50'000;  // MostNews() is some 11,000 here
  options_.max_jobs = 1;
  options_.max_pending = 1;
  std::atomic<bool> computes{false}, go_on{false};
  Open([&](JobContext& job) -> JobTask {
    computes.store(true);
    computes.notify_all();
    go_on.wait(false);  // the host's thread reads no news
    co_await job.All();
    co_return {};
  });
  HostedRequest running, waiting;
  const Result<JobId> first = Post(running);
  ASSERT_TRUE(first);
  computes.wait(false);
  const Result<JobId> second = Post(waiting);
  ASSERT_TRUE(second);
  for (int i = 0; i < kFlood; ++i) {
    host_->Cancel(*first);
    host_->Cancel(*second);
    host_->Cancel(JobId{Raw(*second) + 1000 + static_cast<std::uint64_t>(i)});  // the id of no job
  }
  go_on.store(true);
  go_on.notify_all();
  EXPECT_EQ(waiting.Await().outcome, Outcome::kCancelled);
  // Its coroutine may have ended before the cancellation was read.
  const Outcome outcome = running.Await().outcome;
  EXPECT_TRUE(outcome == Outcome::kDone || outcome == Outcome::kCancelled) << Name(outcome);
  host_->Cancel(*first);  // already answered: no effect
}

}  // namespace
}  // namespace lagoon::testing

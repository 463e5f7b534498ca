#include "sched/programs/profile_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

using ::testing::HasSubstr;

class ProfileJobsTest : public ProgramHostTest {
 protected:
  /// Each job runs ten kernels, and gives an answer if it may.
  void OpenTenSteps() {
    Open(
        [this](JobContext& job) -> JobTask {
          ++jobs_;
          for (int step = 0; step < 10; ++step) {
            co_await job.Launch(
                scale_, ScaleArgs{job.Input<float>(0).data(), job.Output<float>(0).data(), 2}, 4);
          }
          if (options_.decoupled) co_await job.Send();
          co_return Status();
        },
        LoadKernels());
  }
  Status Profile(std::uint32_t runs, Nanoseconds within = std::chrono::minutes(1)) {
    return ProfileJobs(*host_, *device_, {inputs_, 1, runs, within});
  }
  static std::string MessageOf(const Status& status) {
    return status ? "" : status.error().message;
  }

  float x_[4] = {1, 2, 3, 4};
  const void* inputs_[1] = {x_};
  int jobs_ = 0;
};

TEST_F(ProfileJobsTest, RunsAsManyJobsAsItSays) {
  OpenTenSteps();
  ASSERT_TRUE(Profile(3));
  EXPECT_EQ(jobs_, 3);
}

TEST_F(ProfileJobsTest, DropsWhatAJobSends) {
  options_.decoupled = true;
  OpenTenSteps();
  ASSERT_TRUE(Profile(20));  // more than may be untaken
  EXPECT_EQ(jobs_, 20);
}

TEST_F(ProfileJobsTest, AnErrorNamesTheRunAndEndsTheProfile) {
  Open([this](JobContext& /*job*/) -> JobTask {
    if (++jobs_ == 2) co_return Fail(ErrorCode::kInvalidArgument, "no such token");
    co_return Status();
  });
  EXPECT_THAT(MessageOf(Profile(3)), AllOf(HasSubstr("run 2 of 3"), HasSubstr("no such token")));
  EXPECT_EQ(jobs_, 2);
}

TEST_F(ProfileJobsTest, ARunThatDoesNotEndIsGivenUp) {
  Open(
      [this](JobContext& job) -> JobTask {
        co_await job.Launch(gate_, GateArgs{&open_}, 1);
        co_return Status();
      },
      LoadKernels());
  EXPECT_THAT(MessageOf(Profile(3, std::chrono::milliseconds(20))),
              AllOf(HasSubstr("run 1 of 3"), HasSubstr("within 0.02 s")));
}

TEST_F(ProfileJobsTest, AProgramThatNeverYieldsIsGivenUp) {
  options_.host_limit = std::chrono::milliseconds(20);
  // The thread of a program that was given up may still read the flag after the test has ended.
  static std::atomic<bool> open;
  open = false;
  Open([](JobContext& /*job*/) -> JobTask {
    while (!open) std::this_thread::yield();
    co_return Status();
  });
  EXPECT_THAT(MessageOf(Profile(1)), HasSubstr("computed on the host for more than 20 ms"));
  open = true;
}

/// Notes the expected time of each job: of each operation, with what lies ahead of it.
class NotesTotals final : public Policy {
 public:
  explicit NotesTotals(std::vector<Nanoseconds>& totals) : totals_(totals) {}
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
  void OnArrival(const ScheduledJob& job) override { totals_.push_back(job.total); }

 private:
  std::vector<Nanoseconds>& totals_;
};

TEST_F(ProfileJobsTest, TheFirstRequestHasItsStepsAhead) {
  std::vector<Nanoseconds> totals;
  dispatcher_.reset();  // a device has one listener
  dispatcher_ = std::make_unique<Dispatcher>(*device_, SchedulerConfig{.name = "test"},
                                             std::make_unique<NotesTotals>(totals));
  OpenTenSteps();
  ASSERT_TRUE(Profile(3, std::chrono::seconds(10)));
  ASSERT_EQ(totals.size(), 30u);
  EXPECT_EQ(totals[0], Nanoseconds(0)) << "nothing was known";
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_GT(totals[30], 2 * totals[39]) << "nine steps lie ahead of the first one";
  EXPECT_GT(totals[39], Nanoseconds(0));
}

}  // namespace
}  // namespace lagoon::testing

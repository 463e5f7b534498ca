// Records of late requests, from a core that serves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "serving/late/late_log.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using namespace lagoon::testing;
using ::testing::SizeIs;
using Json = nlohmann::json;

class LateTest : public CoreTest {
 protected:
  LateTest() {
    std::filesystem::remove(path_);
    log_ = *LateLog::Open({.path = path_});
    late_ = log_.get();
  }
  ~LateTest() override { std::filesystem::remove(path_); }

  static InferRequest Within(InferRequest request, Nanoseconds timeout) {
    request.timeout = timeout;
    request.end = std::make_shared<RequestEnd>();
    return request;
  }
  /// Ends the core.
  std::vector<Json> Records() {
    core_.reset();
    log_.reset();
    std::ifstream file(path_);
    std::vector<Json> records;
    for (std::string line; std::getline(file, line);) records.push_back(Json::parse(line));
    return records;
  }
  static double SumOf(const Json& waits) {
    double sum = 0;
    for (const auto& wait : waits) sum += wait.get<double>();
    return sum;
  }

  const std::string path_ = ::testing::TempDir() + "/late_test.json";
  std::unique_ptr<LateLog> log_;
};

TEST_F(LateTest, NamesTheJobThatHadTheDevice) {
  AddHeld();
  repository_.AddModel("small", SmallModel());
  Open();
  Sent running = SendRunning();
  InferRequest request = Within(SlowRequest(), 500ms);
  request.id = "behind";
  const std::shared_ptr<RequestEnd> end = request.end;
  EXPECT_EQ(CodeOf(Ask(std::move(request))), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(end->late);
  EXPECT_EQ(end->job.outcome, Outcome::kExpired);
  LetGo();
  EXPECT_EQ(CodeOf(running.answer.get()), std::nullopt);
  const std::vector<Json> records = Records();
  ASSERT_THAT(records, SizeIs(1));
  const Json& record = records[0];
  EXPECT_EQ(record["model"], "slow");
  EXPECT_EQ(record["id"], "behind");
  EXPECT_EQ(record["outcome"], "expired");
  EXPECT_EQ(record["allowed_us"], 500'000);
  EXPECT_GE(record["late_us"], 0);
  EXPECT_GT(record["waits_us"]["queue"], 0) << record;
  EXPECT_NEAR(SumOf(record["waits_us"]), record["took_us"].get<double>(), 2) << record;
  ASSERT_FALSE(record["instead"].empty()) << record;
  EXPECT_EQ(record["instead"][0]["model"], "slow/1");
  EXPECT_GT(record["instead"][0]["us"], 0) << "its block runs still: " << record;
  EXPECT_EQ(record["own"]["blocks"], 0);
}

TEST_F(LateTest, ARequestThatCameTooSlowlyWasLateOnTheWire) {
  repository_.AddModel("small", SmallModel());
  Open();
  InferRequest request = Within(SmallRequest(), 1ms);
  request.arrival -= 5ms;
  request.received = request.arrival + 4ms;
  const std::shared_ptr<RequestEnd> end = request.end;
  EXPECT_EQ(CodeOf(Ask(std::move(request))), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(end->late);
  const std::vector<Json> records = Records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0]["waits_us"]["wire"], 4000);
  EXPECT_NEAR(SumOf(records[0]["waits_us"]), records[0]["took_us"].get<double>(), 2);
}

TEST_F(LateTest, ARequestInTimeHasNoRecord) {
  repository_.AddModel("small", SmallModel(), kRealTime);
  Open();
  InferRequest request = Within(SmallRequest(), 600s);
  const std::shared_ptr<RequestEnd> end = request.end;
  ASSERT_EQ(CodeOf(Ask(std::move(request))), std::nullopt);
  EXPECT_FALSE(end->late);
  EXPECT_EQ(end->job_class, JobClass::kRealTime);
  EXPECT_EQ(end->job.outcome, Outcome::kDone);
  EXPECT_NE(end->job.job, JobId{});
  EXPECT_LE(end->admitted, end->job.posted);
  InferRequest lowered = Within(SmallRequest(), 600s);
  lowered.priority = 2;
  const std::shared_ptr<RequestEnd> lowered_end = lowered.end;
  ASSERT_EQ(CodeOf(Ask(std::move(lowered))), std::nullopt);
  EXPECT_EQ(lowered_end->job_class, JobClass::kBestEffort);
  EXPECT_THAT(Records(), SizeIs(0));
}

TEST_F(LateTest, TellsTheWaitForABatch) {
  AddHeld();
  repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 8\ndynamic_batching { }\n");
  Open();
  Sent running = SendRunning();
  Sent first = Send(SmallRequest("batch"));  // has the batcher's place, and waits for the device
  EXPECT_EQ(CodeOf(Ask(Within(SmallRequest("batch"), 500ms))), ErrorCode::kDeadlineExceeded);
  LetGo();
  EXPECT_EQ(CodeOf(running.answer.get()), std::nullopt);
  EXPECT_EQ(CodeOf(first.answer.get()), std::nullopt);
  const std::vector<Json> records = Records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_GT(records[0]["waits_us"]["batch"], 0) << records[0];
  EXPECT_EQ(records[0]["waits_us"]["queue"], 0);
  EXPECT_NEAR(SumOf(records[0]["waits_us"]), records[0]["took_us"].get<double>(), 2);
}

}  // namespace
}  // namespace lagoon

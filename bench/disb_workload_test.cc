#include "bench/disb_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Nanoseconds kStandalone = milliseconds(10);

int Count(const DisbWorkload& workload, JobClass job_class) {
  return static_cast<int>(
      std::count_if(workload.clients.begin(), workload.clients.end(),
                    [&](const DisbClient& client) { return client.job_class == job_class; }));
}

TEST(DisbWorkload, NamedOnesAreTheRowsOfTable2) {
  struct Row {
    const char* name;
    int real_time, best_effort;
    double fraction;
  };
  for (const Row& row : {Row{"A", 1, 1, 0.5}, Row{"B", 1, 1, 0}, Row{"C", 1, 5, 0.5},
                         Row{"D", 5, 5, 0.1}, Row{"E", 5, 5, 0.1}, Row{"REAL", 5, 5, 0}}) {
    const Result<DisbWorkload> workload = NamedDisbWorkload(row.name, DisbScale::kPaper, 1);
    ASSERT_TRUE(workload);
    EXPECT_EQ(Count(*workload, JobClass::kRealTime), row.real_time) << row.name;
    EXPECT_EQ(Count(*workload, JobClass::kBestEffort), row.best_effort) << row.name;
    EXPECT_DOUBLE_EQ(workload->clients.front().load.fraction, row.fraction) << row.name;
  }
  const auto a = NamedDisbWorkload("A", DisbScale::kPaper, 1);
  EXPECT_EQ(a->clients[0].model, "vgg19");
  EXPECT_EQ(a->clients[1].model, "resnet152");
  EXPECT_DOUBLE_EQ(RateOf(a->clients[0].load, kStandalone), 50);
  const auto unknown = NamedDisbWorkload("F", DisbScale::kSmall, 1);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("'F'"), HasSubstr("REAL")));
}

TEST(DisbWorkload, OtherSpellingsOfAModelHaveTheNameOfTheZoo) {
  EXPECT_EQ(ZooNameOf("inceptionv3"), "inception_v3");
  EXPECT_EQ(ZooNameOf("gpt2"), "gpt2_prefill");
  EXPECT_EQ(ZooNameOf("inception_v3"), "inception_v3");
  EXPECT_EQ(ZooNameOf("densenet201"), "densenet201");
}

TEST(DisbWorkload, ArrivalsHaveTheirRateAndAscend) {
  for (const auto kind : {DisbLoad::Kind::kUniform, DisbLoad::Kind::kPoisson}) {
    DisbLoad load;
    load.kind = kind;
    load.fraction = 0.5;
    std::mt19937 random(3);
    const auto times = Arrivals(load, kStandalone, seconds(100), random);
    EXPECT_NEAR(static_cast<double>(times.size()), 5000, 250);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_LT(times.back(), seconds(100));
    std::mt19937 again(3);
    EXPECT_EQ(Arrivals(load, kStandalone, seconds(100), again), times);
  }
}

TEST(DisbWorkload, TheGeneratedTraceHasThePublishedRates) {
  const auto real = NamedDisbWorkload("REAL", DisbScale::kSmall, 1);
  const double rates[] = {9.7, 14.7, 5.2, 9.7, 4.4};
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(RateOf(real->clients[static_cast<std::size_t>(i)].load, kStandalone), rates[i],
                rates[i] * 0.35);
  }
}

TEST(DisbWorkload, ATraceRepeatsUntilTheEndOfTheWindow) {
  const auto workload = ParseDisbWorkload("trace", Json::parse(R"({"time": 1, "tasks": [
      {"id": "camera_rt", "load": {"type": "trace", "trace": [0, 150.5, 900]},
       "client": {"model_name": "m"}}]})"));
  ASSERT_TRUE(workload) << workload.error().message;
  std::mt19937 random(1);
  const auto times = Arrivals(workload->clients[0].load, kStandalone, milliseconds(1200), random);
  EXPECT_THAT(times, ::testing::ElementsAre(Nanoseconds(0), std::chrono::microseconds(150500),
                                            milliseconds(900), seconds(1),
                                            std::chrono::microseconds(1150500)));
}

TEST(DisbWorkload, ReadsTheFormOfDisbsOwnFiles) {
  const auto workload = ParseDisbWorkload("a", Json::parse(R"({"time": 60, "tasks": [
      {"id": "vgg19_rt", "load": {"type": "periodic", "priority": 0, "frequency": 100},
       "client": {"name": "vgg19_rt", "model_name": "vgg19-imagenet", "batch_size": 1,
                  "tfs_grpc_addr": "localhost:8500", "triton_grpc_addr": "localhost:8001"}},
      {"id": "background", "load": {"type": "continuous"},
       "client": {"model_name": "resnet152", "priority": 1}}]})"));
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->clients[0].job_class, JobClass::kRealTime);
  EXPECT_EQ(workload->clients[0].load.kind, DisbLoad::Kind::kUniform);
  EXPECT_DOUBLE_EQ(RateOf(workload->clients[0].load, kStandalone), 100);
  EXPECT_EQ(workload->clients[0].model, "vgg19");
  EXPECT_EQ(workload->clients[1].job_class, JobClass::kBestEffort);
  EXPECT_EQ(workload->clients[1].load.kind, DisbLoad::Kind::kContinuous);
}

// The error for a file with one valid task that has another value at `pointer`.
std::string Refusal(const std::string& pointer, const Json& value) {
  Json document = Json::parse(R"({"time": 60, "tasks": [{"id": "x_rt",
      "load": {"type": "periodic", "frequency": 100}, "client": {"model_name": "m"}}]})");
  document[Json::json_pointer(pointer)] = value;
  const auto workload = ParseDisbWorkload("file", document);
  return workload ? "" : workload.error().message;
}

TEST(DisbWorkload, BadFilesAreRefusedByTaskKeyAndValue) {
  EXPECT_EQ(Refusal("/time", 5), "");
  EXPECT_THAT(Refusal("/time", -1), HasSubstr("'time' is -1"));
  EXPECT_THAT(Refusal("/tasks", Json::array()), HasSubstr("0 tasks"));
  EXPECT_THAT(Refusal("/more", 1), HasSubstr("'more'"));
  EXPECT_THAT(Refusal("/tasks/0/id", ""), HasSubstr("task 0 has no 'id'"));
  EXPECT_THAT(Refusal("/tasks/0/id", "x"), AllOf(HasSubstr("'x'"), HasSubstr("_rt")));
  EXPECT_THAT(Refusal("/tasks/0/load/type", "burst"), AllOf(HasSubstr("x_rt"), HasSubstr("burst")));
  EXPECT_THAT(Refusal("/tasks/0/load/frequency", 0), HasSubstr("'frequency' is 0"));
  EXPECT_THAT(Refusal("/tasks/0/load/frequency", -3), HasSubstr("'frequency' is -3"));
  EXPECT_THAT(Refusal("/tasks/0/load/frequency", std::nan("")), HasSubstr("'frequency'"));
  EXPECT_THAT(Refusal("/time", std::nan("")), HasSubstr("'time'"));
  EXPECT_THAT(Refusal("/tasks/0/load/frequency", "fast"), HasSubstr("fast"));
  EXPECT_THAT(Refusal("/tasks/0/load/jitter", 1), HasSubstr("'jitter'"));
  EXPECT_THAT(Refusal("/tasks/0/load", Json{{"type", "trace"}, {"trace", {5, 3}}}), HasSubstr("3"));
  EXPECT_THAT(Refusal("/tasks/0/load", Json{{"type", "trace"}, {"trace", {-5}}}), HasSubstr("-5"));
  EXPECT_THAT(Refusal("/tasks/0/client/batch_size", 8), HasSubstr("'batch_size' is 8"));
  EXPECT_THAT(Refusal("/tasks/0/client/model_name", 7), HasSubstr("'model_name'"));
  EXPECT_THAT(Refusal("/tasks/0/client/priority", 3), HasSubstr("'priority' is 3"));
  const Json one = Json::parse(R"({"id": "x_rt", "load": {"type": "continuous"},
                                   "client": {"model_name": "m"}})");
  const auto twice = ParseDisbWorkload("file", Json{{"tasks", {one, one}}});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("x_rt"));
  EXPECT_FALSE(ReadDisbWorkload("/absent.json"));
  const std::string file = ::testing::TempDir() + "/twice.json";
  std::ofstream(file) << R"({"time": 1, "time": 2, "tasks": []})";
  const auto again = ReadDisbWorkload(file);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, AllOf(HasSubstr("twice.json"), HasSubstr("'time'")));
}

}  // namespace
}  // namespace lagoon::bench

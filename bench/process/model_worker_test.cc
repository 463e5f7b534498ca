#include "bench/process/model_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "bench/client/bound_model.h"
#include "bench/client/temporary_repository.h"

namespace lagoon::bench {
namespace {

using ::testing::HasSubstr;

class ModelWorkerTest : public ::testing::Test {
 protected:
  ModelWorkerTest() : repository_(*TemporaryRepository::Link("", {})) {
    const std::int64_t dims[] = {1, 3, 8, 8};
    EXPECT_TRUE(repository_.AddChannelMeans("means", dims));
  }
  /// The answers to `lines`.
  std::vector<nlohmann::json> Answers(const std::string& lines) const {
    std::istringstream in(lines);
    std::stringstream out;
    EXPECT_TRUE(RunModelWorker({.file = ModelFile(repository_.path(), "means")}, in, out));
    std::vector<nlohmann::json> answers;
    for (std::string line; std::getline(out, line);) answers.push_back(nlohmann::json::parse(line));
    return answers;
  }

 private:
  TemporaryRepository repository_;
};

TEST_F(ModelWorkerTest, AnswersLineByLineUntilQuit) {
  const auto answers = Answers(
      "{\"cmd\": \"info\"}\n{\"cmd\": \"run\", \"n\": 3, \"warmup\": 2}\n{\"cmd\": \"quit\"}\n"
      "{\"cmd\": \"info\"}\n");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_TRUE(answers[0].at("ok"));
  EXPECT_GT(answers[0].at("load_ms"), 0);
  EXPECT_GT(answers[0].at("rss_kib"), 0);
  EXPECT_GE(answers[0].at("peak_rss_kib"), answers[0].at("rss_kib"));
  EXPECT_EQ(answers[1].at("latencies_us").size(), 3U);
  for (const double latency : answers[1].at("latencies_us")) EXPECT_GT(latency, 0);
}

TEST_F(ModelWorkerTest, RefusesWhatItDoesNotKnowAndGoesOn) {
  const auto answers = Answers(
      "no json\n[1]\n{\"cmd\": 7}\n{\"cmd\": \"loop\"}\n{\"cmd\": \"run\", \"n\": -1}\n"
      "{\"cmd\": \"run\", \"n\": 1.5}\n{\"cmd\": \"run\", \"warmup\": 1000001}\n{\"cmd\": "
      "\"run\"}\n");
  ASSERT_EQ(answers.size(), 8U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_FALSE(answers[i].at("ok")) << i;
    EXPECT_THAT(answers[i].at("error").get<std::string>(),
                HasSubstr(i < 4 ? "known: info, run, quit" : "from 0 to 1000000"));
  }
  EXPECT_EQ(answers[7].at("latencies_us").size(), 1U);
}

TEST_F(ModelWorkerTest, SaysOnceWhyAModelCannotBeLoaded) {
  std::istringstream in("{\"cmd\": \"info\"}\n");
  std::stringstream out;
  EXPECT_FALSE(RunModelWorker({.file = "nowhere/absent.onnx"}, in, out));
  const auto answer = nlohmann::json::parse(out.str());
  EXPECT_FALSE(answer.at("ok"));
  EXPECT_THAT(answer.at("error").get<std::string>(), HasSubstr("nowhere/absent.onnx"));
}

}  // namespace
}  // namespace lagoon::bench

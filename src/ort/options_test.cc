#include "ort/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace lagoon::plugin {
namespace {

using testing::HasSubstr;

Result<Settings> Read(const std::vector<Entry>& entries) { return ReadSettings(entries); }

TEST(OrtOptions, AreReadFromTexts) {
  const auto read = Read({{"class", "real-time"},
                          {"deadline_us", "1500"},
                          {"workers", "3"},
                          {"cores", "0-2,5"},
                          {"worker_nice", "-5"},
                          {"worker_fifo", "40"},
                          {"partition", "0"},
                          {"weight", "2.5"},
                          {"scheduler", "edf"}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->session.model.job_class, JobClass::kRealTime);
  EXPECT_EQ(read->session.model.deadline, std::chrono::microseconds(1500));
  EXPECT_EQ(read->session.model.weight, 2.5);
  EXPECT_FALSE(read->session.partition);
  EXPECT_EQ(read->process.workers, 3u);
  EXPECT_EQ(read->process.cores, (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(read->process.worker_nice, -5);
  EXPECT_EQ(read->process.worker_fifo, 40);
  EXPECT_EQ(read->process.scheduler, "edf");
  EXPECT_FALSE(read->process.spin_us);
}

TEST(OrtOptions, AnUnknownKeyIsAnErrorThatListsTheKeys) {
  const auto read = Read({{"clas", "real-time"}});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("no option 'clas'; the options are class, "));
}

TEST(OrtOptions, BadValuesAreErrorsThatNameKeyAndValue) {
  for (const auto& [key, value] : std::vector<Entry>{{"class", "urgent"},
                                                     {"deadline_us", "-1"},
                                                     {"deadline_us", "5ms"},
                                                     {"deadline_us", ""},
                                                     {"deadline_us", "99999999999999999999"},
                                                     {"weight", "0"},
                                                     {"weight", "nan"},
                                                     {"share", "1.5"},
                                                     {"precision", "fp8"},
                                                     {"concurrency", "0"},
                                                     {"max_pending", "0"},
                                                     {"partition", "yes"},
                                                     {"workers", "100000"},
                                                     {"cores", ""},
                                                     {"cores", "1,"},
                                                     {"cores", "3-1"},
                                                     {"cores", "-1"},
                                                     {"cores", "0-2,2"},
                                                     {"cores", "all"},
                                                     {"cores", "0-4096"},
                                                     {"worker_nice", "40"},
                                                     {"worker_nice", "low"},
                                                     {"worker_fifo", "-1"},
                                                     {"worker_fifo", "100"}}) {
    const auto read = Read({{key, value}});
    ASSERT_FALSE(read) << key << "=" << value;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr("'" + value + "'")) << key;
  }
}

TEST(OrtOptions, TheEnvironmentGivesDefaultsOfTheProcessOnly) {
  const auto read = ReadEnvironment([](const char* name) -> const char* {
    const std::string text = name;
    if (text == "LAGOON_ORT_WORKERS") return "2";
    return text == "LAGOON_ORT_CLASS" ? "nonsense" : nullptr;
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->workers, 2u);
  EXPECT_FALSE(read->scheduler);
  const auto bad = ReadEnvironment([](const char* name) -> const char* {
    return std::string(name) == "LAGOON_ORT_SPIN_US" ? "much" : nullptr;
  });
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("LAGOON_ORT_SPIN_US"));
}

TEST(OrtOptions, LaterSessionsMustAgreeWithTheFirst) {
  const ProcessSettings present{.workers = 2,
                                .cores = std::vector<int>{0, 1},
                                .worker_nice = 0,
                                .worker_fifo = 0,
                                .scheduler = "reset",
                                .spin_us = 20,
                                .trace_events = 0};
  EXPECT_TRUE(CheckAgree(present, {}));
  ProcessSettings same, more, scheduler;
  same.workers = 2;
  same.scheduler = "reset";
  more.workers = 4;
  scheduler.scheduler = "edf";
  EXPECT_TRUE(CheckAgree(present, same));
  const Status other = CheckAgree(present, more);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("'workers' is '4'"));
  EXPECT_FALSE(CheckAgree(present, scheduler));
  ProcessSettings cores, nice;
  cores.cores = {0, 1};
  EXPECT_TRUE(CheckAgree(present, cores));
  cores.cores = {1, 3};
  const Status others = CheckAgree(present, cores);
  ASSERT_FALSE(others);
  EXPECT_THAT(others.error().message, HasSubstr("'cores' is '1,3', but the first session of this "
                                                "process has decided '0,1'"));
  nice.worker_nice = 5;
  EXPECT_FALSE(CheckAgree(present, nice));
}

TEST(OrtOptions, OfARunAreReadByKey) {
  std::map<std::string, std::string> keys{
      {"lagoon.class", "best-effort"}, {"lagoon.deadline_us", "250"}, {"lagoon.tag", "camera"}};
  const auto lookup = [&](const char* key) -> const char* {
    const auto found = keys.find(key);
    return found == keys.end() ? nullptr : found->second.c_str();
  };
  auto run = ReadRunSettings(lookup);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->job_class, JobClass::kBestEffort);
  EXPECT_EQ(run->deadline, std::chrono::microseconds(250));
  EXPECT_EQ(run->tag, "camera");
  EXPECT_FALSE(run->due);
  keys["lagoon.due_ns"] = "1e9";
  EXPECT_FALSE(ReadRunSettings(lookup));
}

}  // namespace
}  // namespace lagoon::plugin

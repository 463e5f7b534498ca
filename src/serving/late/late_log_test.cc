#include "serving/late/late_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

TimePoint AtMs(int ms) { return TimePoint(std::chrono::hours(5) + std::chrono::milliseconds(ms)); }

/// Arrived at 0, read until 1, parsed until 2, waited for a plan until 4, posted, started at 9,
/// copied until 10, computed until 15, done at 16; the deadline was 10.
LateRequest LateCamera() {
  LateRequest late{.model = "camera", .version = "1", .id = "seven", .arrival = AtMs(0)};
  late.end.job_class = JobClass::kRealTime;
  late.end.received = AtMs(1);
  late.end.admitted = AtMs(2);
  late.end.deadline = AtMs(10);
  late.end.late = true;
  late.end.waits.plan = 2ms;
  JobResult& job = late.end.job;
  job.outcome = Outcome::kExpired;
  job.job = JobId{5};
  job.posted = AtMs(4);
  job.started = AtMs(9);
  job.inputs_copied = AtMs(10);
  job.computed = AtMs(15);
  job.finished = AtMs(16);
  job.revocations = 3;
  job.resumed_blocks = 40;
  job.repeated_kernels = 2;
  late.jobs = {JobId{5}};
  late.off_core = 250us;
  return late;
}

RecentWork::Report WorkReport() {
  RecentWork::Report report;
  report.jobs = {{"encoder", JobClass::kBestEffort, JobId{3}, 12, 100, 4, 7ms, 6ms},
                 {"camera", JobClass::kRealTime, JobId{5}, 6, 30, 0, 5ms, 0ms},
                 {"", JobClass::kBestEffort, JobId{}, 0, 1, 0, 10us, 0ms}};
  return report;
}

TEST(LateRecord, TellsWhereTheTimeWentAndWhatRanInstead) {
  const Json record = Json::parse(LateRecordJson(LateCamera(), WorkReport(), 2));
  EXPECT_EQ(record["model"], "camera");
  EXPECT_EQ(record["class"], "real-time");
  EXPECT_EQ(record["id"], "seven");
  EXPECT_EQ(record["allowed_us"], 10'000);
  EXPECT_EQ(record["took_us"], 16'000);
  EXPECT_EQ(record["late_us"], 6'000);
  const std::map<std::string, double> waits = record["waits_us"];
  EXPECT_EQ(waits, (std::map<std::string, double>{{"wire", 1000},
                                                  {"parse", 1000},
                                                  {"admit", 0},
                                                  {"sequence", 0},
                                                  {"plan", 2000},
                                                  {"batch", 0},
                                                  {"queue", 5000},
                                                  {"copy_in", 1000},
                                                  {"compute", 5000},
                                                  {"copy_out", 1000}}));
  double sum = 0;
  for (const auto& [name, us] : waits) sum += us;
  EXPECT_EQ(sum, record["took_us"]) << "nothing is missing and nothing counts twice";
  EXPECT_EQ(record["revocations"], 3);
  EXPECT_EQ(record["resumed_blocks"], 40);
  EXPECT_EQ(record["repeated_kernels"], 2);
  EXPECT_EQ(record["off_core_us"], 250);
  EXPECT_EQ(record["own"]["blocks"], 30);
  ASSERT_THAT(record["instead"], SizeIs(2));
  EXPECT_EQ(record["instead"][0]["model"], "encoder");
  EXPECT_EQ(record["instead"][0]["job"], 3);
  EXPECT_EQ(record["instead"][0]["blocks"], 100);
  EXPECT_EQ(record["instead"][0]["left_blocks"], 4);
  EXPECT_EQ(record["instead"][0]["us"], 7000);
  EXPECT_EQ(record["instead"][0]["opaque_us"], 6000);
  EXPECT_EQ(record["left_out"], 2);
  EXPECT_FALSE(record.contains("instead_rest"));
}

TEST(LateRecord, AddsTheJobsBeyondTheFirstSixteenUp) {
  RecentWork::Report work;
  for (std::uint64_t i = 0; i < 20; ++i) {
    work.jobs.push_back({"m", JobClass::kBestEffort, JobId{i + 100}, 1, 2, 0, 1ms, 0ms});
  }
  const Json record = Json::parse(LateRecordJson(LateCamera(), work, 0));
  EXPECT_THAT(record["instead"], SizeIs(16));
  EXPECT_EQ(record["instead_rest"]["jobs"], 4);
  EXPECT_EQ(record["instead_rest"]["blocks"], 8);
  EXPECT_EQ(record["instead_rest"]["us"], 4000);
}

TEST(LateRecord, IsOneBoundedLineWhateverTheClientCallsTheRequest) {
  LateRequest late = LateCamera();
  late.id = "a\nb\xff\x1b[31m" + std::string(1 << 20, 'x');
  const std::string record = LateRecordJson(late, WorkReport(), 0);
  EXPECT_THAT(record, Not(HasSubstr("\n")));
  EXPECT_LT(record.size(), 4096u);
  EXPECT_TRUE(Json::accept(record));
  late.id = std::string(199, 'x') + "é";
  EXPECT_EQ(Json::parse(LateRecordJson(late, WorkReport(), 0))["id"], std::string(199, 'x'))
      << "no half of a character";
  const std::string line = LateLine(late, WorkReport());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  EXPECT_LT(line.size(), 1024u);
}

TEST(LateRecord, TheLineNamesTheCauses) {
  const std::string line = LateLine(LateCamera(), WorkReport());
  for (
      const char* const part :
      {"model 'camera': a real-time request 'seven' was late: expired after 16.000 ms of 10.000 ms",
       "wire 1.000, ", "plan 2.000, ", "queue 5.000, ", "revoked 3 times",
       "instead ran 'encoder' (best-effort) 100 blocks, 7.000 ms of which 6.000 ms in an engine"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  EXPECT_THAT(line, Not(HasSubstr("batch"))) << "a wait that was not";
}

class LateFile : public ::testing::Test {
 protected:
  LateFile() { std::filesystem::create_directories(folder_); }
  ~LateFile() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LateLog> Open(LateLog::Options options = {}) {
    options.path = path_;
    auto log = LateLog::Open(options);
    EXPECT_TRUE(log) << log.error().message;
    return *std::move(log);
  }
  static std::vector<Json> Read(const std::string& path) {
    std::ifstream file(path);
    std::vector<Json> records;
    for (std::string line; std::getline(file, line);) records.push_back(Json::parse(line));
    return records;
  }

  const std::string folder_ = ::testing::TempDir() + "/late_file_test";
  const std::string path_ = folder_ + "/late.json";
};

TEST_F(LateFile, GetsALinePerRequestAndKeepsThoseOfTheServerBefore) {
  for (int server = 0; server < 2; ++server) {
    auto log = Open();
    log->Add(LateCamera());
  }
  const std::vector<Json> records = Read(path_);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[1]["model"], "camera");
  EXPECT_EQ(records[1]["complete"], false) << "no RecentWork: it does not know what ran";
}

TEST_F(LateFile, LeavesOutWhatIsBeyondTheLimitAndSaysHowMany) {
  auto log = Open({.most_per_second = 3});
  for (int i = 0; i < 10; ++i) log->Add(LateCamera());
  LateRequest later = LateCamera();
  later.end.job.finished += 2s;
  log->Add(later);
  log.reset();
  const std::vector<Json> records = Read(path_);
  ASSERT_THAT(records, SizeIs(4));
  std::uint64_t left_out = 0;
  for (const Json& record : records) left_out += record["left_out"].get<std::uint64_t>();
  EXPECT_EQ(left_out, 7u);
}

TEST_F(LateFile, IsRenamedWhenItIsFull) {
  const std::size_t line = LateRecordJson(LateCamera(), {{}, false, false}, 0).size();
  auto log = Open({.most_bytes = line * 5 / 2});
  for (int i = 0; i < 5; ++i) log->Add(LateCamera());
  log.reset();
  EXPECT_THAT(Read(path_), SizeIs(1));
  EXPECT_THAT(Read(path_ + ".1"), SizeIs(2));
}

// The limit on the size of files stands for a full disk: both let write() do a part, and then fail.
TEST_F(LateFile, AFullDiskLeavesNoHalfLineAndIsCounted) {
  auto log = Open();
  log->Add(LateCamera());
  log.reset();
  const auto size = std::filesystem::file_size(path_);
  auto* const before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit full = {size + 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  log = Open();
  log->Add(LateCamera());
  log.reset();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(std::filesystem::file_size(path_), size);
  log = Open();
  log->Add(LateCamera());
  log.reset();
  EXPECT_THAT(Read(path_), SizeIs(2));
}

TEST_F(LateFile, ADeviceThatIsAlwaysFullStopsNothing) {
  auto log = LateLog::Open({.path = "/dev/full"});
  ASSERT_TRUE(log);
  for (int i = 0; i < 1000; ++i) (*log)->Add(LateCamera());
}

TEST_F(LateFile, APipeWhoseReaderPausesStopsNothing) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(LateLog::Open({.path = pipe})) << "no process reads the pipe";
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  auto log = LateLog::Open({.path = pipe});
  ASSERT_TRUE(log);
  for (int i = 0; i < 1000; ++i) (*log)->Add(LateCamera());
  log->reset();  // ends although the pipe is full
  ::close(reader);
}

TEST_F(LateFile, APlaceThatCannotBeWrittenIsAnError) {
  const auto log = LateLog::Open({.path = folder_ + "/absent/late.json"});
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(log.error().message, HasSubstr("/absent/late.json': No such file"));
}

}  // namespace
}  // namespace lagoon

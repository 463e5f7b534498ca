#include "trace/file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/testing/test_folder.h"
#include "sched/testing/sim_scenario.h"
#include "trace/testing/read_trace.h"

namespace lagoon::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TraceFile, WritesWhatWasRecorded) {
  const TestFolder folder;
  const std::string path = folder / "trace.json";
  const auto device = FigureDevice(2, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  {
    SchedulerConfig config;
    config.name = "test";
    Dispatcher dispatcher(*device, config, std::make_unique<ClassFirst>(), &recorder);
    const std::vector<SimTask> tasks = {{"a", JobClass::kRealTime, 0, {{300, 1}}}};
    RunTasks(*device, dispatcher, tasks);
  }
  Result<TraceFile> file = TraceFile::Create(path);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->Write(recorder, "test"));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), TraceText(recorder));
}

TEST(TraceFile, SaysAtOnceThatItCannotBeWritten) {
  const Result<TraceFile> file = TraceFile::Create("/no/such/folder/trace.json");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(file.error().message,
              AllOf(HasSubstr("'/no/such/folder/trace.json'"), HasSubstr("No such file")));
}

TEST(TraceFile, SaysWhenThereIsNoSpace) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  Result<TraceFile> file = TraceFile::Create("/dev/full");
  ASSERT_TRUE(file);
  const Status written = file->Write(TraceRecorder(), "test");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(written.error().message, AllOf(HasSubstr("'/dev/full'"), HasSubstr("No space")));
}

}  // namespace
}  // namespace lagoon::testing

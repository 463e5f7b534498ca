// Devices and models: options, many threads, forks, traces.

#include "local/local_device.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/log.h"
#include "device/host/machine.h"
#include "local/host_log.h"
#include "local/testing/local_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::Contains;
using ::testing::HasSubstr;

class LocalDeviceTest : public LocalTest {
 protected:
  static std::string ErrorOf(LocalDeviceOptions options) {
    const auto device = LocalDevice::Open(options);
    return device ? "" : device.error().message;
  }
  static std::string TextOf(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static RunCode RunOnce(LocalModel& model) {
    ModelRun run(model);
    std::vector<float> x(4);
    const RunCode bound = run.SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32));
    return bound == RunCode::kOk ? run.Sync() : bound;
  }
};

TEST_F(LocalDeviceTest, OptionsThatDoNotExistAreNamed) {
  LocalDeviceOptions options;
  options.scheduler = "best";
  EXPECT_THAT(ErrorOf(options), HasSubstr("reset"));
  options = {};
  options.device.name = "tpu";
  EXPECT_THAT(ErrorOf(options), HasSubstr("there is no device 'tpu'"));
  options = {};
  options.cores = {-1};
  EXPECT_THAT(ErrorOf(options), HasSubstr("there is no core -1"));
  options = {};
  options.worker_fifo = 1000;
  EXPECT_THAT(ErrorOf(options), HasSubstr("SCHED_FIFO"));
  options = {};
  options.spin = std::chrono::seconds(2);
  EXPECT_THAT(ErrorOf(options), HasSubstr("spinning"));
  options = {};
  options.trace_events = std::size_t{1} << 40;
  EXPECT_THAT(ErrorOf(options), HasSubstr("at most"));
}

TEST_F(LocalDeviceTest, ModelsThatCannotBeRunAreRefused) {
  Open();
  const auto refused = [&](LocalModelOptions options) {
    options.name = "m";
    const TempFolder folder;
    const auto model = LocalModel::Load(*device_, AddsWeights().Save(folder), options);
    return model ? "" : model.error().message;
  };
  LocalModelOptions options;
  options.concurrency = 1000;
  EXPECT_THAT(refused(options), HasSubstr("model 'm': a concurrency of 1000"));
  options = {};
  options.weight = -1;
  EXPECT_THAT(refused(options), HasSubstr("weight"));
  options = {};
  options.share = 2;
  EXPECT_THAT(refused(options), HasSubstr("share"));
  options = {};
  options.engine = "/nowhere/libonnxruntime.so";
  EXPECT_THAT(refused(options), HasSubstr("/nowhere"));
  EXPECT_EQ(LocalModel::Load(*device_, "/nowhere/model.onnx", {}).error().code,
            ErrorCode::kNotFound);
  ModelBuilder unknown;
  unknown.Input("x", {4});
  unknown.Add("NoSuchOp", {"x"}, {"y"});
  unknown.Output("y", {4});
  const std::string bytes = unknown.Bytes();
  ModelBytes from;
  from.bytes = std::as_bytes(std::span(bytes));
  const auto model = LocalModel::LoadBytes(*device_, from, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(model.error().message, HasSubstr("NoSuchOp"));
}

TEST_F(LocalDeviceTest, BytesThatAreNoModelAreRefused) {
  Open();
  std::string bytes = AddsWeights().Bytes();
  const auto load = [&](std::string_view text) {
    ModelBytes from;
    from.bytes = std::as_bytes(std::span(text));
    const auto model = LocalModel::LoadBytes(*device_, from, {});
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(load(bytes), "");
  EXPECT_THAT(load(""), HasSubstr("the bytes: the file is empty"));
  EXPECT_NE(load("no model"), "");
  for (std::size_t size = 1; size < bytes.size(); size += 7) load(bytes.substr(0, size));
  ModelBuilder external = AddsWeights();
  auto& weights = *external.graph().mutable_initializer(0);
  weights.clear_raw_data();
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& where = *weights.add_external_data();
  where.set_key("location");
  where.set_value("0");  // of /proc/self/fd
  EXPECT_THAT(load(external.Bytes()), HasSubstr("without the folder"));
}

TEST_F(LocalDeviceTest, ModelsAreMadeAndDroppedOnManyThreads) {
  Open();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        for (int times = 0; times < 10; ++times) {
          LocalModelOptions options;
          options.job_class = i % 2 == 0 ? JobClass::kRealTime : JobClass::kBestEffort;
          const auto model = Load(AddsWeights(), options);
          if (model == nullptr || RunOnce(*model) != RunCode::kOk) ++wrong;
        }
      });
    }
    for (int i = 0; i < 10; ++i) {
      if (!device_->SwitchScheduler(i % 2 == 0 ? "weighted" : "reset")) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device_->Statistics().runs, 60u);
  EXPECT_EQ(device_->Statistics().in_flight, 0u);
  EXPECT_EQ(device_->scheduler(), "reset");
}

TEST_F(LocalDeviceTest, AForkedChildIsTold) {
  Open();
  const auto model = Load(AddsWeights());
  ASSERT_EQ(RunOnce(*model), RunCode::kOk);
  auto run = std::make_unique<ModelRun>(*model);
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 0;
    if (RunOnce(*model) != RunCode::kUnavailable) wrong |= 1;
    if (run->Sync() != RunCode::kUnavailable) wrong |= 2;
    if (run->message().find("forked") == std::string::npos) wrong |= 4;
    if (device_->SwitchScheduler("fifo")) wrong |= 8;
    if (LocalModel::Load(*device_, "x", {})) wrong |= 16;
    run->Cancel();
    run.reset();
    ::_exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(RunOnce(*model), RunCode::kOk);
}

TEST_F(LocalDeviceTest, TracesAreWrittenWhileTheDeviceIsOpen) {
  LocalDeviceOptions options;
  options.trace_events = 10000;
  options.version = "1.2.3";
  Open(options);
  LocalModelOptions named;
  named.name = "traced-model";
  auto model = Load(AddsWeights(), named);
  const TempFolder folder;
  for (const char* name : {"first.json", "second.json"}) {
    ASSERT_EQ(RunOnce(*model), RunCode::kOk);
    const Status written = device_->WriteTrace(folder / name);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_THAT(TextOf(folder / name), HasSubstr("traced-model"));
  }
  EXPECT_GT(TextOf(folder / "second.json").size(), TextOf(folder / "first.json").size());
  EXPECT_FALSE(device_->WriteTrace("/nowhere/trace.json"));
  model.reset();
  Open();
  EXPECT_THAT(device_->WriteTrace(folder / "third.json").error().message,
              HasSubstr("without a trace"));
}

TEST_F(LocalDeviceTest, SharesAreOfDifferentUnitsWhileThereAreSome) {
  Open();
  const auto first = device_->TakeUnits(0.5);
  const auto second = device_->TakeUnits(0.5);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->count, 1u);
  EXPECT_NE(first->first, second->first);
  device_->GiveUnits(*first);
  const auto third = device_->TakeUnits(0.1);
  ASSERT_TRUE(third);
  EXPECT_EQ(*third, *first);
  const auto model = Load(AddsWeights());
  EXPECT_TRUE(model->SetShare(0.5));
  EXPECT_EQ(RunOnce(*model), RunCode::kOk);
  EXPECT_FALSE(model->SetShare(0));
  EXPECT_FALSE(model->SetWeight(0));
  EXPECT_TRUE(model->SetWeight(2));
}

/// The signals that each thread of this process blocks, by thread.
std::map<std::string, std::uint64_t> BlockedSignals() {
  std::map<std::string, std::uint64_t> blocked;
  DIR* const tasks = ::opendir("/proc/self/task");
  while (const dirent* task = ::readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    std::ifstream status(std::string("/proc/self/task/") + task->d_name + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) {
        blocked[task->d_name] = std::stoull(line.substr(8), nullptr, 16);
      }
    }
  }
  ::closedir(tasks);
  return blocked;
}

TEST_F(LocalDeviceTest, ThreadsOfTheDeviceTakeNoSignalsAndKeepToTheirCores) {
  const auto before = BlockedSignals();
  LocalDeviceOptions options;
  options.cores = {UsableCores().front()};
  const auto device = LocalDevice::Open(options);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ((*device)->Statistics().workers, 1u);
  std::size_t added = 0;
  for (const auto& [thread, blocked] : BlockedSignals()) {
    if (before.contains(thread)) continue;
    ++added;
    for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD}) {
      EXPECT_TRUE((blocked >> (signal - 1) & 1) != 0) << signal << " of thread " << thread;
    }
  }
  EXPECT_GE(added, 1u);
}

TEST_F(LocalDeviceTest, MessagesGoToFunctionsOfTheProgram) {
  std::vector<std::string> messages;
  {
    const HostLog log(
        [](void* to, int, const char* message) {
          static_cast<std::vector<std::string>*>(to)->emplace_back(message);
        },
        &messages);
    spdlog::warn("to the program");
  }
  spdlog::warn("to none");
  EXPECT_THAT(messages, ::testing::ElementsAre("to the program"));
}

}  // namespace
}  // namespace lagoon

// Traces of simulated schedules that are known block by block (policies/golden_trace_test.cc).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "base/testing/paths.h"
#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"
#include "trace/testing/read_trace.h"

namespace lagoon::testing {
namespace {

constexpr std::int64_t kUnitNs = kFigureUnit.count();

// Runs the example under a scheduler on a device to which the recorder is attached.
std::vector<JobResult> RunExample(Device& device, std::string_view scheduler,
                                  TraceRecorder* recorder) {
  Scheduler named = *MakeScheduler(scheduler);
  Dispatcher dispatcher(device, named.config, std::move(named.policy), recorder);
  const std::vector<SimTask> tasks = ReefExample();
  return RunTasks(device, dispatcher, tasks);
}

class TraceOfReefExample : public ::testing::Test {
 protected:
  ReadTrace Trace(std::string_view scheduler, const TraceOptions& options = {4096, 16384}) {
    const auto device = FigureDevice(kReefUnits, SimAbort::kCheck);
    TraceRecorder recorder(options);
    recorder.Attach(*device);
    RunExample(*device, scheduler, &recorder);
    text_ = TraceText(recorder);
    return ReadTrace(text_);
  }
  std::string text_;
};

TEST_F(TraceOfReefExample, HasEveryBlockOnTheUnitAndAtTheTimeWhereItRan) {
  const ReadTrace trace = Trace("reef");
  trace.Check();
  EXPECT_EQ(trace.other["dropped_blocks"], 0);
  EXPECT_EQ(trace.other["dropped_events"], 0);
  // v1: three blocks of 2.5 from 1.5, four of 1 from 4, two of 2.5 from 5; a copy before and after.
  std::map<std::string, std::vector<std::int64_t>> begins;
  for (const auto& block : trace.BlocksOf("v1")) {
    EXPECT_TRUE(block.Is("real-time"));
    EXPECT_FALSE(block.Is("padding"));
    EXPECT_TRUE(block.args["committed"]);
    begins[block.name].push_back(block.begin);
    const std::int64_t time = block.name == "K2" ? kUnitNs : kUnitNs * 5 / 2;
    if (block.name[0] == 'K') {
      EXPECT_EQ(block.end - block.begin, time);
    }
  }
  EXPECT_EQ(begins["K1"], std::vector<std::int64_t>(3, kUnitNs * 3 / 2));
  EXPECT_EQ(begins["K2"], std::vector<std::int64_t>(4, kUnitNs * 4));
  EXPECT_EQ(begins["K3"], std::vector<std::int64_t>(2, kUnitNs * 5));
  EXPECT_EQ(begins["input"].size(), 1u);
  EXPECT_EQ(begins["output"].size(), 1u);
}

TEST_F(TraceOfReefExample, MarksPaddingAndWhatLeft) {
  const ReadTrace trace = Trace("reef:padding_leaves=1");
  std::map<std::string, std::pair<int, int>> seen;  // blocks of padding: committed, left
  for (const auto& block : trace.blocks) {
    if (!block.Is("padding")) continue;
    EXPECT_THAT(block.name, ::testing::HasSubstr("(padding)"));
    EXPECT_TRUE(block.Is("best-effort"));
    EXPECT_EQ(block.Is("left"), !block.args["committed"].get<bool>());
    auto& [committed, left] = seen[block.name.substr(0, 2)];
    ++(block.Is("left") ? left : committed);
  }
  // r1's K2 and, after a block that left, K3; b1's K2, and two blocks of its K3 that left.
  EXPECT_EQ(seen, (std::map<std::string, std::pair<int, int>>{{"K2", {4, 0}}, {"K3", {2, 3}}}));
  // Without padding: the K2s of r1 and b1 left at the revocation.
  int left = 0;
  for (const auto& block : trace.blocks) {
    if (block.Is("padding") || !block.Is("left")) continue;
    EXPECT_EQ(block.name, "K2 (left)");
    EXPECT_EQ(block.end, kUnitNs * 3 / 2);
    ++left;
  }
  EXPECT_EQ(left, 4);
}

TEST_F(TraceOfReefExample, SaysWhenRequestsComeAndWhatIsRevokedAndEvicted) {
  const ReadTrace trace = Trace("reef");
  std::vector<std::pair<std::string, std::int64_t>> arrivals;
  for (const auto& arrival : trace.Instants("arrival")) {
    arrivals.emplace_back(arrival.args["model"], arrival.begin);
  }
  EXPECT_EQ(arrivals,
            (std::vector<std::pair<std::string, std::int64_t>>{{"r1", 0},
                                                               {"b1", 0},
                                                               {"v1", kUnitNs * 3 / 2},
                                                               {"b2", kUnitNs * 25 / 4},
                                                               {"r2", kUnitNs * 25 / 4}}));
  const auto revocations = trace.Instants("revocation");
  ASSERT_EQ(revocations.size(), 1u);
  EXPECT_EQ(revocations.front().begin, kUnitNs * 3 / 2);
  EXPECT_EQ(revocations.front().args["kernels"], 4);  // K2 and K3 of both
  int evicted = 0, left = 0;
  for (const auto& instant : trace.instants) {
    if (instant.begin != kUnitNs * 3 / 2) continue;
    evicted += instant.name == "evicted" ? 1 : 0;
    left += instant.name == "left" ? 1 : 0;
  }
  EXPECT_EQ(evicted, 2);
  EXPECT_EQ(left, 2);
}

TEST_F(TraceOfReefExample, CountsQueues) {
  const ReadTrace trace = Trace("reef");
  for (const char* name : {"ready real-time jobs", "ready best-effort jobs", "waiting jobs",
                           "launches in the device"}) {
    const auto counter = trace.counters.find(name);
    ASSERT_NE(counter, trace.counters.end()) << name;
    EXPECT_EQ(counter->second.back().second, 0) << name;
    EXPECT_TRUE(std::is_sorted(counter->second.begin(), counter->second.end(),
                               [](auto& a, auto& b) { return a.first < b.first; }));
  }
}

TEST_F(TraceOfReefExample, ResumedBlocksAreThoseThatDoNotRunAgain) {
  // Two units for r1 and b1: of a kernel of three blocks, one is done when v1 comes.
  const auto device = FigureDevice(2, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  Scheduler named = *MakeScheduler("reset");
  {
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    const std::vector<SimTask> tasks = {{"slow", JobClass::kBestEffort, 0, {{3, 1}}},
                                        {"urgent", JobClass::kRealTime, 1.5, {{2, 1}}}};
    RunTasks(*device, dispatcher, tasks);
  }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  const auto resumed = trace.Instants("resumed");
  ASSERT_EQ(resumed.size(), 1u);
  EXPECT_EQ(resumed.front().begin, kUnitNs * 5 / 2);
  EXPECT_EQ(resumed.front().args["blocks"], 2);
  EXPECT_EQ(resumed.front().args["model"], "slow");
}

TEST_F(TraceOfReefExample, RecordingChangesNothing) {
  const auto end = [](TraceRecorder* recorder) {
    const auto device = FigureDevice(kReefUnits, SimAbort::kCheck);
    if (recorder != nullptr) recorder->Attach(*device);
    std::vector<TimePoint> ends;
    for (const JobResult& result : RunExample(*device, "lagoon", recorder)) {
      ends.push_back(result.finished);
    }
    return ends;
  };
  TraceRecorder recorder;
  EXPECT_EQ(end(nullptr), end(&recorder));
}

TEST_F(TraceOfReefExample, JobsOfOneDispatcherAfterTheOtherAreKeptApart) {
  const auto device = FigureDevice(kReefUnits, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  RunExample(*device, "sequential", &recorder);
  RunExample(*device, "reef", &recorder);
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  EXPECT_EQ(trace.jobs.size(), 10u);
  for (const auto& block : trace.blocks) {
    if (block.Is("padding")) {
      EXPECT_EQ(block.args["run"], 1);
    }
  }
}

// For any small capacity, the records that are kept are consistent and the lost ones are counted.
TEST_F(TraceOfReefExample, HasTheNewestWhenNotEverythingFits) {
  const std::size_t all = Trace("reef").blocks.size();
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{7}, std::size_t{20}, all}) {
    for (const std::size_t events : {1, 5, 40, 1000}) {
      const ReadTrace trace = Trace("reef", {blocks, events});
      trace.Check();
      EXPECT_EQ(trace.blocks.size() + trace.other["dropped_blocks"].get<std::size_t>(), all);
      EXPECT_LE(trace.blocks.size(), blocks);
      const bool cut = trace.other["dropped_events"] > 0 || trace.other["dropped_blocks"] > 0;
      EXPECT_EQ(cut, blocks < all || events < 1000);
    }
  }
  const ReadTrace half = Trace("reef", {all / 2, 1000});
  EXPECT_GT(half.blocks.size(), all / 4);
  EXPECT_TRUE(half.Instants("revocation").empty());  // it is older than all that is kept
}

std::vector<SimTask> RandomTasks(std::mt19937& random) {
  std::vector<SimTask> tasks(3 + random() % 5);
  double arrival = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    arrival += 0.25 * static_cast<double>(random() % 8);
    tasks[i] = {"task" + std::to_string(i),
                random() % 3 == 0 ? JobClass::kRealTime : JobClass::kBestEffort,
                arrival,
                {}};
    for (std::size_t kernels = 1 + random() % 6; kernels > 0; --kernels) {
      const auto blocks = static_cast<std::uint32_t>(1 + random() % 7);
      tasks[i].kernels.push_back({blocks, 0.25 * static_cast<double>(1 + random() % 8)});
    }
  }
  return tasks;
}

TEST(Trace, HasEachBlockOfEachJobCommittedOnceUnderEveryScheduler) {
  std::mt19937 random(1);
  for (const std::string_view scheduler : SchedulerNames()) {
    for (int round = 0; round < 10; ++round) {
      const auto device = FigureDevice(kReefUnits, SimAbort::kCheck);
      TraceRecorder recorder({.max_blocks = 4096, .max_events = 16384});
      recorder.Attach(*device);
      const std::vector<SimTask> tasks = RandomTasks(random);
      {
        Scheduler named = *MakeScheduler(scheduler);
        Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
        RunTasks(*device, dispatcher, tasks);
      }
      const ReadTrace trace(TraceText(recorder));
      trace.Check();
      std::map<std::string, std::uint32_t> committed, expected;
      for (const auto& job : trace.jobs) {
        for (const auto& block : trace.blocks) {
          if (ReadTrace::JobOf(block) == ReadTrace::JobOf(job) && block.args["committed"]) {
            ++committed[job.args["model"]];
          }
        }
      }
      for (const SimTask& task : tasks) {
        expected[task.name] = 2;  // copies
        for (const SimTask::Kernel& kernel : task.kernels) expected[task.name] += kernel.blocks;
      }
      EXPECT_EQ(committed, expected) << scheduler << ", round " << round;
    }
  }
}

TEST(Trace, WithoutRequestsItIsEmptyAndValid) {
  TraceRecorder idle;
  ReadTrace(TraceText(idle)).Check();
  const auto device = FigureDevice(kReefUnits, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  Scheduler named = *MakeScheduler("reef");
  { Dispatcher(*device, named.config, std::move(named.policy), &recorder); }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  EXPECT_TRUE(trace.blocks.empty() && trace.jobs.empty());
  EXPECT_EQ(trace.other["units"], kReefUnits);
}

TEST(Trace, NamesOfAnyBytesMakeValidJson) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  Scheduler named = *MakeScheduler("reef");
  {
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    const std::vector<SimTask> tasks = {{"a\"\\\n\xff{}", JobClass::kRealTime, 0, {{1, 1}}}};
    RunTasks(*device, dispatcher, tasks);
  }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  EXPECT_EQ(trace.jobs.size(), 1u);
}

// One task of length 3 at time 0. Notes before it, during it and after it.
TEST(Trace, HasEveryDecisionAboutAShareWithItsReason) {
  const auto device = FigureDevice(2, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  const TimePoint begin = device->Now();
  recorder.OnShare({"b", 0, 0.25, {}, "it is the first share", begin - FigureTime(9)});
  recorder.OnShare({"a", 0, 0.3, {0, 1}, "it is the first share", begin - FigureTime(8)});
  recorder.OnShare({"a", 0.3, 0.4, {0, 1}, "set by \"somebody\"", begin - FigureTime(7)});
  Scheduler named = *MakeScheduler("reef");
  {
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    const std::vector<SimTask> tasks = {{"a", JobClass::kBestEffort, 0, {{1, 3}}}};
    RunTasks(*device, dispatcher, tasks);
  }
  recorder.OnShare({"a", 0.4, 1, {0, 2}, "more arrives", begin + FigureTime(2)});
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  std::vector<std::tuple<std::string, std::string, std::int64_t, std::string, std::string>> seen;
  for (const auto& instant : trace.instants) {
    if (!instant.Is("share")) continue;
    seen.emplace_back(instant.row, instant.name, instant.begin,
                      instant.args["units"].get<std::string>(),
                      instant.args["why"].get<std::string>());
  }
  EXPECT_THAT(
      seen,
      ::testing::ElementsAre(
          std::tuple("decisions: b", "none -> 25 %", 0, "by weight", "it is the first share"),
          std::tuple("decisions: a", "30 % -> 40 %", 0, "0 to 0", "set by \"somebody\""),
          std::tuple("decisions: a", "40 % -> 100 %", 2 * kUnitNs, "0 to 1", "more arrives")));
  using Counter = std::vector<std::pair<std::int64_t, int>>;
  ASSERT_TRUE(trace.counters.contains("share of a in %"));
  EXPECT_EQ(trace.counters.at("share of a in %"), (Counter{{0, 40}, {2 * kUnitNs, 100}}));
  EXPECT_EQ(trace.counters.at("share of b in %"), (Counter{{0, 25}}));
}

TEST(Trace, SharesWithoutRequestsAreATraceToo) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  recorder.OnShare({"a", 0, 0.5, {}, "first", device->Now()});
  recorder.OnShare({"a", 0.5, 0.6, {}, "second", device->Now() + FigureTime(1)});
  const ReadTrace trace(TraceText(recorder));
  ASSERT_EQ(trace.instants.size(), 2u);
  EXPECT_EQ(trace.instants[0].begin, 0);
  EXPECT_EQ(trace.instants[1].begin, kUnitNs);
}

TEST(Trace, KeepsTheNewestDecisions) {
  TraceRecorder recorder;
  for (std::size_t i = 0; i < TraceRecorder::kMaxShareNotes + 3; ++i) {
    recorder.OnShare({"a", 0.5, 0.5, {}, std::to_string(i), TimePoint{}});
  }
  ASSERT_EQ(recorder.share_notes().size(), TraceRecorder::kMaxShareNotes);
  EXPECT_EQ(recorder.share_notes().front().why, "3");
}

// Each block has the names of the plan that its job ran, also after the plan is gone and after a
// switch of schedulers.
TEST(Trace, NamesAreThoseOfThePlanThatAJobRan) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  Scheduler named = *MakeScheduler("reef");
  {
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    const auto plan = [&](const std::string& kernel) {
      const SimTask task{"shapes", JobClass::kBestEffort, 0, {{1, 1}}};
      auto loaded = std::const_pointer_cast<LoadedPlan>(PlanOf(task, *device));
      loaded->plan.ops[0].kernel_name = kernel;
      return loaded;
    };
    const auto instance = *Instance::Create(plan("first"), *device);
    QueueOptions options;
    options.name = "shapes";
    options.instances = {instance.get()};
    const QueueId queue = *dispatcher.AddQueue(options);
    const auto run = [&](QueuePlan* of) {
      Request request;
      ASSERT_TRUE(
          dispatcher.Post({queue, kNoDeadline, request.inputs, request.outputs, &request, of}));
      while (request.finished == 0) device->Wait(kNoDeadline);
    };
    run((*dispatcher.AddPlan(queue, plan("second"))).get());
    Scheduler other = *MakeScheduler("sequential");
    dispatcher.Switch(other.config, std::move(other.policy), [](const Status&) {});
    run(nullptr);
    const auto third = *dispatcher.AddPlan(queue, plan("third"));
    run(third.get());
    const auto unnamed = plan("not kept");
    while ((*dispatcher.AddPlan(queue, unnamed))->number() + 1 < TraceRecorder::kMaxPlans) {
    }
    run((*dispatcher.AddPlan(queue, unnamed)).get());
    run(third.get());
  }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  std::vector<std::string> names;
  for (const auto& block : trace.blocks) {
    if (block.name == "input" || block.name == "output") continue;
    names.push_back(block.name);
    if (block.name == "op 0") {
      EXPECT_EQ(block.args["op"], 0);
    } else {
      EXPECT_EQ(block.args["op"], "op0");
    }
    EXPECT_EQ(block.args["run"], names.size() == 1 ? 0 : 1);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"second", "first", "third", "op 0", "third"}));
}

// Blocks that share a unit at the same time are on different rows.
TEST(Trace, BlocksOfOneUnitDoNotOverlap) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  TraceRecorder recorder;
  recorder.Attach(*device);
  Scheduler named = *MakeScheduler("reef");
  {
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    const SimTask task{"shared", JobClass::kRealTime, 0, {{6, 1}}};
    auto loaded = std::const_pointer_cast<LoadedPlan>(PlanOf(task, *device));
    loaded->plan.ops[0].kernel =
        *device->Load({"small", nullptr}, {0, {.time = kFigureUnit, .threads = 256}});
    const auto instance = *Instance::Create(loaded, *device);
    QueueOptions options;
    options.name = "shared";
    options.instances = {instance.get()};
    const QueueId queue = *dispatcher.AddQueue(options);
    Request request;
    ASSERT_TRUE(dispatcher.Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
    while (request.finished == 0) device->Wait(kNoDeadline);
  }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  std::set<std::string> rows;
  for (const auto& block : trace.blocks) {
    if (block.name == "K1") rows.insert(block.row);
  }
  EXPECT_EQ(rows, (std::set<std::string>{"unit 0", "unit 0 (2)", "unit 0 (3)", "unit 0 (4)"}));
}

// The picture in the docs is drawn from this file. LAGOON_UPDATE_GOLDEN=1 writes the file again.
TEST_F(TraceOfReefExample, IsTheFileThatTheDocsShow) {
  const std::string path = SourceFolder() + "/docs/images/reef-figure-6.json";
  Trace("reef");
  const char* update = std::getenv("LAGOON_UPDATE_GOLDEN");
  if (update != nullptr && *update != '\0') std::ofstream(path) << text_;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(golden.str(), text_);
}

}  // namespace
}  // namespace lagoon::testing

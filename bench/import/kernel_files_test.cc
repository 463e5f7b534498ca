#include "bench/import/kernel_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "bench/sim/sim_stage.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const GpuModel& Mi50() {
  static const GpuModel gpu = *LoadGpuModel("mi50");
  return gpu;
}

Result<SimModel> Parse(std::string_view text, const GpuModel& gpu = Mi50()) {
  return ParseKernelFile("mine", text, "mine.csv", gpu);
}

std::string MessageOf(std::string_view text) {
  const Result<SimModel> model = Parse(text);
  return model ? "it was read" : model.error().message;
}

TEST(KernelFiles, ReadsOurColumnsInAnyOrder) {
  const SimModel model = *Parse(
      "time_us,name,blocks,threads,registers_per_thread,shared_bytes,memory_bytes,block_us\r\n"
      "10,first,960,256,64,1024,4096,4.5\r\n"
      "\n"
      "2.5,\"a, quoted \"\"name\"\"\",30,0,0,0,0,\n");
  ASSERT_EQ(model.kernels.size(), 2u);
  EXPECT_EQ(model.Name(), "mine");
  const SimModelKernel& first = model.kernels[0];
  EXPECT_EQ(first.blocks, 960u);
  EXPECT_EQ(first.time, Nanoseconds(10'000));
  EXPECT_EQ(first.block.time, Nanoseconds(4'500));
  EXPECT_EQ(first.block.threads, 256u);
  EXPECT_EQ(first.block.registers_per_thread, 64u);
  EXPECT_EQ(first.block.shared_bytes, 1024u);
  EXPECT_EQ(first.block.memory_bytes, 4096u);
  EXPECT_EQ(first.block.use_permille, 0u) << "it fills the units";
  EXPECT_EQ(model.kernels[1].block.time, Nanoseconds(2'500)) << "one wave";
}

TEST(KernelFiles, LeavesOutBlanksAroundFields) {
  const SimModel model = *Parse(
      " blocks ,\ttime_us , restart\n"
      "  \t\n"
      " 5, 10 ,\" wait \"\n");
  ASSERT_EQ(model.kernels.size(), 1u);
  EXPECT_EQ(model.kernels[0].blocks, 5u);
  EXPECT_EQ(model.kernels[0].time, Nanoseconds(10'000));
  EXPECT_EQ(model.kernels[0].restart, Restart::kNever);
}

TEST(KernelFiles, NamesAnUnknownColumnAndThoseThatThereAre) {
  EXPECT_THAT(MessageOf("blocks,time_us,blockus\n1,10,5\n"),
              AllOf(HasSubstr("unknown column 'blockus'"), HasSubstr("block_us, threads")));
  EXPECT_THAT(MessageOf("blocks,time_us,\n1,10,5\n"), HasSubstr("unknown column ''"));
}

TEST(KernelFiles, RefusesFractionsOfWhatIsCounted) {
  EXPECT_THAT(MessageOf("blocks,time_us\n8.5,10\n"),
              HasSubstr("number of blocks is 8.5, it must be a whole number"));
  EXPECT_THAT(MessageOf("blocks,time_us,threads\n8,10,0.5\n"), HasSubstr("whole number"));
}

TEST(KernelFiles, StopsToReadAtTheLimit) {
  std::string text = "blocks,time_us\n";
  for (std::size_t i = 0; i <= kMostListKernels; ++i) text += "1,10\n";
  EXPECT_THAT(MessageOf(text + "what was not read\n"), HasSubstr("more than 100000 kernels"));
}

TEST(KernelFiles, SaysThatAFileIsCompressed) {
  EXPECT_THAT(MessageOf("\x1F\x8B\x08..."), AllOf(HasSubstr("mine.csv"), HasSubstr("gunzip")));
}

// 60 units hold four blocks of 256 threads and 64 registers.
TEST(KernelFiles, DividesAKernelsTimeByItsWaves) {
  const auto kernel = [](int blocks) {
    return Parse("blocks,time_us,threads,registers_per_thread\n" + std::to_string(blocks) +
                 ",12,256,64\n")
        ->kernels.front();
  };
  EXPECT_EQ(kernel(240).block.time, Nanoseconds(12'000));
  EXPECT_EQ(kernel(241).block.time, Nanoseconds(6'000));
  EXPECT_EQ(kernel(720).block.time, Nanoseconds(4'000));
  EXPECT_EQ(kernel(60).block.use_permille, 1000u) << "one block on each unit";
  EXPECT_EQ(kernel(120).block.use_permille, 500u);
}

constexpr std::string_view kNsight =
    "Processing [report.sqlite] with [cuda_gpu_trace.py]... \n"
    "\n"
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
    "5000,1500,7,10,4,2,32,8,1,40,0.001,0.002,,,,,Tesla V100,1,,7,\"void f<int, float>(int)\"\n"
    "100,900,3,,,,,,,,,,0.602,5000,Pageable,Device,Tesla V100,1,,7,[CUDA memcpy HtoD]\n"
    "2000,800,5,3,1,1,64,1,1,16,0.000,0.000,,,,,Tesla V100,1,,7,g\n";

TEST(KernelFiles, ReadsTheTraceOfNsightSystemsInOrderOfTime) {
  const SimModel model = *Parse(kNsight);
  ASSERT_EQ(model.kernels.size(), 2u) << "without the copy";
  EXPECT_EQ(model.kernels[0].blocks, 3u);
  EXPECT_EQ(model.kernels[0].time, Nanoseconds(800));
  EXPECT_EQ(model.kernels[1].blocks, 80u);
  EXPECT_EQ(model.kernels[1].block.threads, 256u);
  EXPECT_EQ(model.kernels[1].block.registers_per_thread, 40u);
  EXPECT_EQ(model.kernels[1].block.shared_bytes, 3000u);
}

constexpr std::string_view kProfiler = R"({"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2, "args": {}},
{"ph": "X", "cat": "kernel", "name": "second", "ts": 20.5, "dur": 4.25,
 "args": {"grid": [10, 2, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 512}},
{"ph": "M", "cat": "kernel", "name": "process_name"},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 3, "dur": 2, "args": {"bytes": 4}},
{"ph": "X", "cat": "kernel", "name": "first", "ts": 10, "dur": 3,
 "args": {"grid": [1, 1, 1], "block": [32, 1, 1]}}]})";

TEST(KernelFiles, ReadsTheTraceOfPyTorchsProfiler) {
  const SimModel model = *Parse(kProfiler);
  ASSERT_EQ(model.kernels.size(), 2u);
  EXPECT_EQ(model.kernels[0].time, Nanoseconds(3'000));
  EXPECT_EQ(model.kernels[1].time, Nanoseconds(4'250));
  EXPECT_EQ(model.kernels[1].blocks, 20u);
  EXPECT_EQ(model.kernels[1].block.threads, 128u);
  EXPECT_EQ(model.kernels[1].block.shared_bytes, 512u);
}

TEST(KernelFiles, SkipsTheByteOrderMarkOfASpreadsheet) {
  EXPECT_EQ(Parse("\xEF\xBB\xBF"
                  "blocks,time_us\n3,5\n")
                ->kernels.front()
                .blocks,
            3u);
  EXPECT_EQ(Parse("\xEF\xBB\xBF" + std::string(kProfiler))->kernels.size(), 2u);
}

// A request alone takes the sum of the kernels and the gaps between them.
TEST(KernelFiles, AListRunsAsLongAsItSays) {
  std::string text = "blocks,time_us,threads,registers_per_thread\n";
  for (int i = 1; i <= 50; ++i) text += std::to_string(37 * i) + ",40,256,64\n";
  const SimModel model = *Parse(text);
  const std::vector<bench::SimStageQueue> queues{{"mine", JobClass::kRealTime, &model}};
  bench::SimStage stage =
      *bench::SimStage::Open({.gpu = Mi50()}, *MakeScheduler("sequential"), queues);
  const std::vector<bench::DisbClient> clients{{"mine", "mine", JobClass::kRealTime, {}}};
  const auto runs = stage.Run(clients, {std::chrono::milliseconds(100), {{}}}, Nanoseconds(0));
  const double expected_ms =
      std::chrono::duration<double, std::milli>(model.statistics.time).count();
  ASSERT_GT(runs.front().latencies_ms.size(), 10u);
  EXPECT_NEAR(runs.front().latencies_ms.back(), expected_ms, 0.02 * expected_ms);
}

std::vector<Restart> RestartsOf(const SimModel& model) {
  std::vector<Restart> restarts;
  for (const SimModelKernel& kernel : model.kernels) restarts.push_back(kernel.restart);
  return restarts;
}

TEST(KernelFiles, SaysHowAKernelRestarts) {
  const SimModel model = *Parse(
      "blocks,time_us,restart\n1,5,\n1,5,claims\n1,5,wait\n1,5,1\n1,5,claims\n1,5,3\n1,5,4\n");
  EXPECT_THAT(RestartsOf(model), ElementsAre(Restart::kByClaims, Restart::kByClaims,
                                             Restart::kNever, Restart::kByGroup, Restart::kByClaims,
                                             Restart::kByGroup, Restart::kByGroup));
  EXPECT_EQ(model.kernels[3].group_first, 3u) << "it is idempotent";
  EXPECT_EQ(model.kernels[5].group_first, 3u);
  EXPECT_EQ(model.kernels[6].group_first, 3u) << "a group in a group";
}

// The number counts kernels in order of time, not of the file, and copies are none.
TEST(KernelFiles, SaysHowATracedKernelRestarts) {
  const SimModel nsight = *Parse(
      "Start (ns),Duration (ns),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Restart\n"
      "5000,1500,7,1,1,32,1,1,2\n100,900,,,,,,,\n2000,800,3,1,1,64,1,1,wait\n4000,9,3,1,1,4,1,1,"
      "1\n");
  EXPECT_THAT(RestartsOf(nsight),
              ElementsAre(Restart::kNever, Restart::kByGroup, Restart::kByGroup));
  EXPECT_EQ(nsight.kernels[2].group_first, 1u);
  const auto profiled = [](const char* restart) {
    return Parse(R"([{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": )"
                 R"({"grid": [1, 1, 1], "block": [1, 1, 1], "restart": )" +
                 std::string(restart) + "}}]");
  };
  EXPECT_THAT(RestartsOf(*profiled("1")), ElementsAre(Restart::kByGroup));
  EXPECT_THAT(RestartsOf(*profiled("\"wait\"")), ElementsAre(Restart::kNever));
  for (const char* wrong : {"-1", "1.5", "[1]", "null", "true"}) {
    EXPECT_THAT(profiled(wrong).error().message,
                AllOf(HasSubstr("event 0 ('k')"), HasSubstr("'restart'"), HasSubstr("'wait'")));
  }
}

TEST(KernelFiles, NamesARestartThatCannotBe) {
  const auto rows = [](const std::string& lines) {
    return MessageOf("blocks,time_us,restart\n" + lines);
  };
  for (const char* wrong : {"0", "-1", "never", "1.5", "1 2", "99999999999999999999", "Wait"}) {
    EXPECT_THAT(rows("1,5," + std::string(wrong)),
                AllOf(HasSubstr("line 2"), HasSubstr("'" + std::string(wrong) + "'"),
                      HasSubstr("'claims', 'wait' or a number")));
  }
  EXPECT_THAT(rows("1,5,1\n1,5,3\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("last 3"), HasSubstr("kernel 2 of")));
  EXPECT_THAT(
      rows("1,5,wait\n1,5,1\n1,5,3\n"),
      AllOf(HasSubstr("line 4"), HasSubstr("that of line 2"), HasSubstr("cannot run again")));
  EXPECT_THAT(rows("1,5,1\n1,5,2\n1,5,2\n"),
              AllOf(HasSubstr("line 4"), HasSubstr("that of line 3"), HasSubstr("begins earlier")));
}

// The longest latency of a short real-time kernel beside a kernel of 2 ms that fills the device.
double LongestBeside(const std::string& restart) {
  const SimModel shorter = *Parse("blocks,time_us\n60,20\n");
  const SimModel longer =
      *Parse("blocks,time_us,threads,registers_per_thread,restart\n240,2000,256,64," + restart);
  const std::vector<bench::SimStageQueue> queues{{"short", JobClass::kRealTime, &shorter},
                                                 {"long", JobClass::kBestEffort, &longer}};
  bench::SimStage stage = *bench::SimStage::Open({.gpu = Mi50()}, *MakeScheduler("reset"), queues);
  bench::DisbLoad load{};
  load.kind = bench::DisbLoad::Kind::kUniform;
  const std::vector<bench::DisbClient> clients{{"short", "short", JobClass::kRealTime, load},
                                               {"long", "long", JobClass::kBestEffort, {}}};
  std::vector<Nanoseconds> arrivals;
  for (int i = 1; i < 30; ++i) arrivals.push_back(i * std::chrono::microseconds(3'300));
  const auto runs =
      stage.Run(clients, {std::chrono::milliseconds(100), {arrivals, {}}}, Nanoseconds(0));
  EXPECT_EQ(runs.front().latencies_ms.size(), arrivals.size());
  EXPECT_GT(runs.back().ended, 10u) << "the long kernels starve";
  return *std::ranges::max_element(runs.front().latencies_ms);
}

TEST(KernelFiles, RealTimeWorkWaitsForAKernelThatCannotRestart) {
  EXPECT_LT(LongestBeside("claims"), 0.3);
  EXPECT_LT(LongestBeside("1"), 0.3);
  EXPECT_GT(LongestBeside("wait"), 1.0);
}

TEST(KernelFiles, NamesWhatIsWrong) {
  const std::string header = "blocks,time_us,threads,registers_per_thread,shared_bytes\n";
  const auto row = [&](const char* fields) { return MessageOf(header + fields); };
  EXPECT_THAT(row("1,5,0,0,0\n1,-5,0,0,0\n"),
              AllOf(HasSubstr("'mine', file 'mine.csv'"), HasSubstr("line 3"), HasSubstr("-5000")));
  EXPECT_THAT(row("0,5,0,0,0"), AllOf(HasSubstr("line 2"), HasSubstr("number of blocks is 0")));
  EXPECT_THAT(row("1e12,5,0,0,0"), HasSubstr("number of blocks is 1000000000000"));
  EXPECT_THAT(row("1,nan,0,0,0"), AllOf(HasSubstr("'time_us' is 'nan'"), HasSubstr("a number")));
  EXPECT_THAT(row("1,inf,0,0,0"), HasSubstr("'inf'"));
  EXPECT_THAT(row("1,5e12,0,0,0"), HasSubstr("time in ns"));
  EXPECT_THAT(row("1,5us,0,0,0"), HasSubstr("'5us'"));
  EXPECT_THAT(row("1,5,4096,0,0"),
              AllOf(HasSubstr("threads of a block is 4096"), HasSubstr("2560")));
  EXPECT_THAT(row("1,5,1024,255,0"), HasSubstr("registers of a thread"));
  EXPECT_THAT(row("1,5,64,16,1e6"), HasSubstr("shared memory of a block"));
  EXPECT_THAT(row("1,5"), AllOf(HasSubstr("2 fields"), HasSubstr("5")));
  EXPECT_THAT(row(""), HasSubstr("has no kernels"));
  EXPECT_THAT(MessageOf("a,b\n1,2\n"), AllOf(HasSubstr("time_us"), HasSubstr("nsys stats")));
  EXPECT_THAT(MessageOf("blocks,blocks,time_us\n"), HasSubstr("'blocks' twice"));
  EXPECT_THAT(MessageOf("blocks,time_us (parsecs)\n"), HasSubstr("unknown unit"));
  EXPECT_THAT(MessageOf(""), HasSubstr("no header"));
}

TEST(KernelFiles, NamesWhatIsWrongWithATraceOfTheProfiler) {
  const auto event = [](const char* fields) {
    return MessageOf(R"([{"ph": "X", "cat": "kernel", "name": "k", )" + std::string(fields) + "}]");
  };
  EXPECT_THAT(event(R"("ts": 1, "dur": "2")"),
              AllOf(HasSubstr("event 0 ('k')"), HasSubstr("'dur'")));
  EXPECT_THAT(event(R"("dur": 2)"), HasSubstr("no 'ts'"));
  EXPECT_THAT(event(R"("ts": 1, "dur": 2)"), HasSubstr("no 'args'"));
  EXPECT_THAT(event(R"("ts": 1, "dur": 2, "args": {})"), HasSubstr("no 'grid'"));
  EXPECT_THAT(event(R"("ts": 1, "dur": 2, "args": {"grid": [1, 0, 1], "block": [1, 1, 1]})"),
              HasSubstr("[1,0,1]"));
  EXPECT_THAT(event(R"("ts": 1, "dur": -2, "args": {"grid": [1, 1, 1], "block": [1, 1, 1]})"),
              HasSubstr("time in ns is -2000"));
  EXPECT_THAT(MessageOf(R"({"traceEvents": 3})"), HasSubstr("not a list"));
  EXPECT_THAT(MessageOf(R"({"events": []})"), HasSubstr("PyTorch"));
  EXPECT_THAT(MessageOf("[]"), HasSubstr("has no kernels"));
  EXPECT_THAT(MessageOf("{\"traceEvents\": ["), HasSubstr("'mine.csv'"));
}

TEST(KernelFiles, RefusesATraceOfTwoDevices) {
  std::string rows(kNsight);
  rows.replace(rows.rfind("Tesla V100"), 10, "Tesla T4");
  EXPECT_THAT(MessageOf(rows), HasSubstr("line 6 is of device 'Tesla T4', and line 4 of device "
                                         "'Tesla V100'"));
  const auto event = [](int device) {
    return R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"device": )" +
           std::to_string(device) + R"(, "grid": [1, 1, 1], "block": [1, 1, 1]}})";
  };
  EXPECT_TRUE(Parse("[" + event(1) + "," + event(1) + "]"));
  EXPECT_THAT(MessageOf("[" + event(0) + "," + event(1) + "]"),
              HasSubstr("event 1 ('k') is of device '1', and event 0 ('k') of device '0'"));
}

TEST(KernelFiles, ReadsNoMoreBlocksThanTheLimit) {
  std::string text = "blocks,time_us\n";
  for (int i = 0; i < 2; ++i) text += std::to_string(kMostListBlocks) + ",1000000\n";
  EXPECT_THAT(MessageOf(text), HasSubstr("the limit is 67108864"));
}

// A trace that was damaged is read or refused with a message, whatever the bytes.
TEST(KernelFiles, SurvivesDamagedTraces) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text(round % 2 == 0 ? kNsight : kProfiler);
    for (int i = 0; i < 1 + round % 7; ++i)
      text[random() % text.size()] = static_cast<char>(random());
    const Result<SimModel> model = Parse(text);
    if (model) {
      EXPECT_FALSE(model->kernels.empty());
    } else {
      EXPECT_THAT(model.error().message, HasSubstr("mine.csv"));
    }
  }
}

}  // namespace
}  // namespace lagoon

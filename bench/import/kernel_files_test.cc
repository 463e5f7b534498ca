#include "bench/import/kernel_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "bench/sim/sim_stage.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
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

TEST(KernelFiles, ReadsHowKernelsRestart) {
  const SimModel model =
      *Parse("blocks,time_us,restart\n9,10,\n9,10,claims\n9,10,1\n9,10,wait\n9,10,5\n");
  const auto& kernels = model.kernels;
  ASSERT_EQ(kernels.size(), 5u);
  for (const std::size_t claims : {0, 1}) EXPECT_EQ(kernels[claims].restart, Restart::kByClaims);
  EXPECT_EQ(kernels[2].restart, Restart::kByGroup);
  EXPECT_EQ(kernels[2].group_first, 2u);
  EXPECT_EQ(kernels[3].restart, Restart::kNever);
  EXPECT_EQ(kernels[4].restart, Restart::kByGroup);
  EXPECT_EQ(kernels[4].group_first, 0u);
  for (const char* const wrong : {"3", "0", "-1", "1.5", "never", "1 "}) {
    EXPECT_THAT(MessageOf(std::string("blocks,time_us,restart\n9,10,\n9,10,") + wrong + "\n"),
                AllOf(HasSubstr("line 3"), HasSubstr("'restart' is"), HasSubstr("from 1 to 2")))
        << wrong;
  }
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

// A real-time kernel that comes while blocks of 5 ms fill the device.
TEST(KernelFiles, AKernelThatWaitsKeepsRealTimeWorkFromItsUnits) {
  const auto worst_ms = [](const std::string& restart) {
    const SimModel mine = *Parse("blocks,time_us\n60,50\n");
    const SimModel other =
        *Parse("blocks,time_us,block_us,restart\n120,10000,5000," + restart + "\n");
    const std::vector<bench::SimStageQueue> queues{{"mine", JobClass::kRealTime, &mine},
                                                   {"other", JobClass::kBestEffort, &other}};
    bench::SimStage stage =
        *bench::SimStage::Open({.gpu = Mi50()}, *MakeScheduler("reset"), queues);
    bench::DisbLoad steady, endless;
    steady.kind = bench::DisbLoad::Kind::kUniform;
    const std::vector<bench::DisbClient> clients{
        {"mine", "mine", JobClass::kRealTime, steady},
        {"other", "other", JobClass::kBestEffort, endless}};
    std::vector<Nanoseconds> arrivals;
    for (int i = 1; i < 30; ++i) arrivals.push_back(std::chrono::milliseconds(13 * i));
    const auto runs =
        stage.Run(clients, {std::chrono::milliseconds(500), {arrivals, {}}}, Nanoseconds(0));
    EXPECT_EQ(runs.front().latencies_ms.size(), arrivals.size());
    return runs.front().latencies_ms.empty() ? -1 : std::ranges::max(runs.front().latencies_ms);
  };
  EXPECT_LT(worst_ms("claims"), 1);
  EXPECT_LT(worst_ms("1"), 1);
  EXPECT_GT(worst_ms("wait"), 3);
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

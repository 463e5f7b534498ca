// Runs: what is bound, plans that are found and made, parts, and ends.

#include "local/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "base/testing/allocations.h"
#include "local/host_log.h"
#include "local/testing/local_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunTest : public LocalTest {};

TEST_F(RunTest, RunsAPlainModelInTheCallersMemory) {
  Open();
  const auto model = Load(AddsWeights());
  ModelRun run(*model);
  std::vector<float> x = {1, 1, 1, 1}, y(4);
  ASSERT_EQ(run.SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  ASSERT_EQ(run.Prepare(), RunCode::kOk) << run.message();
  EXPECT_TRUE(run.dims_known(0));
  EXPECT_THAT(run.OutputDims(0), ElementsAre(1, 4));
  ASSERT_EQ(run.SetOutput(0, TensorOf(y, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  EXPECT_THAT(y, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(run.OutputData(0), y.data());
  x[0] = 10;
  ASSERT_EQ(run.Sync(), RunCode::kOk);
  EXPECT_EQ(y[0], 11);
  const RunResult& result = run.result();
  EXPECT_EQ(result.parts, 1u);
  EXPECT_EQ(result.why, WhyLate::kNot);
  EXPECT_EQ(result.due, kNoDeadline);
  EXPECT_LE(result.called, result.posted);
  EXPECT_LE(result.posted, result.started);
  EXPECT_LE(result.first_block, result.computed);
  EXPECT_LE(result.computed, result.finished);
  EXPECT_EQ(model->Statistics().done, 2u);
}

TEST_F(RunTest, MakesAPlanForEachShapeOnce) {
  Open();
  const auto model = Load(AddsWeights());
  const std::uint64_t at_load = model->Statistics().compiled;
  ModelRun run(*model);
  for (const std::int64_t rows : {3, 5, 3, 5}) {
    std::vector<float> x(static_cast<std::size_t>(rows) * 4, 1);
    ASSERT_EQ(run.SetInput(0, TensorOf(x, {rows, 4}, DataType::kFloat32)), RunCode::kOk);
    ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
    EXPECT_THAT(run.OutputDims(0), ElementsAre(rows, 4));
    EXPECT_EQ(ValuesOf<float>(run, 0).size(), x.size());
    EXPECT_EQ(ValuesOf<float>(run, 0).back(), 5);
  }
  EXPECT_EQ(model->Statistics().compiled, at_load + 2);
  EXPECT_EQ(run.result().compiling, Nanoseconds(0));
}

TEST_F(RunTest, ShapesThatChangeAtEachRunCauseAWarning) {
  Open();
  std::vector<std::string> warnings;
  const HostLog log(
      [](void* to, int level, const char* message) {
        if (level >= 2) static_cast<std::vector<std::string>*>(to)->emplace_back(message);
      },
      &warnings);
  const auto model = Load(AddsWeights());
  ModelRun run(*model);
  const auto rows = [&](std::int64_t count) {
    std::vector<float> x(static_cast<std::size_t>(count) * 4, 1);
    ASSERT_EQ(run.SetInput(0, TensorOf(x, {count, 4}, DataType::kFloat32)), RunCode::kOk);
    ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  };
  // New shapes, but a run of known ones after every third.
  for (std::int64_t count = 100; count < 120; ++count) rows(count % 4 == 0 ? 100 : count);
  EXPECT_THAT(warnings, IsEmpty());
  for (std::int64_t count = 200; count < 220; ++count) rows(count);
  ASSERT_THAT(warnings, ElementsAre(HasSubstr("model 'm': 8 runs one after the other")));
  EXPECT_THAT(warnings[0], HasSubstr("Pad the inputs"));
  for (int known = 0; known < 5; ++known) rows(100);
  for (std::int64_t count = 300; count < 320; ++count) rows(count);
  EXPECT_EQ(warnings.size(), 1u) << "once for each model";
}

TEST_F(RunTest, PlansOfManyShapesAreKeptUpToANumber) {
  Open();
  const auto model = Load(AddsWeights());
  const std::uint64_t at_load = model->Statistics().compiled;
  ModelRun run(*model);
  std::vector<float> x(4 * (LocalModel::kKeptPlans.plans + 50), 1);
  const auto run_with = [&](std::size_t rows) {
    const Dims dims = {static_cast<std::int64_t>(rows), 4};
    ASSERT_EQ(run.SetInput(0, {DataType::kFloat32, dims, x.data(), rows * 16}), RunCode::kOk);
    ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
    const std::vector<float> y = ValuesOf<float>(run, 0);
    ASSERT_EQ(y.size(), rows * 4);
    EXPECT_THAT(std::vector<float>(y.end() - 4, y.end()), ElementsAre(2, 3, 4, 5));
  };
  const std::size_t shapes = x.size() / 4;
  for (std::size_t rows = 1; rows <= shapes; ++rows) run_with(rows);
  EXPECT_GE(model->Statistics().compiled, at_load + shapes - 1) << "one may be the guessed shape";
  EXPECT_EQ(model->Statistics().plans, LocalModel::kKeptPlans.plans);
  EXPECT_LE(model->Statistics().plan_bytes, LocalModel::kKeptPlans.bytes);
  const std::uint64_t all = model->Statistics().compiled;
  run_with(shapes - 1);
  EXPECT_EQ(model->Statistics().compiled, all) << "still there";
  run_with(2);
  EXPECT_EQ(model->Statistics().compiled, all + 1) << "went long ago";
}

TEST_F(RunTest, PlansOfManyShapesAreKeptUpToTheirMemory) {
  Open();
  // Plans with constants of their shapes: "y" = "x" [-1,4096] + a row for each of "x".
  ModelBuilder builder;
  builder.Input("x", {-1, 4096}).Floats("row", {1, 4096}, std::vector<float>(4096, 2));
  builder.Add("Shape", {"x"}, {"shape"});
  builder.Add("Expand", {"row", "shape"}, {"rows"});
  builder.Add("Add", {"x", "rows"}, {"y"});
  builder.Output("y", {-1, 4096});
  const auto model = Load(builder);
  ModelRun run(*model);
  std::vector<float> x(std::size_t{4096} * 1040, 1);
  std::size_t most = 0;
  for (std::int64_t rows = 1001; rows <= 1040; ++rows) {
    const Dims dims = {rows, 4096};
    ASSERT_EQ(run.SetInput(0, {DataType::kFloat32, dims, x.data(), x.size() * sizeof(float)}),
              RunCode::kOk);
    ASSERT_EQ(run.Prepare(), RunCode::kOk) << run.message();
    most = std::max(most, model->Statistics().plan_bytes);
  }
  const LocalModelStatistics statistics = model->Statistics();
  EXPECT_GE(statistics.compiled, 40u);
  EXPECT_LT(statistics.plans, 10u) << "a plan has 16 MiB";
  EXPECT_GT(most, LocalModel::kKeptPlans.bytes / 2) << "counts what plans take";
  EXPECT_LE(most, LocalModel::kKeptPlans.bytes);
}

TEST_F(RunTest, ContentsThatDecideShapesAreReadAtEachRun) {
  Open();
  ModelBuilder builder;
  for (const char* input : {"from", "to", "step"}) {
    builder.Input(input, {}, onnx::TensorProto::INT64);
  }
  builder.Add("Range", {"from", "to", "step"}, {"numbers"});
  builder.Add("Neg", {"numbers"}, {"y"});
  builder.Output("y");
  builder.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  const auto model = Load(builder);
  ModelRun run(*model);
  std::vector<std::int64_t> from = {0}, to = {3}, step = {1};
  ASSERT_EQ(run.SetInput(0, TensorOf(from, {}, DataType::kInt64)), RunCode::kOk);
  ASSERT_EQ(run.SetInput(1, TensorOf(to, {}, DataType::kInt64)), RunCode::kOk);
  ASSERT_EQ(run.SetInput(2, TensorOf(step, {}, DataType::kInt64)), RunCode::kOk);
  ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  EXPECT_THAT(ValuesOf<std::int64_t>(run, 0), ElementsAre(0, -1, -2));
  to[0] = 2;  // in the same memory
  ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  EXPECT_THAT(ValuesOf<std::int64_t>(run, 0), ElementsAre(0, -1));
  EXPECT_GT(run.result().compiling, Nanoseconds(0));
}

TEST_F(RunTest, AnOutputOfUnknownSizeIsInMemoryOfTheRun) {
  Open();
  const auto model = Load(Finds());
  ModelRun run(*model);
  BindHeld(run);
  ASSERT_EQ(run.Prepare(), RunCode::kOk) << run.message();
  EXPECT_FALSE(run.dims_known(0));
  ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  EXPECT_THAT(run.OutputDims(0), ElementsAre(1, 4));
  EXPECT_THAT(ValuesOf<std::int64_t>(run, 0), ElementsAre(1, 3, 4, 7));
  EXPECT_TRUE(run.has_dims(0));
  ASSERT_EQ(run.Prepare(), RunCode::kOk);
  EXPECT_FALSE(run.has_dims(0)) << "those of the next run may be others";
  std::vector<std::int64_t> place(8);
  ASSERT_EQ(run.SetOutput(0, TensorOf(place, {}, DataType::kInt64)), RunCode::kOk);
  EXPECT_EQ(run.Sync(), RunCode::kUnimplemented);
  EXPECT_THAT(run.message(), HasSubstr("output 'where'"));
}

TEST_F(RunTest, RunsModelsInParts) {
  Open();
  const auto model = Load(Picks());
  ModelRun run(*model);
  BindHeld(run);
  std::vector<float> all(8);
  ASSERT_EQ(run.SetOutput(1, TensorOf(all, {8}, DataType::kFloat32)), RunCode::kOk);
  for (int times = 0; times < 3; ++times) {
    if (times == 1) {
      ASSERT_EQ(run.Start(std::nullopt), RunCode::kOk);
      ASSERT_EQ(run.Wait(), RunCode::kOk) << run.message();
    } else {
      ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
    }
    EXPECT_EQ(run.result().parts, 2u);
    EXPECT_THAT(run.OutputDims(0), ElementsAre(4));
    EXPECT_THAT(ValuesOf<float>(run, 0), ElementsAre(2, 6, 8, 14));
    EXPECT_EQ(all[7], -7);
    all[7] = 0;
  }
  eight_.assign(8, 0);
  ASSERT_EQ(run.Sync(), RunCode::kOk) << run.message();
  EXPECT_THAT(run.OutputDims(0), ElementsAre(0));
}

TEST_F(RunTest, RefusesTensorsThatDoNotFit) {
  Open();
  const auto model = Load(AddsWeights());
  ModelRun run(*model);
  std::vector<float> x(9);
  const auto refused = [&](const RunTensor& tensor, const std::string& why) {
    EXPECT_EQ(run.SetInput(0, tensor), RunCode::kInvalidArgument);
    EXPECT_THAT(run.message(), HasSubstr(why));
    EXPECT_EQ(run.code(), RunCode::kInvalidArgument);
  };
  EXPECT_EQ(run.Sync(), RunCode::kInvalidArgument);
  EXPECT_THAT(run.message(), HasSubstr("input 'x' is not bound"));
  const Dims good = {2, 4}, rank = {8}, columns = {2, 3}, negative = {-1, 4};
  const Dims huge = {std::int64_t{1} << 62, 4};
  refused({DataType::kInt32, good, x.data(), 32}, "has type INT32, the model takes FP32");
  refused({DataType::kFloat32, rank, x.data(), 32}, "has 1 dimensions, the model takes [-1,4]");
  refused({DataType::kFloat32, columns, x.data(), 24}, "[2,3]");
  refused({DataType::kFloat32, negative, x.data(), 32}, "[-1,4]");
  refused({DataType::kFloat32, huge, x.data(), 32}, "has shape");
  refused({DataType::kFloat32, good, x.data(), 31}, "has 32 bytes, the given memory 31");
  refused({DataType::kFloat32, good, nullptr, 32}, "has no memory");
  refused({DataType::kFloat32, good, reinterpret_cast<char*>(x.data()) + 1, 32},
          "not a multiple of 4");
  EXPECT_EQ(run.SetInput(1, {DataType::kFloat32, good, x.data(), 32}), RunCode::kInvalidArgument);
  EXPECT_THAT(run.message(), HasSubstr("there is no input 1: the model has 1"));
  EXPECT_EQ(run.SetOutput(1, {}), RunCode::kInvalidArgument);
  ASSERT_EQ(run.SetInput(0, {DataType::kFloat32, good, x.data(), 32}), RunCode::kOk);
  const auto wrong_output = [&](const RunTensor& tensor, const std::string& why) {
    ASSERT_EQ(run.SetOutput(0, tensor), RunCode::kOk);
    EXPECT_EQ(run.Sync(), RunCode::kInvalidArgument);
    EXPECT_THAT(run.message(), HasSubstr(why));
  };
  std::vector<float> y(8);
  wrong_output({DataType::kFloat32, {}, y.data(), 28}, "has 32 bytes, the given memory 28");
  wrong_output({DataType::kFloat32, rank, y.data(), 32}, "has shape [2,4] for these inputs");
  wrong_output({DataType::kInt32, {}, y.data(), 32}, "has type FP32, the given memory INT32");
  EXPECT_EQ(run.SetOutput(0, {DataType::kFloat32, {}, reinterpret_cast<char*>(y.data()) + 2, 32}),
            RunCode::kInvalidArgument);
  ASSERT_EQ(run.SetOutput(0, TensorOf(y, good, DataType::kFloat32)), RunCode::kOk);
  EXPECT_EQ(run.Sync(), RunCode::kOk) << run.message();
}

// ---- Starts and ends

TEST_F(RunTest, ACallbackMayStartTheRunAgain) {
  Open();
  const auto model = Load(AddsWeights());
  ModelRun run(*model);
  std::vector<float> x(4);
  ASSERT_EQ(run.SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  struct Chain {
    std::atomic<int> left{200};
    std::atomic<int> refused{0};
    static void Next(void* argument, ModelRun& run) {
      auto& chain = *static_cast<Chain*>(argument);
      if (chain.left.fetch_sub(1) <= 1) return;
      if (run.Start(std::nullopt, &Next, argument) != RunCode::kOk) ++chain.refused;
    }
  } chain;
  ASSERT_EQ(run.Start(std::nullopt, &Chain::Next, &chain), RunCode::kOk);
  while (chain.left > 0) run.Wait();
  EXPECT_EQ(run.Wait(), RunCode::kOk);
  EXPECT_EQ(chain.refused, 0);
  EXPECT_EQ(model->Statistics().done, 200u);
}

TEST_F(RunTest, ACallbackThatThrowsOrBlocksHarmsNothing) {
  Open();
  const auto model = Load(AddsWeights());
  std::vector<float> x(4);
  struct {
    const std::thread::id starter = std::this_thread::get_id();
    std::atomic<bool> goes_on{false}, blocks{false};
  } state;
  ModelRun throws(*model), blocks(*model), other(*model);
  for (ModelRun* run : {&throws, &blocks, &other}) {
    ASSERT_EQ(run->SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  }
  const auto throw_it = [](void*, ModelRun&) { throw std::runtime_error("from a callback"); };
  ASSERT_EQ(throws.Start(std::nullopt, throw_it, nullptr), RunCode::kOk);
  EXPECT_EQ(throws.Wait(), RunCode::kOk);
  const auto block = [](void* argument, ModelRun&) {
    auto& shared = *static_cast<decltype(state)*>(argument);
    // Start() itself may call it: then it would wait for its own thread.
    if (std::this_thread::get_id() == shared.starter) return;
    shared.blocks = true;
    while (!shared.goes_on) std::this_thread::yield();
  };
  while (!state.blocks) {
    ASSERT_EQ(blocks.Start(std::nullopt, block, &state), RunCode::kOk);
    while (!state.blocks && blocks.Wait(Now() + milliseconds(1)) != RunCode::kOk) {
    }
  }
  EXPECT_EQ(blocks.Wait(Now() + milliseconds(20)), RunCode::kDeadlineExceeded);
  EXPECT_EQ(other.Sync(), RunCode::kOk);
  state.goes_on = true;
  EXPECT_EQ(blocks.Wait(), RunCode::kOk);
}

TEST_F(RunTest, ACancelThatCameBeforeSyncCountsWhereItsFlagTellsSo) {
  Open();
  const auto model = Load(AddsWeights());
  ModelRun run(*model);
  std::vector<float> x = {1, 1, 1, 1};
  ASSERT_EQ(run.SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  std::atomic<bool> cancelled = true;
  EXPECT_EQ(run.Sync(std::nullopt, &cancelled), RunCode::kCancelled);
  cancelled = false;
  EXPECT_EQ(run.Sync(std::nullopt, &cancelled), RunCode::kOk);
}

TEST_F(RunTest, CancelEndsARunThatRunsAndOneThatWaits) {
  Open();
  const auto model = LoadHeld();
  ModelRun first(*model), second(*model);
  BindHeld(first);
  BindHeld(second);
  ASSERT_EQ(first.Start(std::nullopt), RunCode::kOk);
  AwaitHeld();
  ASSERT_EQ(second.Start(std::nullopt), RunCode::kOk);
  EXPECT_EQ(first.Start(std::nullopt), RunCode::kInvalidArgument);
  EXPECT_THAT(first.message(), HasSubstr("under way"));
  EXPECT_EQ(second.Wait(Now() + milliseconds(1)), RunCode::kDeadlineExceeded);
  EXPECT_TRUE(second.under_way());
  second.Cancel();
  EXPECT_EQ(second.Wait(), RunCode::kCancelled);
  EXPECT_THAT(second.message(), HasSubstr("cancelled"));
  first.Cancel();
  EXPECT_EQ(first.Wait(), RunCode::kCancelled);
  EXPECT_EQ(first.OutputData(0), nullptr);
  EXPECT_EQ(model->Statistics().cancelled, 2u);
  gates_->blocks.Open();
  EXPECT_EQ(first.Sync(), RunCode::kOk) << "a cancellation is of one run only";
}

TEST_F(RunTest, AMissedDeadlineSaysWhy) {
  Open();
  const auto model = LoadHeld();
  ModelRun running(*model), waiting(*model);
  BindHeld(running);
  BindHeld(waiting);
  ASSERT_EQ(running.Start(kNoDeadline), RunCode::kOk);
  AwaitHeld();
  EXPECT_EQ(waiting.Sync(Now() + milliseconds(50)), RunCode::kDeadlineExceeded);
  EXPECT_EQ(waiting.result().why, WhyLate::kQueued);
  EXPECT_THAT(waiting.message(), HasSubstr("queued"));
  EXPECT_EQ(waiting.result().behind.jobs, 1u);
  EXPECT_STREQ(waiting.result().behind.queue.data(), "m");
  EXPECT_GE(waiting.result().behind.longest, milliseconds(40));
  EXPECT_THAT(waiting.message(),
              HasSubstr("runs that had the device meanwhile: 1, the longest of 'm'"));
  EXPECT_EQ(waiting.Sync(Now() - milliseconds(1)), RunCode::kDeadlineExceeded);
  EXPECT_EQ(waiting.result().why, WhyLate::kCaller);
  running.Cancel();
  EXPECT_EQ(running.Wait(), RunCode::kCancelled);
  EXPECT_EQ(model->Statistics().late, 2u);
  EXPECT_EQ(model->Statistics().expired, 2u);
}

TEST_F(RunTest, AModelsDeadlineHoldsWhileItsRunComputes) {
  Open();
  const auto model = LoadHeld();
  ModelRun run(*model);
  BindHeld(run);
  bool held = false;
  // On a busy machine a run may miss a short deadline before it begins.
  for (milliseconds deadline(20); !held; deadline *= 2) {
    model->SetDeadline(deadline);
    ASSERT_EQ(run.Start(std::nullopt), RunCode::kOk);
    while (run.under_way() && !held) held = gates_->blocks.HasWaiting();
    EXPECT_EQ(run.Wait(), RunCode::kDeadlineExceeded);
  }
  EXPECT_GT(run.result().finished, run.result().first_block);
  EXPECT_NE(run.result().why, WhyLate::kNot);
}

TEST_F(RunTest, TheNewestRunTakesThePlaceOfTheOldest) {
  Open();
  LocalModelOptions options;
  options.max_pending = 1;
  options.newest_wins = true;
  const auto model = LoadHeld(options);
  ModelRun running(*model), old(*model), newest(*model);
  for (ModelRun* run : {&running, &old, &newest}) BindHeld(*run);
  ASSERT_EQ(running.Start(std::nullopt), RunCode::kOk);
  AwaitHeld();
  ASSERT_EQ(old.Start(std::nullopt), RunCode::kOk);
  ASSERT_EQ(newest.Start(std::nullopt), RunCode::kOk);
  EXPECT_EQ(old.Wait(), RunCode::kSuperseded);
  gates_->blocks.Open();
  EXPECT_EQ(newest.Wait(), RunCode::kOk);
  EXPECT_EQ(running.Wait(), RunCode::kOk);
}

TEST_F(RunTest, AFullQueueRefuses) {
  Open();
  LocalModelOptions options;
  options.max_pending = 1;
  const auto model = LoadHeld(options);
  ModelRun running(*model), waiting(*model), refused(*model);
  for (ModelRun* run : {&running, &waiting, &refused}) BindHeld(*run);
  ASSERT_EQ(running.Start(std::nullopt), RunCode::kOk);
  AwaitHeld();
  ASSERT_EQ(waiting.Start(std::nullopt), RunCode::kOk);
  const auto never = [](void*, ModelRun&) {
    ADD_FAILURE() << "a run that did not start has no end";
  };
  EXPECT_EQ(refused.Start(std::nullopt, never, nullptr), RunCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("model 'm'"));
  EXPECT_EQ(refused.Sync(), RunCode::kUnavailable);
  EXPECT_FALSE(refused.under_way());
}

TEST_F(RunTest, RealTimeRunsTakeTheDeviceFromOthers) {
  Open();
  LocalModelOptions options;
  options.name = "urgent";
  options.job_class = JobClass::kRealTime;
  const auto urgent = Load(AddsWeights(), options);
  const auto held = LoadHeld();
  ModelRun slow(*held), fast(*urgent);
  BindHeld(slow);
  std::vector<float> x(4);
  ASSERT_EQ(fast.SetInput(0, TensorOf(x, {1, 4}, DataType::kFloat32)), RunCode::kOk);
  ASSERT_EQ(slow.Start(std::nullopt), RunCode::kOk);
  AwaitHeld();
  // The held kernel has both workers. A short run goes on beside it, on this thread.
  EXPECT_EQ(fast.Sync(), RunCode::kOk);
  EXPECT_EQ(fast.Start(std::nullopt), RunCode::kOk);
  EXPECT_EQ(fast.Wait(), RunCode::kOk);
  gates_->blocks.Open();
  EXPECT_EQ(slow.Wait(), RunCode::kOk);
  EXPECT_EQ(slow.result().revocations, 1u) << "of the run that was started";
  fast.SetClass(JobClass::kBestEffort);
  EXPECT_EQ(fast.Sync(), RunCode::kOk) << fast.message();
}

#ifdef LAGOON_COUNTS_ALLOCATIONS
TEST_F(RunTest, PreparedRunsAllocateNothing) {
  Open();
  LocalModelOptions options;
  options.job_class = JobClass::kRealTime;
  const auto model = Load(AddsWeights(), options);
  ModelRun run(*model);
  std::vector<float> x(4), other(4), y(4);
  const Dims dims = {1, 4};
  const auto once = [&](std::vector<float>& input, TimePoint due) {
    RunCode code = run.SetInput(0, TensorOf(input, dims, DataType::kFloat32));
    if (code == RunCode::kOk) code = run.SetOutput(0, TensorOf(y, dims, DataType::kFloat32));
    if (code == RunCode::kOk) code = run.Sync(due);
    return code;
  };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(once(i % 2 == 0 ? x : other, kNoDeadline), RunCode::kOk);
  const std::uint64_t before = allocations.load();
  int wrong = 0, late = 0;
  for (int i = 0; i < 10000; ++i) {
    // Deadlines that are missed count too.
    const bool misses = i % 100 == 99;
    const RunCode code = once(i % 2 == 0 ? x : other, misses ? Now() : kNoDeadline);
    if (misses && code == RunCode::kDeadlineExceeded) ++late;
    if (!misses && code != RunCode::kOk) ++wrong;
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(late, 0);
}
#endif

}  // namespace
}  // namespace lagoon

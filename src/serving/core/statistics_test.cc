#include "serving/core/statistics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lagoon {
namespace {

TimePoint At(int microseconds) { return TimePoint(std::chrono::microseconds(microseconds)); }

/// Arrived at 100, posted at 110, started at 150, inputs at 170, computed at 270, finished at 280.
JobResult Done() {
  JobResult result;
  result.outcome = Outcome::kDone;
  result.posted = At(110);
  result.started = At(150);
  result.inputs_copied = At(170);
  result.first_block = At(160);
  result.computed = At(270);
  result.finished = At(280);
  result.revocations = 2;
  result.resumed_blocks = 30;
  result.repeated_kernels = 4;
  return result;
}

/// Never started: left the queue at 300.
JobResult Left(Outcome outcome) {
  JobResult result;
  result.outcome = outcome;
  result.posted = At(110);
  result.started = result.inputs_copied = result.computed = result.finished = At(300);
  return result;
}

ModelStatistics Read(const StatisticsRecorder& recorder) {
  ModelStatistics statistics;
  recorder.Read(statistics);
  return statistics;
}

TEST(Statistics, HistogramsCountEachRequestByItsClass) {
  StatisticsRecorder recorder;
  recorder.RecordFinished(Done(), {.arrival = At(100), .job_class = JobClass::kRealTime});
  recorder.RecordFinished(Left(Outcome::kExpired), {.arrival = At(100)});
  const ModelStatistics s = Read(recorder);
  const StageHistograms& real_time = s.histograms[0];
  EXPECT_EQ(real_time.request.counts[2], 1u) << "180 us: above 100, at most 200";
  EXPECT_EQ(real_time.request.ns, 180'000u);
  EXPECT_EQ(real_time.queue.counts[0], 1u);
  EXPECT_EQ(real_time.compute_input.counts[0], 1u);
  EXPECT_EQ(real_time.compute_infer.counts[1], 1u) << "100 us: a bucket has its upper end";
  EXPECT_EQ(real_time.compute_output.counts[0], 1u);
  const StageHistograms& best_effort = s.histograms[1];
  EXPECT_EQ(best_effort.queue.counts[2], 1u) << "190 us until it left";
  EXPECT_EQ(best_effort.request.count() + best_effort.compute_infer.count(), 0u)
      << "it did not succeed";
  EXPECT_EQ(s.queue.count, 2u);
  EXPECT_EQ(s.queue.ns, 230'000u);
}

TEST(Statistics, HistogramsCountWhatIsLongerThanAllBuckets) {
  HistogramRecorder recorder;
  recorder.Add(std::chrono::hours(1));
  recorder.Add(Nanoseconds(-5));  // two clocks may disagree a little
  recorder.Add(std::chrono::seconds(10));
  recorder.Add(std::chrono::seconds(10) + Nanoseconds(1));
  const StageHistogram read = recorder.Read();
  EXPECT_EQ(read.counts.front(), 1u);
  EXPECT_EQ(read.counts[read.counts.size() - 2], 1u);
  EXPECT_EQ(read.counts.back(), 2u);
  EXPECT_EQ(read.count(), 4u);
  EXPECT_EQ(read.ns, 3'620'000'000'001u);
}

TEST(Statistics, SplitASuccessIntoItsStages) {
  StatisticsRecorder recorder;
  recorder.RecordFinished(Done(), {At(100), kNoDeadline});
  const ModelStatistics s = Read(recorder);
  EXPECT_EQ(s.success.count, 1u);
  EXPECT_EQ(s.success.ns, 180'000u);
  EXPECT_EQ(s.queue.count, 1u);
  EXPECT_EQ(s.queue.ns, 40'000u);
  EXPECT_EQ(s.compute_input.ns, 20'000u);
  EXPECT_EQ(s.compute_infer.ns, 100'000u);
  EXPECT_EQ(s.compute_output.ns, 10'000u);
  EXPECT_EQ(s.inference_count, 1u);
  EXPECT_EQ(s.execution_count, 1u);
  EXPECT_EQ(s.revocations, 2u);
  EXPECT_EQ(s.resumed_blocks, 30u);
  EXPECT_EQ(s.repeated_kernels, 4u);
  EXPECT_EQ(s.fail.count, 0u);
  EXPECT_EQ(s.deadline_misses, 0u);
  EXPECT_GT(s.last_inference_ms, 1'600'000'000'000u);
}

TEST(Statistics, CountRowsAndExecutionsOfEachBatchSize) {
  StatisticsRecorder recorder(3);
  for (const std::size_t batch : {3, 1, 3}) {
    recorder.RecordFinished(Done(), {At(100), kNoDeadline, batch});
  }
  recorder.RecordFinished(Left(Outcome::kExpired), {At(100), kNoDeadline, 2});
  const ModelStatistics s = Read(recorder);
  EXPECT_EQ(s.inference_count, 7u);
  EXPECT_EQ(s.execution_count, 3u);
  EXPECT_EQ(s.success.count, 3u);
  ASSERT_EQ(s.batches.size(), 2u);
  EXPECT_EQ(s.batches[0].batch_size, 1u);
  EXPECT_EQ(s.batches[1].batch_size, 3u);
  EXPECT_EQ(s.batches[1].compute_infer.count, 2u);
  EXPECT_EQ(s.batches[1].compute_infer.ns, 200'000u);
}

TEST(Statistics, CountBatchesUpToTheLargestOne) {
  StatisticsRecorder recorder(256);
  for (const std::size_t batch : {256, 65, 1, 256}) {
    recorder.RecordFinished(Done(), {At(100), kNoDeadline, batch});
  }
  recorder.RecordFinished(Done(), {At(100), kNoDeadline, 1, StatisticsRecorder::Batch{200, true}});
  const ModelStatistics s = Read(recorder);
  ASSERT_EQ(s.batches.size(), 4u);
  const std::uint64_t sizes[] = {1, 65, 200, 256}, counts[] = {1, 1, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(s.batches[i].batch_size, sizes[i]);
    EXPECT_EQ(s.batches[i].compute_infer.count, counts[i]);
  }
}

TEST(Statistics, WithoutBatchesCountNoSizes) {
  StatisticsRecorder recorder;
  recorder.RecordFinished(Done(), {At(100), kNoDeadline, 3});
  EXPECT_EQ(Read(recorder).inference_count, 3u);
  EXPECT_TRUE(Read(recorder).batches.empty());
}

TEST(Statistics, AreZeroBeforeTheFirstRequest) {
  const ModelStatistics s = Read(StatisticsRecorder());
  EXPECT_EQ(s.last_inference_ms, 0u);
  EXPECT_EQ(s.queue.count, 0u);
}

TEST(Statistics, QueueCountRisesWhateverTheOutcome) {
  StatisticsRecorder recorder;
  std::uint64_t count = 0;
  for (const Outcome outcome :
       {Outcome::kCancelled, Outcome::kExpired, Outcome::kSuperseded, Outcome::kFailed}) {
    recorder.RecordFinished(Left(outcome), {At(100), kNoDeadline});
    EXPECT_EQ(Read(recorder).queue.count, ++count);
  }
  EXPECT_EQ(Read(recorder).queue.ns, 4 * 190'000u);
  EXPECT_EQ(Read(recorder).fail.count, 4u);
  EXPECT_EQ(Read(recorder).fail.ns, 4 * 200'000u);
  EXPECT_EQ(Read(recorder).success.count, 0u);
  EXPECT_EQ(Read(recorder).execution_count, 0u);
  EXPECT_EQ(Read(recorder).compute_infer.count, 0u);
}

TEST(Statistics, EachOutcomeHasItsReason) {
  StatisticsRecorder recorder;
  recorder.RecordFinished(Left(Outcome::kCancelled), {At(100), kNoDeadline});
  recorder.RecordFinished(Left(Outcome::kFailed), {At(100), kNoDeadline});
  recorder.RecordFinished(Left(Outcome::kSuperseded), {At(100), kNoDeadline});
  ModelStatistics s = Read(recorder);
  EXPECT_EQ(s.cancelled, 1u);
  EXPECT_EQ(s.backend, 1u);
  EXPECT_EQ(s.superseded, 1u);
  EXPECT_EQ(s.rejected, 1u);
  EXPECT_EQ(s.deadline_misses, 0u);
  recorder.RecordFinished(Left(Outcome::kExpired), {At(100), At(290)});
  s = Read(recorder);
  EXPECT_EQ(s.rejected, 2u);
  EXPECT_EQ(s.deadline_misses, 1u);
  recorder.RecordFinished(Left(Outcome::kTooLate), {At(100), At(400)});
  s = Read(recorder);
  EXPECT_EQ(s.rejected, 3u);
  EXPECT_EQ(s.too_late, 1u);
  EXPECT_EQ(s.deadline_misses, 1u);
}

TEST(Statistics, ASuccessAfterItsDeadlineIsAMiss) {
  StatisticsRecorder recorder;
  recorder.RecordFinished(Done(), {At(100), At(280)});
  EXPECT_EQ(Read(recorder).deadline_misses, 0u);
  recorder.RecordFinished(Done(), {At(100), At(279)});
  EXPECT_EQ(Read(recorder).deadline_misses, 1u);
  EXPECT_EQ(Read(recorder).success.count, 2u);
}

TEST(Statistics, ARefusedRequestCountsByItsCode) {
  StatisticsRecorder recorder;
  recorder.RecordRefused(ErrorCode::kUnavailable, std::chrono::microseconds(3));
  recorder.RecordRefused(ErrorCode::kInvalidArgument, std::chrono::microseconds(4));
  recorder.RecordRefused(ErrorCode::kDeadlineExceeded, std::chrono::microseconds(5));
  const ModelStatistics s = Read(recorder);
  EXPECT_EQ(s.fail.count, 3u);
  EXPECT_EQ(s.fail.ns, 12'000u);
  EXPECT_EQ(s.rejected, 2u);
  EXPECT_EQ(s.other, 1u);
  EXPECT_EQ(s.deadline_misses, 1u);
  EXPECT_EQ(s.queue.count, 0u);
}

TEST(Statistics, StagesAreNeverNegative) {
  JobResult result = Done();
  result.inputs_copied = result.finished;  // the job has no inputs
  StatisticsRecorder recorder;
  recorder.RecordFinished(result, {At(500), kNoDeadline});  // it "arrived" after its end
  const ModelStatistics s = Read(recorder);
  EXPECT_EQ(s.compute_input.ns, 120'000u);
  EXPECT_EQ(s.compute_infer.ns, 0u);
  EXPECT_EQ(s.compute_output.ns, 10'000u);
  EXPECT_EQ(s.success.ns, 0u);
}

TEST(Statistics, LoseNothingWhenManyThreadsRecord) {
  StatisticsRecorder recorder;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) recorder.RecordFinished(Done(), {At(100), kNoDeadline});
      });
    }
  }
  EXPECT_EQ(Read(recorder).success.count, 4000u);
  EXPECT_EQ(Read(recorder).success.ns, 4000u * 180'000u);
  EXPECT_EQ(Read(recorder).resumed_blocks, 120'000u);
}

}  // namespace
}  // namespace lagoon

#include "serving/core/statistics.h"

#include <algorithm>

namespace lagoon {
namespace {

// relaxed everywhere: the counters publish nothing and need no order among themselves.
void Bump(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

std::uint64_t Load(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

std::size_t Index(JobClass job_class) { return static_cast<std::size_t>(job_class); }

/// inputs_copied may be later than `computed` if no kernel waits for the last input or there is no
/// input.
TimePoint InputsCopied(const JobResult& result) {
  return std::min(result.inputs_copied, result.computed);
}

StageStatistics TotalOf(const StageHistogram& histogram) {
  return {histogram.count(), histogram.ns};
}

}  // namespace

bool IsLate(const JobResult& result, TimePoint deadline) {
  const bool late = result.outcome == Outcome::kExpired || result.finished > deadline;
  return late && result.outcome != Outcome::kTooLate;
}

void StatisticsRecorder::Stage::Add(Nanoseconds duration) {
  Bump(count);
  Bump(ns, static_cast<std::uint64_t>(std::max(duration, Nanoseconds(0)).count()));
}

StageStatistics StatisticsRecorder::Stage::Read() const { return {Load(count), Load(ns)}; }

StageHistograms StatisticsRecorder::Stages::Read() const {
  return {request.Read(), queue.Read(), compute_input.Read(), compute_infer.Read(),
          compute_output.Read()};
}

void StatisticsRecorder::RecordFinished(const JobResult& result, const Request& request) {
  last_inference_ms_.store(UnixMilliseconds(), std::memory_order_relaxed);
  by_class_[Index(request.job_class)].queue.Add(result.started - result.posted);
  if (result.revocations > 0) Bump(revocations_, result.revocations);
  if (result.resumed_blocks > 0) Bump(resumed_blocks_, result.resumed_blocks);
  if (result.repeated_kernels > 0) Bump(repeated_kernels_, result.repeated_kernels);
  if (IsLate(result, request.deadline)) Bump(deadline_misses_);
  if (result.outcome == Outcome::kDone) return RecordSuccess(result, request);

  fail_.Add(result.finished - request.arrival);
  switch (result.outcome) {
    case Outcome::kSuperseded:
      Bump(superseded_);
      Bump(rejected_);
      break;
    case Outcome::kTooLate:
      Bump(too_late_);
      Bump(rejected_);
      break;
    case Outcome::kExpired:
    case Outcome::kNotStarted:
      Bump(rejected_);
      break;
    case Outcome::kCancelled:
      Bump(cancelled_);
      break;
    case Outcome::kFailed:
    case Outcome::kDone:
      Bump(backend_);
      break;
  }
}

void StatisticsRecorder::Compute::Add(const JobResult& result) {
  const TimePoint copied = InputsCopied(result);
  input.Add(copied - result.started);
  infer.Add(result.computed - copied);
  output.Add(result.finished - result.computed);
}

void StatisticsRecorder::RecordSuccess(const JobResult& result, const Request& request) {
  const TimePoint copied = InputsCopied(result);
  Stages& stages = by_class_[Index(request.job_class)];
  stages.request.Add(result.finished - request.arrival);
  stages.compute_input.Add(copied - result.started);
  stages.compute_infer.Add(result.computed - copied);
  stages.compute_output.Add(result.finished - result.computed);
  Bump(inferences_, request.rows);
  const Batch batch = request.batch.value_or(Batch{static_cast<std::int64_t>(request.rows), true});
  if (!batch.counts) return;
  Bump(executions_);
  const auto rows = static_cast<std::size_t>(batch.rows);
  if (rows <= batches_.size()) batches_[rows - 1].Add(result);
}

void StatisticsRecorder::RecordRefused(ErrorCode code, Nanoseconds since_arrival) {
  fail_.Add(since_arrival);
  if (code == ErrorCode::kDeadlineExceeded) Bump(deadline_misses_);
  const bool rejected = code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
  Bump(rejected ? rejected_ : other_);
}

void StatisticsRecorder::Read(ModelStatistics& statistics) const {
  statistics.last_inference_ms = Load(last_inference_ms_);
  statistics.inference_count = Load(inferences_);
  statistics.execution_count = Load(executions_);
  statistics.fail = fail_.Read();
  StageHistograms sum;
  for (std::size_t i = 0; i < by_class_.size(); ++i) {
    statistics.histograms[i] = by_class_[i].Read();
    for (const auto stage : StageHistograms::kAll) {
      (sum.*stage).Add(statistics.histograms[i].*stage);
    }
  }
  statistics.success = TotalOf(sum.request);
  statistics.queue = TotalOf(sum.queue);
  statistics.compute_input = TotalOf(sum.compute_input);
  statistics.compute_infer = TotalOf(sum.compute_infer);
  statistics.compute_output = TotalOf(sum.compute_output);
  statistics.batches.clear();
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const Compute& batch = batches_[i];
    if (Load(batch.output.count) == 0) continue;
    statistics.batches.push_back(
        {i + 1, batch.input.Read(), batch.infer.Read(), batch.output.Read()});
  }
  statistics.rejected = Load(rejected_);
  statistics.cancelled = Load(cancelled_);
  statistics.backend = Load(backend_);
  statistics.other = Load(other_);
  statistics.deadline_misses = Load(deadline_misses_);
  statistics.superseded = Load(superseded_);
  statistics.too_late = Load(too_late_);
  statistics.revocations = Load(revocations_);
  statistics.resumed_blocks = Load(resumed_blocks_);
  statistics.repeated_kernels = Load(repeated_kernels_);
}

}  // namespace lagoon

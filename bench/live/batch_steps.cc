#include "bench/live/batch_steps.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/seconds.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

using Buffers = std::vector<std::vector<std::byte>>;

constexpr const char* kPlain = "plain";
constexpr const char* kGathered = "gathered";
constexpr const char* kSlab = "slab";

std::string Config(std::int64_t rows, const std::string& more = {}) {
  return fmt::format(
      "max_batch_size: {}\ndynamic_batching {{ }}\n"
      "parameters {{ key: \"lagoon.max_queue_size\" value {{ string_value: \"1024\" }} }}\n{}",
      rows, more);
}

std::string Parameter(const char* key, const std::string& value) {
  return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{}\" }} }}\n", key, value);
}

class StepsOfModel {
 public:
  explicit StepsOfModel(const BatchStepsOptions& options) : options_(options) {}

  Status Serve() {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    repository_ = std::make_unique<TemporaryRepository>(std::move(repository));
    const std::string file = ModelFile(options_.zoo, options_.model);
    const std::string slab = Parameter("lagoon.batching", "slab") +
                             Parameter("lagoon.slo_of", "batch") +
                             Parameter("lagoon.slo_ms", fmt::format("{}", options_.slo_ms));
    LAGOON_RETURN_IF_ERROR(repository_->AddFile(kPlain, file));
    LAGOON_RETURN_IF_ERROR(repository_->AddFile(kGathered, file, Config(options_.rows)));
    LAGOON_RETURN_IF_ERROR(repository_->AddFile(kSlab, file, Config(2 * options_.rows, slab)));
    LAGOON_ASSIGN_OR_RETURN(onnx_, OnnxModel::Read(file));
    LAGOON_ASSIGN_OR_RETURN(
        core_, bench::Serve(repository_->path(), options_.scheduler, options_.workers));
    LAGOON_ASSIGN_OR_RETURN(const GraphInputs one, onnx_->BatchInputs(1));
    LAGOON_ASSIGN_OR_RETURN(const GraphInputs all, onnx_->BatchInputs(options_.rows));
    for (const char* name : {kPlain, kGathered, kSlab}) {
      requests_.push_back(RequestOf(*onnx_, name, one));
    }
    batch_ = RequestOf(*onnx_, kPlain, all);
    // The first runs compile plans for their shapes, and SLAB looks for its limit.
    for (std::size_t step = 0; step < std::size(kBatchSteps); ++step) {
      LAGOON_RETURN_IF_ERROR(RowsPerSecond(step));
    }
    return {};
  }

  Result<double> RowsPerSecond(std::size_t step) {
    const auto rows = static_cast<std::ptrdiff_t>(options_.rows);
    switch (step) {
      case 0:
      case 1:
        return Loop(static_cast<std::ptrdiff_t>(step) + 1, 1, [&] { return requests_[0]; });
      case 2:
        return Loop(2, rows, [&] { return Copied(); });
      case 3:
        return Loop(2 * rows, 1, [&] { return requests_[1]; });
      default:
        return Loop(4 * rows, 1, [&] { return requests_[2]; });
    }
  }

 private:
  // A batch of the rows of as many requests, in memory of its own.
  InferRequest Copied() const {
    InferRequest batch = batch_;
    auto buffers = std::make_shared<Buffers>();
    const InferRequest& row = requests_.front();
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      const auto from = row.inputs[i].data;
      std::vector<std::byte>& to = buffers->emplace_back(batch.inputs[i].data.size());
      for (std::size_t at = 0; at + from.size() <= to.size(); at += from.size()) {
        std::memcpy(to.data() + at, from.data(), from.size());
      }
      batch.inputs[i].data = to;
    }
    batch.payload = buffers;
    return batch;
  }

  void CopyApart(const InferResponse& response) const {
    for (const OutputTensor& output : response.outputs) {
      const std::size_t row = output.data.size() / static_cast<std::size_t>(options_.rows);
      for (std::size_t at = 0; at + row <= output.data.size(); at += row) {
        const std::vector<std::byte> own(output.data.data() + at, output.data.data() + at + row);
        copied_bytes_ += own.size();
        if (row == 0) return;
      }
    }
  }

  // `at_once` requests of `rows` rows are in flight, for a window.
  Result<double> Loop(std::ptrdiff_t at_once, std::ptrdiff_t rows,
                      const std::function<InferRequest()>& next) {
    std::counting_semaphore<> room(at_once);
    std::atomic<std::int64_t> answered{0}, failed{0};
    const TimePoint begin = Now();
    const TimePoint end = begin + FromSeconds(options_.window_seconds);
    while (Now() < end) {
      room.acquire();
      InferRequest request = next();
      request.arrival = Now();
      core_->Infer(std::move(request), [&](const Answer& answer) {
        if (answer && rows > 1) CopyApart(*answer);
        ++(answer ? answered : failed);
        room.release();
      });
    }
    for (std::ptrdiff_t i = 0; i < at_once; ++i) room.acquire();
    const double seconds = std::chrono::duration<double>(Now() - begin).count();
    if (failed > 0) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("{} requests of '{}' failed", failed.load(), options_.model));
    }
    return static_cast<double>(answered.load() * rows) / seconds;
  }

  const BatchStepsOptions& options_;
  std::unique_ptr<TemporaryRepository> repository_;
  std::unique_ptr<OnnxModel> onnx_;
  std::vector<InferRequest> requests_;  // of a row: plain, gathered, slab
  InferRequest batch_;
  mutable std::atomic<std::size_t> copied_bytes_{0};  // keeps the copies
  std::unique_ptr<Inference> core_;  // the last: it ends before what its callbacks use
};

}  // namespace

Status MeasureBatchSteps(const BatchStepsOptions& options, Evidence& evidence,
                         ProgressBar& progress) {
  StepsOfModel model(options);
  LAGOON_RETURN_IF_ERROR(model.Serve());
  WindowsPlan plan{
      .groups = {options.model + " by steps"}, .windows = {}, .rounds = options.windows};
  plan.windows.assign(std::begin(kBatchSteps), std::end(kBatchSteps));
  plan.seed = options.seed;
  std::vector<double> ips[std::size(kBatchSteps)];
  const auto measure = [&](const WindowPlace& place) -> Status {
    std::vector<double>& of = ips[place.window];
    of.resize(place.trial + 1);
    LAGOON_ASSIGN_OR_RETURN(of[place.trial], model.RowsPerSecond(place.window));
    progress.Step(plan.groups.front());
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  for (std::size_t step = 0; step < std::size(kBatchSteps); ++step) {
    std::vector<double> own, gain;
    for (const std::size_t trial : result.trials[0]) {
      own.push_back(ips[step][trial]);
      if (step > 0) gain.push_back(own.back() / ips[step - 1][trial]);
    }
    const std::string of = fmt::format("{}.{}", options.model, kBatchSteps[step]);
    evidence.Add("step_ips." + of, own);
    if (step > 0) evidence.Add("step_gain." + of, gain);
  }
  evidence.AddWindows(result.summary);
  return {};
}

}  // namespace lagoon::bench

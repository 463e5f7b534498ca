#include "bench/live/batch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <semaphore>
#include <thread>

#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

constexpr Nanoseconds kLook = std::chrono::microseconds(500);  // between two looks at the limit
constexpr double kAllowedRows = 1, kAllowedPart = 0.1;

struct Change {
  double ms = 0;  // since the first request
  double rows = 0;
};

struct Course {
  std::vector<Change> changes;          // the first one is the limit at the start
  std::vector<double> late_rows;        // limits at the looks of the last quarter
  double batch_ms = 0, throughput = 0;  // in the last quarter
};

class OneModel {
 public:
  static Result<OneModel> Serve(const BatchLimitsOptions& options, const std::string& config) {
    OneModel served(options);
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    served.repository_ = std::make_unique<TemporaryRepository>(std::move(repository));
    const std::string file = ModelFile(options.zoo, options.model);
    LAGOON_RETURN_IF_ERROR(served.repository_->AddFile(options.model, file, config));
    LAGOON_ASSIGN_OR_RETURN(served.onnx_, OnnxModel::Read(file));
    LAGOON_ASSIGN_OR_RETURN(
        served.core_, bench::Serve(served.repository_->path(), options.scheduler, options.workers));
    return served;
  }

  // As many requests at once as two batches hold.
  Result<Course> Run() {
    Course course;
    std::counting_semaphore<> room(2 * options_.most_rows);
    std::atomic<int> in_flight{0}, failed{0};
    const InferRequest request = RequestOf(*onnx_, options_.model, onnx_->DefaultInputs());
    const TimePoint begin = Now();
    const TimePoint end = begin + FromSeconds(options_.seconds);
    std::jthread sender([&] {
      while (Now() < end) {
        room.acquire();
        InferRequest one = request;
        one.arrival = Now();
        ++in_flight;
        core_->Infer(std::move(one), [&](const Answer& answer) {
          if (!answer) ++failed;
          room.release();
          --in_flight;
          in_flight.notify_all();
        });
      }
    });
    Status watched = Watch(begin, end, course);
    sender.join();
    for (int now = in_flight.load(); now != 0; now = in_flight.load()) in_flight.wait(now);
    LAGOON_RETURN_IF_ERROR(watched);
    if (failed == 0) return course;
    return Fail(ErrorCode::kInternal,
                fmt::format("{} requests of '{}' failed", failed.load(), options_.model));
  }

 private:
  explicit OneModel(const BatchLimitsOptions& options) : options_(options) {}

  Result<ModelStatistics> Statistics() const {
    LAGOON_ASSIGN_OR_RETURN(const auto all, core_->Statistics(options_.model, ""));
    return all.front();
  }

  Status Watch(TimePoint begin, TimePoint end, Course& course) const {
    const TimePoint quarter = end - (end - begin) / 4;
    ModelStatistics at_quarter;
    for (TimePoint now = begin; now < end; now = Now()) {
      LAGOON_ASSIGN_OR_RETURN(ModelStatistics statistics, Statistics());
      const auto rows = static_cast<double>(statistics.most_rows);
      if (course.changes.empty() || course.changes.back().rows != rows) {
        course.changes.push_back({ToMilliseconds(now - begin), rows});
      }
      if (now >= quarter) {
        if (course.late_rows.empty()) at_quarter = std::move(statistics);
        course.late_rows.push_back(rows);
      }
      std::this_thread::sleep_for(kLook);  // samples the limit, which nothing announces
    }
    LAGOON_ASSIGN_OR_RETURN(const ModelStatistics last, Statistics());
    const double lasted = std::chrono::duration<double>(end - quarter).count();
    const auto batches = static_cast<double>(last.execution_count - at_quarter.execution_count);
    course.throughput =
        static_cast<double>(last.inference_count - at_quarter.inference_count) / lasted;
    if (batches > 0) course.batch_ms = 1000 * lasted / batches;
    return {};
  }

  const BatchLimitsOptions& options_;
  std::unique_ptr<TemporaryRepository> repository_;
  std::unique_ptr<OnnxModel> onnx_;
  std::unique_ptr<Inference> core_;
};

// When the limit was last further from `rows` than is allowed; -1: in the last quarter.
double ConvergedMs(const Course& course, double rows, double length) {
  const double allowed = std::max(kAllowedRows, kAllowedPart * rows);
  double settled_ms = 0;
  for (std::size_t i = 0; i < course.changes.size(); ++i) {
    if (std::abs(course.changes[i].rows - rows) <= allowed) continue;
    const bool last = i + 1 == course.changes.size();
    settled_ms = last ? length * 1000 : course.changes[i + 1].ms;
  }
  return settled_ms > 750 * length ? -1 : settled_ms;
}

}  // namespace

Status RunBatchLimits(const BatchLimitsOptions& options, ProgressBar& progress, Report& report) {
  nlohmann::json courses = nlohmann::json::object();
  for (const double slo_ms : options.slos_ms) {
    for (const std::string& limiter : options.limiters) {
      const std::string config = fmt::format(
          "max_batch_size: {}\ndynamic_batching {{ }}\n"
          "parameters {{ key: \"lagoon.slo_ms\" value {{ string_value: \"{}\" }} }}\n"
          "parameters {{ key: \"lagoon.slo_of\" value {{ string_value: \"batch\" }} }}\n"
          "parameters {{ key: \"lagoon.batching\" value {{ string_value: \"{}\" }} }}\n"
          "parameters {{ key: \"lagoon.max_queue_size\" value {{ string_value: \"1024\" }} }}\n",
          options.most_rows, slo_ms, limiter);
      LAGOON_ASSIGN_OR_RETURN(OneModel model, OneModel::Serve(options, config));
      LAGOON_ASSIGN_OR_RETURN(const Course course, model.Run());
      const double rows = Median(course.late_rows);
      const double converged = ConvergedMs(course, rows, options.seconds);
      const auto metric = [&](std::string_view name, double value) {
        report.Metric(fmt::format("{}_{}.{:g}", limiter, name, slo_ms), value);
      };
      metric("converge_ms", converged);
      metric("rows", rows);
      metric("batch_ms_mean", course.batch_ms);
      metric("throughput_ips", course.throughput);
      nlohmann::json& points = courses[fmt::format("{}.{:g}", limiter, slo_ms)];
      for (const Change& change : course.changes) points.push_back({change.ms, change.rows});
      progress.Step(fmt::format("{} at {:g} ms", limiter, slo_ms));
    }
  }
  report.Field("batch_limits", std::move(courses));
  return {};
}

}  // namespace lagoon::bench

#include "server/metrics_handler.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/text.h"
#include "server/fleet/fleet_metrics.h"
#include "server/route.h"
#include "serving/core/fleet_control.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Field = double (*)(const ModelStatistics&);

constexpr std::string_view kTextType = "text/plain; version=0.0.4; charset=utf-8";

struct Row {
  const char* name;
  const char* help;
  MetricType type;
  Field value;
};

template <std::uint64_t ModelStatistics::*kMember>
double Count(const ModelStatistics& model) {
  return static_cast<double>(model.*kMember);
}

template <StageStatistics ModelStatistics::*kStage>
double Microseconds(const ModelStatistics& model) {
  const std::uint64_t whole = (model.*kStage).ns / 1000;  // Triton counts whole microseconds
  return static_cast<double>(whole);
}

using M = ModelStatistics;

// One value per model and version.
constexpr Row kRows[] = {
    {"nv_inference_request_success", "Requests answered with success", MetricType::Counter,
     [](const M& m) { return static_cast<double>(m.success.count); }},
    {"nv_inference_count", "Inferences done", MetricType::Counter, Count<&M::inference_count>},
    {"nv_inference_exec_count", "Executions of the model", MetricType::Counter,
     Count<&M::execution_count>},
    {"nv_inference_pending_request_count", "Requests waiting now", MetricType::Gauge,
     Count<&M::pending>},
    {"nv_inference_request_duration_us", "Sum of the durations of successful requests",
     MetricType::Counter, Microseconds<&M::success>},
    {"nv_inference_queue_duration_us", "Sum of the times spent in the queue", MetricType::Counter,
     Microseconds<&M::queue>},
    {"nv_inference_compute_input_duration_us", "Sum of the times spent copying inputs",
     MetricType::Counter, Microseconds<&M::compute_input>},
    {"nv_inference_compute_infer_duration_us", "Sum of the times spent computing",
     MetricType::Counter, Microseconds<&M::compute_infer>},
    {"nv_inference_compute_output_duration_us", "Sum of the times spent copying outputs",
     MetricType::Counter, Microseconds<&M::compute_output>},
    {"lagoon_queue_depth", "Requests waiting now", MetricType::Gauge, Count<&M::pending>},
    {"lagoon_revocations_total", "Times that work of this model was made to leave the device",
     MetricType::Counter, Count<&M::revocations>},
    {"lagoon_resumed_blocks_total", "Blocks that a revocation found done and did not repeat",
     MetricType::Counter, Count<&M::resumed_blocks>},
    {"lagoon_repeated_kernels_total",
     "Kernels that ran again, whole, because a revocation interrupted one of their group",
     MetricType::Counter, Count<&M::repeated_kernels>},
    {"lagoon_deadline_misses_total", "Requests that expired or ended after their deadline",
     MetricType::Counter, Count<&M::deadline_misses>},
    {"lagoon_batch_rows_limit",
     "Rows that a batch of joined requests may have now; 0: requests are not joined",
     MetricType::Gauge, [](const M& m) { return static_cast<double>(m.most_rows); }},
    {"lagoon_share_ratio", "The model's share as a part of the device; 0: it has none",
     MetricType::Gauge, [](const M& m) { return m.share; }},
    {"lagoon_share_moves_total", "Times that the model's share has moved", MetricType::Counter,
     Count<&M::share_moves>},
    {"lagoon_opaque_us_max",
     "Longest run of a kernel that an engine computes, which cannot be interrupted; 0: none",
     MetricType::Gauge, [](const M& m) { return ToMicroseconds(m.opaque_max); }},
    {"lagoon_requests_superseded_total", "Requests replaced by a newer one of their queue",
     MetricType::Counter, Count<&M::superseded>},
    {"lagoon_requests_too_late_total",
     "Requests refused because they would have missed their deadline", MetricType::Counter,
     Count<&M::too_late>},
};

// One value, without labels.
struct SchedulerRow {
  const char* name;
  const char* help;
  std::uint64_t DispatcherStats::*count;
};

constexpr SchedulerRow kSchedulerRows[] = {
    {"lagoon_launches_total", "Launches submitted to the device", &DispatcherStats::launches},
    {"lagoon_best_effort_slices_total",
     "Times that real-time work waited for best-effort work to get its minimum",
     &DispatcherStats::slices},
    {"lagoon_part_holds_total",
     "Gaps between two parts of a real-time request that were kept free of best-effort work",
     &DispatcherStats::holds},
    {"lagoon_part_holds_in_vain_total",
     "Gaps of lagoon_part_holds_total that were longer than expected",
     &DispatcherStats::holds_in_vain},
};

constexpr MetricInfo kFailure{"nv_inference_request_failure", "Requests that failed, by reason",
                              MetricType::Counter, "model, version, reason"};
/// So that an alert can tell of a model that is refused, which has no statistics.
constexpr MetricInfo kNotServed{
    "lagoon_model_not_served",
    "1 for each model of the repository that does not take requests; the reason is 'refused' (it "
    "failed to load) or 'unloaded'",
    MetricType::Gauge, "model, version, reason"};
constexpr MetricInfo kOffCore{
    "lagoon_off_core_us_total",
    "Time that worker threads of normal priority were ready to run while other threads or programs "
    "had their cores",
    MetricType::Counter, ""};

/// One histogram per model, version and class of the requests.
struct HistogramRow {
  MetricInfo info;
  StageHistogram StageHistograms::*stage;
};

constexpr const char* kHistogramLabels = "model, version, class";
constexpr HistogramRow kHistogramRows[] = {
    {{"nv_inference_request_duration_histogram_us",
      "Durations of successful requests; those of other servers of a fleet are at these servers",
      MetricType::Histogram, kHistogramLabels},
     &StageHistograms::request},
    {{"nv_inference_queue_duration_histogram_us",
      "Times spent in the queue, also of requests that failed", MetricType::Histogram,
      kHistogramLabels},
     &StageHistograms::queue},
    {{"nv_inference_compute_input_duration_histogram_us", "Times spent copying inputs",
      MetricType::Histogram, kHistogramLabels},
     &StageHistograms::compute_input},
    {{"nv_inference_compute_infer_duration_histogram_us", "Times spent computing",
      MetricType::Histogram, kHistogramLabels},
     &StageHistograms::compute_infer},
    {{"nv_inference_compute_output_duration_histogram_us", "Times spent copying outputs",
      MetricType::Histogram, kHistogramLabels},
     &StageHistograms::compute_output},
};

constexpr MetricInfo kTenantKernels{
    "lagoon_tenant_kernels_total", "Kernels done for a tenant, of the tenants with requests lately",
    MetricType::Counter, "tenant"};

MetricFamily TenantFamily(const std::vector<TenantStatistics>& tenants) {
  MetricFamily family = kTenantKernels.Family();
  for (const TenantStatistics& tenant : tenants) {
    family.metric.emplace_back();
    family.metric.back().counter.value = static_cast<double>(tenant.kernels);
    family.metric.back().label = {{"tenant", tenant.name}};
  }
  return family;
}

struct SpanRow {
  MetricInfo info;
  std::uint64_t SpanExporter::Counts::*count;
};

constexpr SpanRow kSpanRows[] = {
    {{"lagoon_traced_requests_sent_total", "Requests with spans that the collector has taken",
      MetricType::Counter, ""},
     &SpanExporter::Counts::sent},
    {{"lagoon_traced_requests_dropped_total",
      "Requests without spans because the collector was too slow, refused them or was not there",
      MetricType::Counter, ""},
     &SpanExporter::Counts::dropped},
};

struct RefusalReason {
  const char* name;
  std::uint64_t M::*count;
};

constexpr RefusalReason kReasons[] = {
    {"REJECTED", &M::rejected},
    {"CANCELED", &M::cancelled},
    {"BACKEND", &M::backend},
    {"OTHER", &M::other},
};

ClientMetric Value(MetricType type, double value) {
  ClientMetric metric;
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
  return metric;
}

ClientMetric OfModel(const M& model, MetricType type, double value) {
  ClientMetric metric = Value(type, value);
  metric.label = {{"model", model.name}, {"version", model.version}};
  return metric;
}

MetricFamily FamilyOf(const Row& row, const std::vector<M>& models) {
  MetricFamily family{row.name, row.help, row.type, {}};
  for (const M& model : models) {
    family.metric.push_back(OfModel(model, row.type, row.value(model)));
  }
  return family;
}

ClientMetric::Histogram ValueOf(const StageHistogram& histogram) {
  ClientMetric::Histogram value;
  value.bucket.reserve(kHistogramBoundsUs.size());
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kHistogramBoundsUs.size(); ++i) {
    below += histogram.counts[i];
    value.bucket.push_back({below, static_cast<double>(kHistogramBoundsUs[i])});
  }
  value.sample_count = below + histogram.counts.back();  // the serialiser writes it as le="+Inf"
  value.sample_sum = static_cast<double>(histogram.ns) / 1000;
  return value;
}

/// The class of the model, and another one if requests have had it: most models have one class, and
/// a histogram is 20 lines.
MetricFamily FamilyOf(const HistogramRow& row, const std::vector<M>& models) {
  MetricFamily family = row.info.Family();
  for (const M& model : models) {
    for (const JobClass job_class : {JobClass::kRealTime, JobClass::kBestEffort}) {
      const StageHistograms& stages = model.histograms[static_cast<std::size_t>(job_class)];
      if (job_class != model.job_class && stages.queue.count() == 0) continue;
      ClientMetric metric = OfModel(model, MetricType::Histogram, 0);
      metric.label.push_back({"class", std::string(Name(job_class))});
      metric.histogram = ValueOf(stages.*row.stage);
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

MetricFamily FailureFamily(const std::vector<M>& models) {
  MetricFamily family = kFailure.Family();
  for (const M& model : models) {
    for (const RefusalReason& reason : kReasons) {
      auto metric = OfModel(model, MetricType::Counter, static_cast<double>(model.*reason.count));
      metric.label.push_back({"reason", reason.name});
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

MetricFamily NotServedFamily(const std::vector<ModelStatus>& models) {
  MetricFamily family = kNotServed.Family();
  for (const ModelStatus& model : models) {
    if (model.state == ModelState::kReady) continue;
    ClientMetric metric = Value(MetricType::Gauge, 1);
    metric.label = {{"model", model.name},
                    {"version", model.version},
                    {"reason", model.reason == kNotLoaded ? "unloaded" : "refused"}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

std::vector<MetricInfo> MetricInfos() {
  std::vector<MetricInfo> infos;
  for (const Row& row : kRows) infos.push_back({row.name, row.help, row.type, "model, version"});
  for (const HistogramRow& row : kHistogramRows) infos.push_back(row.info);
  infos.insert(infos.end(), {kFailure, kNotServed});
  for (const SchedulerRow& row : kSchedulerRows) {
    infos.push_back({row.name, row.help, MetricType::Counter, ""});
  }
  infos.push_back(kOffCore);
  infos.push_back(kTenantKernels);
  for (const SpanRow& row : kSpanRows) infos.push_back(row.info);
  std::ranges::move(FleetMetricInfos(), std::back_inserter(infos));
  return infos;
}

std::vector<MetricFamily> CoreMetrics::Collect() const {
  std::vector<MetricFamily> families;
  const auto models = core_.Statistics("", "");
  if (models) {
    for (const Row& row : kRows) families.push_back(FamilyOf(row, *models));
    for (const HistogramRow& row : kHistogramRows) families.push_back(FamilyOf(row, *models));
    families.push_back(FailureFamily(*models));
  } else {
    spdlog::error("metrics: the models' statistics are missing: {}", models.error().message);
  }
  families.push_back(NotServedFamily(core_.Models()));
  const DispatcherStats scheduler = SchedulerStatisticsOf(core_);
  for (const SchedulerRow& row : kSchedulerRows) {
    const auto count = static_cast<double>(scheduler.*row.count);
    families.push_back(
        {row.name, row.help, MetricType::Counter, {Value(MetricType::Counter, count)}});
  }
  families.push_back(kOffCore.Family());
  families.back().metric = {Value(kOffCore.type, ToMicroseconds(scheduler.off_core))};
  const SchedulerControl* const schedulers = core_.schedulers();
  families.push_back(TenantFamily(schedulers == nullptr ? std::vector<TenantStatistics>()
                                                        : schedulers->Tenants()));
  const SpanExporter::Counts spans = spans_ == nullptr ? SpanExporter::Counts() : spans_->counts();
  for (const SpanRow& row : kSpanRows) {
    families.push_back(row.info.Family());
    families.back().metric = {Value(row.info.type, static_cast<double>(spans.*row.count))};
  }
  if (const FleetControl* const fleet = core_.fleet(); fleet != nullptr) {
    std::ranges::move(FleetMetrics(fleet->ReadFleet()), std::back_inserter(families));
  }
  return families;
}

std::size_t MetricsHandler::MaxBodyBytes(boost::beast::http::verb /*method*/,
                                         std::string_view target) const {
  return handlers_.MaxBodyBytes(ParseRoute(target).kind);
}

void MetricsHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  const Route route = ParseRoute(path);
  const Endpoint* endpoint = FindEndpoint(route.kind);
  if (endpoint == nullptr || !endpoint->ServedOn(Endpoint::Ports::kOperators)) {
    return reply->Send(HttpResponse::Failure(
        404, fmt::format("nothing is served at {}, metrics are at /metrics", Quoted(path))));
  }
  if (!HasMethod(*endpoint, request, *reply)) return;
  if (handlers_.Handle(route, request, reply)) return;
  HttpResponse response =
      HttpResponse::Json(prometheus::TextSerializer().Serialize(metrics_.Collect()));
  response.content_type = kTextType;
  reply->Send(std::move(response));
}

}  // namespace lagoon

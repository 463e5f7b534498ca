#include <algorithm>
#include <cstring>

#include "base/hex.h"
#include "base/json.h"
#include "server/telemetry/span_exporter.h"

namespace lagoon {
namespace {

using SpanJson = nlohmann::ordered_json;

constexpr std::size_t kMostTextBytes = 200;        // of a client's id, and of an error
constexpr int kServerSpan = 2, kInternalSpan = 1;  // SpanKind
constexpr int kErrorStatus = 2;                    // StatusCode

SpanJson KeyValue(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value.substr(0, kMostTextBytes)}}}};
}
SpanJson KeyValue(std::string_view key, bool value) {
  return {{"key", key}, {"value", {{"boolValue", value}}}};
}
/// OTLP writes 64-bit numbers as strings.
SpanJson KeyValue(std::string_view key, std::int64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}
std::int64_t Microseconds(Nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/// Times of the steady clock as those of the wall clock.
class WallTimes {
 public:
  WallTimes()
      : offset_(std::chrono::system_clock::now().time_since_epoch() - Now().time_since_epoch()) {}

  std::string Of(TimePoint time) const {
    return std::to_string((time.time_since_epoch() + offset_).count());
  }

 private:
  const Nanoseconds offset_;
};

struct StageSpan {
  const char* name;
  TimePoint begin, end;
};

/// The ids of a request's spans follow from its own.
std::array<std::uint8_t, 8> ChildOf(std::array<std::uint8_t, 8> span, std::uint8_t number) {
  // Another last byte, and never 0 as a whole: the first byte is set (TracedCore).
  span.back() = static_cast<std::uint8_t>(span.back() + number);
  return span;
}

void AddStages(const TracedRequest& request, const WallTimes& wall, SpanJson& spans) {
  const RequestEnd& end = request.end;
  if (end.admitted == TimePoint{}) return;
  const JobResult& job = end.job;
  const TimePoint copied = std::min(job.inputs_copied, job.computed);
  const StageSpan stages[] = {{"read", request.arrival, end.received},
                              {"parse", end.received, end.admitted},
                              {"wait", end.admitted, job.posted},
                              {"queue", job.posted, job.started},
                              {"compute_input", job.started, copied},
                              {"compute_infer", copied, job.computed},
                              {"compute_output", job.computed, job.finished}};
  std::uint8_t number = 0;
  for (const StageSpan& stage : stages) {
    ++number;
    if (stage.end <= stage.begin) continue;
    SpanJson span = {{"traceId", HexOf(request.context.trace)},
                     {"spanId", HexOf(ChildOf(request.span, number))},
                     {"parentSpanId", HexOf(request.span)},
                     {"name", stage.name},
                     {"kind", kInternalSpan},
                     {"startTimeUnixNano", wall.Of(stage.begin)},
                     {"endTimeUnixNano", wall.Of(stage.end)}};
    if (std::strcmp(stage.name, "wait") == 0) {
      span["attributes"] = {KeyValue("lagoon.plan_us", Microseconds(end.waits.plan)),
                            KeyValue("lagoon.batch_us", Microseconds(end.waits.batch)),
                            KeyValue("lagoon.sequence_us", Microseconds(end.waits.sequence))};
    }
    spans.push_back(std::move(span));
  }
}

SpanJson RequestSpan(const TracedRequest& request, const WallTimes& wall) {
  const RequestEnd& end = request.end;
  SpanJson attributes = {KeyValue("lagoon.model", request.model),
                         KeyValue("lagoon.version", request.version),
                         KeyValue("lagoon.request_id", request.id)};
  if (end.admitted != TimePoint{}) {
    attributes.push_back(KeyValue("lagoon.class", Name(end.job_class)));
    attributes.push_back(KeyValue("lagoon.outcome", Name(end.job.outcome)));
    attributes.push_back(KeyValue("lagoon.late", end.late));
    attributes.push_back(KeyValue("lagoon.revocations", std::int64_t{end.job.revocations}));
    if (end.deadline != kNoDeadline) {
      attributes.push_back(
          KeyValue("lagoon.deadline_us", Microseconds(end.deadline - request.arrival)));
    }
  }
  SpanJson span = {{"traceId", HexOf(request.context.trace)},
                   {"spanId", HexOf(request.span)},
                   {"name", "InferRequest"},
                   {"kind", kServerSpan},
                   {"startTimeUnixNano", wall.Of(request.arrival)},
                   {"endTimeUnixNano", wall.Of(request.ended)},
                   {"attributes", std::move(attributes)}};
  if (request.context.parent != std::array<std::uint8_t, 8>{}) {
    span["parentSpanId"] = HexOf(request.context.parent);
  }
  if (!request.error.empty()) {
    span["status"] = {{"code", kErrorStatus}, {"message", request.error.substr(0, kMostTextBytes)}};
  }
  return span;
}

}  // namespace

std::string SpansJson(const std::vector<TracedRequest>& requests,
                      const std::vector<std::pair<std::string, std::string>>& resource) {
  const WallTimes wall;
  SpanJson spans = SpanJson::array();
  for (const TracedRequest& request : requests) {
    spans.push_back(RequestSpan(request, wall));
    AddStages(request, wall, spans);
  }
  SpanJson attributes = SpanJson::array();
  const auto named = [](const auto& pair) { return pair.first == "service.name"; };
  if (std::ranges::none_of(resource, named)) {
    attributes.push_back(KeyValue("service.name", std::string_view("lagoon")));
  }
  for (const auto& [key, value] : resource) {
    attributes.push_back(KeyValue(key, std::string_view(value)));
  }
  const SpanJson scope = {{"scope", {{"name", "lagoon"}}}, {"spans", std::move(spans)}};
  const SpanJson json = {
      {"resourceSpans", SpanJson::array({{{"resource", {{"attributes", std::move(attributes)}}},
                                          {"scopeSpans", SpanJson::array({scope})}}})}};
  return DumpJson(json);
}

}  // namespace lagoon

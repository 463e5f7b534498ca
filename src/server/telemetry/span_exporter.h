#pragma once

// Spans of requests, sent to a collector of OpenTelemetry.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/seldom.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/core/request.h"

namespace lagoon {

/// Where OTLP over HTTP goes.
struct CollectorUrl {
  std::string host;  // a name or an address
  std::uint16_t port = 4318;
  std::string path = "/v1/traces";
};
/// "[http://]HOST[:PORT][/PATH]"; an address of IPv6 in brackets. kInvalidArgument: another text,
/// or https, which Lagoon does not speak.
Result<CollectorUrl> ParseCollectorUrl(std::string_view text);

/// A request that has ended, for its spans.
struct TracedRequest {
  TraceContext context;  // of the client; its `trace` is the trace of the spans
  std::array<std::uint8_t, 8> span{};
  std::string model, version, id;
  TimePoint arrival, ended;
  RequestEnd end;     // `admitted` is TimePoint{}: another server answered, and there are no stages
  std::string error;  // empty: none
};

/// Sends spans as OTLP over HTTP in JSON, on a thread of its own. A collector that is slow, hangs
/// or is not there delays no request: spans that do not fit into the queue, or that the collector
/// does not take, are dropped and counted, and the log says so once a minute at most.
class SpanExporter {
 public:
  struct Options {
    CollectorUrl url;
    std::vector<std::pair<std::string, std::string>> resource;  // attributes beside service.name
    std::size_t most_waiting = 2048;                            // requests
    std::size_t most_at_once = 256;                             // requests in a message
    std::chrono::milliseconds pause{500};     // the first request of a message waits so long
    std::chrono::milliseconds timeout{3000};  // of a message, from the name's look-up to the answer
  };
  struct Counts {
    std::uint64_t sent = 0, dropped = 0;  // requests
  };

  explicit SpanExporter(Options options);
  /// Sends what waits, for a second at most; a look-up of the collector's name may take longer.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  /// Any thread; never waits for the collector.
  void Add(TracedRequest request);
  /// Any thread.
  Counts counts() const { return {sent_.load(), dropped_.load()}; }

 private:
  void Run(const std::stop_token& stop);
  /// Returns false if the collector did not take them.
  bool Send(const std::vector<TracedRequest>& requests, std::chrono::milliseconds timeout);
  void Complain(const std::string& why);

  const Options options_;
  std::atomic<std::uint64_t> sent_{0}, dropped_{0};
  Seldom complaint_{std::chrono::minutes(1)};  // of the thread
  Mutex mutex_;
  CondVar wake_;
  std::vector<TracedRequest> waiting_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

/// The body of a message (ExportTraceServiceRequest). A request is a span, and each stage that took
/// time is a span below.
std::string SpansJson(const std::vector<TracedRequest>& requests,
                      const std::vector<std::pair<std::string, std::string>>& resource);

}  // namespace lagoon

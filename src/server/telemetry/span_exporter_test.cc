#include "server/telemetry/span_exporter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;
using boost::asio::ip::tcp;

TEST(CollectorUrl, HasDefaults) {
  const auto parts = [](std::string_view text) {
    const auto url = ParseCollectorUrl(text);
    return url ? fmt::format("{} {} {}", url->host, url->port, url->path) : url.error().message;
  };
  EXPECT_EQ(parts("localhost"), "localhost 4318 /v1/traces");
  EXPECT_EQ(parts("http://10.0.0.1:80/"), "10.0.0.1 80 /v1/traces");
  EXPECT_EQ(parts("collector:1234/a/b"), "collector 1234 /a/b");
  EXPECT_EQ(parts("[::1]:4319/v1/traces"), "::1 4319 /v1/traces");
  for (const char* const bad :
       {"", "http://", "https://a", ":80", "a:", "a:b", "a:0", "a:65536", "[::1", "[::1]4318x",
        "a b", "a/\r\nHost: b", "a:1:2", "a:04318", "user@a", "[a]"}) {
    const auto url = ParseCollectorUrl(bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(url.error().message, HasSubstr("is no URL of a collector"));
  }
}

TimePoint AtMs(int ms) { return TimePoint(std::chrono::hours(5) + std::chrono::milliseconds(ms)); }

TracedRequest TracedCamera() {
  TracedRequest request;
  request.context.trace.fill(0xab);
  request.context.parent.fill(0xcd);
  request.span.fill(0x80);
  request.model = "camera";
  request.version = "1";
  request.id = "seven";
  request.arrival = AtMs(0);
  request.ended = AtMs(17);
  request.end.job_class = JobClass::kRealTime;
  request.end.received = AtMs(1);
  request.end.admitted = AtMs(1);
  request.end.deadline = AtMs(10);
  request.end.late = true;
  request.end.waits.plan = 3ms;
  JobResult& job = request.end.job;
  job.outcome = Outcome::kDone;
  job.posted = AtMs(4);
  job.started = AtMs(9);
  job.inputs_copied = AtMs(10);
  job.computed = AtMs(15);
  job.finished = AtMs(16);
  job.revocations = 2;
  return request;
}

Json SpansOf(const TracedRequest& request) {
  const Json json = Json::parse(SpansJson({request}, {}));
  EXPECT_EQ(json["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"],
            "lagoon");
  return json["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

std::map<std::string, Json> AttributesOf(const Json& span) {
  std::map<std::string, Json> attributes;
  for (const Json& one : span["attributes"]) {
    attributes[one["key"]] = one["value"].begin().value();
  }
  return attributes;
}

TEST(SpansJson, HasASpanPerRequestAndPerStageThatTookTime) {
  const Json spans = SpansOf(TracedCamera());
  std::vector<std::string> names;
  std::set<std::string> ids;
  for (const Json& span : spans) {
    names.push_back(span["name"]);
    ids.insert(span["spanId"].get<std::string>());
    EXPECT_EQ(span["traceId"],
              std::string(32, 'a').replace(0, 32, "abababababababababababababababab"));
    EXPECT_THAT(span["spanId"].get<std::string>(), SizeIs(16));
    EXPECT_LT(std::stoull(span["startTimeUnixNano"].get<std::string>()),
              std::stoull(span["endTimeUnixNano"].get<std::string>()));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"InferRequest", "read", "wait", "queue",
                                             "compute_input", "compute_infer", "compute_output"}))
      << "no time went into parsing";
  EXPECT_THAT(ids, SizeIs(7));
  EXPECT_EQ(spans[0]["parentSpanId"], "cdcdcdcdcdcdcdcd");
  EXPECT_EQ(spans[1]["parentSpanId"], spans[0]["spanId"]);
  const auto attributes = AttributesOf(spans[0]);
  EXPECT_EQ(attributes.at("lagoon.model"), "camera");
  EXPECT_EQ(attributes.at("lagoon.class"), "real-time");
  EXPECT_EQ(attributes.at("lagoon.request_id"), "seven");
  EXPECT_EQ(attributes.at("lagoon.late"), true);
  EXPECT_EQ(attributes.at("lagoon.deadline_us"), "10000");
  EXPECT_EQ(attributes.at("lagoon.revocations"), "2");
  EXPECT_EQ(AttributesOf(spans[2]).at("lagoon.plan_us"), "3000");
  EXPECT_FALSE(spans[0].contains("status"));
}

TEST(SpansJson, AnErrorAndTextsOfClientsAreBounded) {
  TracedRequest request = TracedCamera();
  request.id = "\xff\n" + std::string(1 << 20, 'x');
  request.error = std::string(1 << 20, 'y');
  request.context.parent = {};
  request.end = {};  // another server answered
  const std::string text = SpansJson({request}, {{"service.name", "front"}});
  EXPECT_LT(text.size(), 2000u);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "front");
  const Json spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_THAT(spans, SizeIs(1));
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
}

/// A collector that reads a message and answers with `answer`; what it does not get, it awaits.
class Collector {
 public:
  explicit Collector(std::string answer, bool reads = true)
      : acceptor_(context_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        thread_([this, answer = std::move(answer), reads](const std::stop_token& stop) {
          while (!stop.stop_requested()) Serve(answer, reads);
        }) {}
  ~Collector() {
    thread_.request_stop();
    tcp::socket wake(context_);
    boost::system::error_code error;
    wake.connect(acceptor_.local_endpoint(), error);
  }
  CollectorUrl url() const {
    return {"127.0.0.1", acceptor_.local_endpoint().port(), "/v1/traces"};
  }
  std::vector<std::string> bodies() {
    const MutexLock lock(mutex_);
    return bodies_;
  }

 private:
  void Serve(const std::string& answer, bool reads) {
    boost::system::error_code error;
    tcp::socket socket(context_);
    acceptor_.accept(socket, error);
    if (!reads) return kept_.push_back(std::move(socket));
    std::string text;
    const std::size_t head =
        boost::asio::read_until(socket, boost::asio::dynamic_buffer(text), "\r\n\r\n", error);
    if (error) return;
    const std::size_t at = text.find("Content-Length: ");
    const std::size_t length = std::stoul(text.substr(at + 16));
    if (text.size() < head + length) {
      boost::asio::read(socket, boost::asio::dynamic_buffer(text),
                        boost::asio::transfer_exactly(head + length - text.size()), error);
    }
    {
      const MutexLock lock(mutex_);
      bodies_.push_back(text.substr(head));
    }
    boost::asio::write(socket, boost::asio::buffer(answer), error);
  }

  boost::asio::io_context context_;
  tcp::acceptor acceptor_;
  Mutex mutex_;
  std::vector<std::string> bodies_ GUARDED_BY(mutex_);
  std::vector<tcp::socket> kept_;  // of the thread
  std::jthread thread_;
};

constexpr const char* kTaken = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

SpanExporter::Options OptionsFor(const CollectorUrl& url) {
  SpanExporter::Options options;
  options.url = url;
  options.pause = 1ms;
  return options;
}

void AwaitCounts(const SpanExporter& exporter, std::uint64_t all) {
  const TimePoint until = Now() + 60s;
  while (exporter.counts().sent + exporter.counts().dropped < all && Now() < until) {
    std::this_thread::yield();
  }
}

TEST(SpanExporter, SendsWhatCameAndWhatWaitsAtTheEnd) {
  Collector collector(kTaken);
  {
    SpanExporter exporter(OptionsFor(collector.url()));
    exporter.Add(TracedCamera());
    AwaitCounts(exporter, 1);
    EXPECT_EQ(exporter.counts().sent, 1u);
    exporter.Add(TracedCamera());
    exporter.Add(TracedCamera());
  }
  std::size_t spans = 0;
  for (const std::string& body : collector.bodies()) {
    spans += Json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
  }
  EXPECT_EQ(spans, 3 * 7u);
}

TEST(SpanExporter, CountsWhatTheCollectorDoesNotTake) {
  for (const char* const answer :
       {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "no HTTP at all\r\n\r\n", "",
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"}) {
    Collector collector(answer);
    SpanExporter exporter(OptionsFor(collector.url()));
    exporter.Add(TracedCamera());
    AwaitCounts(exporter, 1);
    EXPECT_EQ(exporter.counts().dropped, 1u) << answer;
    EXPECT_EQ(exporter.counts().sent, 0u) << answer;
  }
}

TEST(SpanExporter, ACollectorThatHangsStopsNoRequestAndFillsNoMemory) {
  Collector collector("", /*reads=*/false);
  SpanExporter::Options options = OptionsFor(collector.url());
  options.timeout = 50ms;
  options.most_waiting = 10;
  options.most_at_once = 4;
  SpanExporter exporter(options);
  for (int i = 0; i < 1000; ++i) exporter.Add(TracedCamera());
  EXPECT_GE(exporter.counts().dropped, 900u) << "all but those in the queue and under way, at once";
  AwaitCounts(exporter, 1000);
  EXPECT_EQ(exporter.counts().dropped, 1000u);
}

TEST(SpanExporter, ACollectorThatIsNotThereHurtsNobody) {
  CollectorUrl url;
  {
    Collector gone(kTaken);
    url = gone.url();
  }
  SpanExporter exporter(OptionsFor(url));
  exporter.Add(TracedCamera());
  AwaitCounts(exporter, 1);
  EXPECT_EQ(exporter.counts().dropped, 1u);
  exporter.Add(TracedCamera());  // the end does not wait for the pause after a failure
}

}  // namespace
}  // namespace lagoon

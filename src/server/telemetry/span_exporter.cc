#include "server/telemetry/span_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "base/guard.h"
#include "base/log.h"
#include "base/net/host_port.h"
#include "base/text.h"
#include "base/thread.h"

namespace lagoon {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using net::ip::tcp;

constexpr std::chrono::milliseconds kLastTimeout{1000};
constexpr std::chrono::milliseconds kRetryPause{1000};
/// Most bytes of an answer, of which Lagoon needs only the status.
constexpr std::uint64_t kMostReplyBytes = 64 << 10;

/// One POST. The object lives until its io_context has nothing to do.
class Post {
 public:
  Post(net::io_context& context, const CollectorUrl& url, std::string body)
      : url_(url), resolver_(context), stream_(context), timer_(context) {
    request_.method(http::verb::post);
    request_.target(url.path);
    request_.version(11);
    request_.set(http::field::host, ToString(HostPort{url.host, url.port}));
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    request_.body() = std::move(body);
    request_.prepare_payload();
    parser_.body_limit(kMostReplyBytes);
  }

  /// One limit for all steps, so that a collector that sends a byte now and then does not hold on.
  void Start(std::chrono::milliseconds timeout) {
    timer_.expires_after(timeout);
    timer_.async_wait([this](beast::error_code error) {
      if (!error) Fail("no answer in time");
    });
    resolver_.async_resolve(
        url_.host, std::to_string(url_.port),
        [this](beast::error_code error, const tcp::resolver::results_type& found) {
          if (Failed(error)) return;
          Connect(found);
        });
  }
  /// Empty: the collector took the spans.
  const std::string& why_not() const { return why_not_; }

 private:
  void Connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(found, [this](beast::error_code error, const tcp::endpoint&) {
      if (Failed(error)) return;
      http::async_write(stream_, request_, [this](beast::error_code failed, std::size_t) {
        if (Failed(failed)) return;
        http::async_read(stream_, buffer_, parser_, [this](beast::error_code unread, std::size_t) {
          if (Failed(unread)) return;
          const unsigned status = parser_.get().result_int();
          Finish(status / 100 == 2 ? "" : fmt::format("it answered with status {}", status));
        });
      });
    });
  }
  bool Failed(beast::error_code error) {
    if (error) Fail(error.message());
    return static_cast<bool>(error);
  }
  void Fail(const std::string& why) { Finish(why); }
  /// The first end counts.
  void Finish(std::string why) {
    if (std::exchange(ended_, true)) return;
    why_not_ = std::move(why);
    timer_.cancel();
    resolver_.cancel();
    stream_.close();
  }

  const CollectorUrl& url_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  net::steady_timer timer_;
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_{kMostReplyBytes + (16 << 10)};
  http::response_parser<http::string_body> parser_;
  std::string why_not_ = "unfinished";
  bool ended_ = false;
};

tl::unexpected<Error> BadUrl(std::string_view text, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is no URL of a collector, such as localhost:4318/v1/traces: {}",
                          Quoted(text), why));
}

}  // namespace

Result<CollectorUrl> ParseCollectorUrl(std::string_view text) {
  CollectorUrl url;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    return BadUrl(text, "Lagoon does not speak TLS; send to a collector on this machine");
  }
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const auto printable = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(rest, printable))
    return BadUrl(text, "it has blanks or other characters");
  const std::size_t slash = rest.find('/');
  if (slash != rest.npos && slash + 1 < rest.size()) url.path = rest.substr(slash);
  auto address = ParseHostPort(rest.substr(0, slash), url.port);
  if (!address) return BadUrl(text, address.error().message);
  url.host = std::move(address->host);
  url.port = address->port;
  return url;
}

SpanExporter::SpanExporter(Options options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

SpanExporter::~SpanExporter() {
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    wake_.NotifyAll();
  }
  thread_.join();
}

void SpanExporter::Add(TracedRequest request) {
  const MutexLock lock(mutex_);
  if (waiting_.size() >= options_.most_waiting) {
    dropped_.fetch_add(1);
    return;
  }
  waiting_.push_back(std::move(request));
  wake_.NotifyOne();
}

void SpanExporter::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-spans");
  std::vector<TracedRequest> batch;
  TimePoint not_before{};  // a collector that refuses at once must not keep this thread busy
  for (;;) {
    batch.clear();
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stop.stop_requested()) wake_.Wait(mutex_);
      if (waiting_.empty()) return;
      const TimePoint until = std::max(Now() + options_.pause, not_before);
      const auto waits = [&](TimePoint now) REQUIRES(mutex_) {
        return now < until && (now < not_before || waiting_.size() < options_.most_at_once);
      };
      while (!stop.stop_requested() && waits(Now())) wake_.WaitUntil(mutex_, until);
      const auto taken = static_cast<std::ptrdiff_t>(
          stop.stop_requested() ? waiting_.size()
                                : std::min(waiting_.size(), options_.most_at_once));
      batch.assign(std::move_iterator(waiting_.begin()),
                   std::move_iterator(waiting_.begin() + taken));
      waiting_.erase(waiting_.begin(), waiting_.begin() + taken);
    }
    const bool sent = Send(
        batch, stop.stop_requested() ? std::min(kLastTimeout, options_.timeout) : options_.timeout);
    if (!sent) not_before = Now() + kRetryPause;
  }
}

bool SpanExporter::Send(const std::vector<TracedRequest>& requests,
                        std::chrono::milliseconds timeout) {
  Result<std::string> why_not = WithoutExceptions([&]() -> Result<std::string> {
    net::io_context context(1);
    Post post(context, options_.url, SpansJson(requests, options_.resource));
    post.Start(timeout);
    context.run();
    return post.why_not();
  });
  if (!why_not) why_not = why_not.error().message;
  if (why_not->empty()) {
    sent_.fetch_add(requests.size());
    return true;
  }
  dropped_.fetch_add(requests.size());
  Complain(*why_not);
  return false;
}

void SpanExporter::Complain(const std::string& why) {
  if (!complaint_.Due(Now())) return;
  spdlog::warn("the collector at {}:{}{} does not take spans: {}; {} requests have none so far",
               options_.url.host, options_.url.port, options_.url.path, why, dropped_.load());
}

}  // namespace lagoon

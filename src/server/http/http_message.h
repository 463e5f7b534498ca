#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/verb.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/unfilled.h"
#include "server/io_pool.h"

namespace lagoon {

class MemoryCharge;

/// Bounds of one listener. docs/guide/clients.md says for each what happens beyond: an answer or a
/// close.
struct HttpLimits {
  std::size_t max_header_bytes = 16 * 1024;
  std::size_t max_body_bytes = std::size_t{256} << 20;
  std::size_t max_connections = 1024;
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // first byte to end of header
  // A body or answer may take `transfer_timeout` plus the time in which the bytes moved so far pass
  // at `min_bytes_per_second`.
  std::chrono::milliseconds transfer_timeout{20'000};
  std::size_t min_bytes_per_second = std::size_t{1} << 20;
};

/// One complete request. Views are valid during HttpHandler::Handle; `payload` keeps `body` alive
/// for longer.
struct HttpRequest {
  boost::beast::http::verb method;
  std::string_view target;  // as sent, with its query
  const boost::beast::http::fields& fields;
  std::span<const std::byte> body;
  std::shared_ptr<const void> payload;
  TimePoint first_byte;  // the first byte of the header arrived
  TimePoint received;    // the last byte of the body arrived

  std::optional<std::string_view> Field(std::string_view name) const;
};

/// How many bytes of a body are JSON; binary tensors follow.
inline constexpr std::string_view kJsonLengthField = "Inference-Header-Content-Length";
/// A server in front asks with this field that the server, while it works on the request, says so
/// once in kBeatPeriod: "102 Processing", without a field.
inline constexpr std::string_view kBeatField = "Lagoon-Beat";
inline constexpr std::chrono::seconds kBeatPeriod{1};
/// The id of the server (server_id.h), in the answer to GET /v2.
inline constexpr std::string_view kServerField = "Lagoon-Server";

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kBinaryType = "application/octet-stream";

/// The body is `text` followed by `blobs`.
struct HttpResponse {
  unsigned status = 200;
  std::string_view content_type = kJsonType;  // in static storage
  std::string fields;  // more header lines, each with its CRLF; never a client's text
  std::string text;
  std::vector<UnfilledBytes> blobs;
  /// The connection's charge (HttpReply::NewCharge) for memory that the answer took while it was
  /// computed. Null: the connection charges the answer when it begins to write.
  std::shared_ptr<MemoryCharge> charge = {};
  /// It may be sent when no other thread wants the core (LowLane).
  bool gives_way = false;

  static HttpResponse Json(std::string body);
  static HttpResponse Failure(unsigned status, std::string_view message);
  static HttpResponse Failure(const Error& error);
  /// Status 405; `allowed` as in "GET, POST".
  static HttpResponse WrongMethod(std::string_view target, std::string_view allowed);

  std::size_t BodyBytes() const;
  /// The memory that the answer takes, at least BodyBytes().
  std::size_t MemoryBytes() const;
};

/// Status line and header, up to the empty line. `keep_alive` false announces that the connection
/// closes.
std::string RenderHead(const HttpResponse& response, bool keep_alive);
/// The same for an answer in parts: in chunks, or up to the end of the connection.
std::string RenderStreamHead(bool chunked, bool keep_alive);

/// A piece of an answer whose length is not known when it begins.
struct HttpPart {
  std::string text;
  bool last = false;
  /// Called once, on any thread: the part was written, or never will be. May be empty.
  std::function<void()> written = {};
};

/// Takes the handler's answer to one request.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  /// Call it exactly once per request, on any thread. After SendPart() it cuts the stream off.
  virtual void Send(HttpResponse response) = 0;
  /// Instead of Send(): a part of a text/event-stream. The first part begins the answer, the one
  /// that is `last` ends it. The caller bounds how many parts are not written. Any thread.
  virtual void SendPart(HttpPart part) = 0;
  /// `cancel` is called on executor() if the client goes away before Send(), or before the last
  /// part was written. A second call replaces the first. Only on executor(), before either.
  virtual void OnClientGone(std::function<void()> cancel) = 0;
  /// A charge for the memory of the answer, in HttpResponse::charge. Any thread. Null: the memory
  /// is not counted.
  virtual std::shared_ptr<MemoryCharge> NewCharge() { return nullptr; }
  /// The strand of the connection. Render answers here, not on a thread of the device.
  virtual const Strand& executor() const = 0;
};

/// Answers a request whose handling has thrown. Waits for memory.
void AnswerThrown(HttpReply& reply, const std::exception& thrown);

/// Does `work`, and answers exceptions of a library (memory ran out): else the connection would
/// wait for ever. Takes no memory itself.
template <typename Work>
void AnswerErrors(const std::shared_ptr<HttpReply>& reply, const Work& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    AnswerThrown(*reply, thrown);
  }
}

/// AnswerErrors() on the strand of the connection. Any thread, which holds no reference to the
/// connection afterwards.
template <typename Work>
void PostAnswering(std::shared_ptr<HttpReply> reply, Work work) {
  AnswerErrors(reply, [&] {
    PostSurely(reply->executor(),
               [reply, work = std::move(work)]() mutable { AnswerErrors(reply, [&] { work(); }); });
  });
}

/// Handles requests. Called on threads of the pool, for several connections at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// The most bytes that the body of such a request may have, within the listener's own limit.
  /// Called when the header has arrived: a larger body is refused before it is read.
  virtual std::size_t MaxBodyBytes(boost::beast::http::verb /*method*/,
                                   std::string_view /*target*/) const {
    return std::numeric_limits<std::size_t>::max();
  }
  /// Whether such a request would change the server.
  virtual bool Changes(boost::beast::http::verb method, std::string_view /*target*/) const {
    return method != boost::beast::http::verb::get && method != boost::beast::http::verb::head;
  }
  virtual void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) = 0;
};

}  // namespace lagoon

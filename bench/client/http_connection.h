#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/time.h"

namespace lagoon::bench {

struct HttpAnswer {
  int status = 0;
  std::size_t json_bytes = 0;  // of the body; binary tensors follow
  bool closes = false;         // the server closes the connection
  std::string body;
};

/// HTTP/1.1 over one socket to 127.0.0.1, with time limits. Keeps bytes that come after an answer,
/// so that an answer without a request is seen. Not thread-safe.
class HttpConnection {
 public:
  /// kUnavailable: no server listens on the port.
  static Result<HttpConnection> Connect(int port);
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), rest_(std::move(other.rest_)) {}
  HttpConnection& operator=(HttpConnection&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(rest_, other.rest_);
    return *this;
  }

  /// kUnavailable: the connection is closed.
  Status Send(std::string_view bytes);
  /// The next answer. kDeadlineExceeded: there is none within `limit`; kUnavailable: the connection
  /// was closed before its end; kInternal: this is no HTTP.
  Result<HttpAnswer> Receive(Nanoseconds limit);
  /// Whether bytes have come that belong to no answer that was asked for.
  bool HasMore();

 private:
  explicit HttpConnection(int socket) : socket_(socket) {}
  Status Read(TimePoint until);

  int socket_ = -1;
  std::string rest_;
};

/// A POST with `body`. If binary tensors follow the JSON of an inference, that has `json_bytes`.
std::string HttpPost(std::string_view path, std::string_view body, std::size_t json_bytes);

}  // namespace lagoon::bench

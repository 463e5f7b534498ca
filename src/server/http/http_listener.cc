#include "server/http/http_listener.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <utility>

namespace lagoon {

HttpListener::HttpListener(IoPool& pool, HttpHandler& handler, EdgeMemory memory, Options options)
    : EdgeListener(pool, options.port),
      handler_(handler),
      memory_(std::move(memory)),
      inflates_(std::make_shared<InflateQueue>(pool)),
      options_(std::move(options)) {}

Result<std::shared_ptr<HttpListener>> HttpListener::Listen(IoPool& pool, HttpHandler& handler,
                                                           EdgeMemory memory, Options options) {
  std::shared_ptr<HttpListener> listener(
      new HttpListener(pool, handler, std::move(memory), std::move(options)));
  LAGOON_RETURN_IF_ERROR(listener->Bind());
  return listener;
}

std::optional<std::string> HttpListener::Full(const Socket& /*socket*/, std::size_t alive) {
  const std::size_t most = options_.limits.max_connections;
  if (alive < most) return std::nullopt;
  return fmt::format("{} connections are open, the limit", most);
}

void HttpListener::TurnAway(Socket& socket, const std::string& reason) {
  // The answer fits into any socket's buffer, so that writing cannot block. Best effort: the close
  // may reset the connection before the client has read the answer.
  const HttpResponse full = HttpResponse::Failure(503, reason);
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(boost::asio::buffer(RenderHead(full, false) + full.text), ignored);
}

std::shared_ptr<EdgeConnection> HttpListener::Connect(Socket socket) {
  return std::make_shared<HttpConnection>(
      std::move(socket), HttpConnection::Context{handler_, options_.limits, options_.hosts, memory_,
                                                 *inflates_, shared_from_this(), options_.low});
}

}  // namespace lagoon

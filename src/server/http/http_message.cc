#include "server/http/http_message.h"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>
#include <exception>
#include <iterator>

#include "base/guard.h"
#include "base/log.h"
#include "base/text.h"
#include "server/error_map.h"

namespace lagoon {
namespace {

namespace http = boost::beast::http;

std::string_view Reason(unsigned status) {
  if (status == 499) return "Client Closed Request";
  const auto reason = http::obsolete_reason(http::int_to_status(status));
  return {reason.data(), reason.size()};
}

}  // namespace

std::optional<std::string_view> HttpRequest::Field(std::string_view name) const {
  const auto found = fields.find(boost::beast::string_view(name.data(), name.size()));
  if (found == fields.end()) return std::nullopt;
  return std::string_view(found->value().data(), found->value().size());
}

HttpResponse HttpResponse::Json(std::string body) {
  HttpResponse response;
  response.text = std::move(body);
  return response;
}

HttpResponse HttpResponse::Failure(unsigned status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.text = ErrorBody(message);
  return response;
}

HttpResponse HttpResponse::Failure(const Error& error) {
  return Failure(HttpStatus(error.code), error.message);
}

HttpResponse HttpResponse::WrongMethod(std::string_view target, std::string_view allowed) {
  HttpResponse response =
      Failure(405, fmt::format("{} takes {}", Shown(target.substr(0, target.find('?'))), allowed));
  response.fields = fmt::format("Allow: {}\r\n", allowed);
  return response;
}

std::size_t HttpResponse::BodyBytes() const {
  std::size_t bytes = text.size();
  for (const auto& blob : blobs) bytes += blob.size();
  return bytes;
}

std::size_t HttpResponse::MemoryBytes() const {
  std::size_t bytes = text.capacity();
  for (const auto& blob : blobs) bytes += blob.capacity();
  return bytes;
}

std::string RenderHead(const HttpResponse& response, bool keep_alive) {
  std::string head;
  head.reserve(192 + response.fields.size());
  fmt::format_to(
      std::back_inserter(head),
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: {}\r\n\r\n",
      response.status, Reason(response.status), response.content_type, response.BodyBytes(),
      response.fields, keep_alive ? "keep-alive" : "close");
  return head;
}

std::string RenderStreamHead(bool chunked, bool keep_alive) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: "
      "no-cache\r\n{}Connection: {}\r\n\r\n",
      chunked ? "Transfer-Encoding: chunked\r\n" : "", keep_alive ? "keep-alive" : "close");
}

void AnswerThrown(HttpReply& reply, const std::exception& thrown) {
  spdlog::error("server: handling a request failed: {}", thrown.what());
  UntilMemorySuffices(
      [&] { reply.Send(HttpResponse::Failure(500, "the server could not handle the request")); });
}

}  // namespace lagoon

#include "server/http/http_request_rules.h"

#include <fmt/format.h>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <iterator>

namespace lagoon {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr int kHttp11 = 11;  // as Beast numbers versions

// HTTP implementations differ in which one of two such fields they use.
constexpr std::string_view kGivenOnce[] = {"Host", "Inference-Header-Content-Length",
                                           "Content-Encoding", "Expect"};

beast::string_view Of(std::string_view text) { return {text.data(), text.size()}; }
std::string_view Of(beast::string_view text) { return {text.data(), text.size()}; }

bool IsInflatable(std::string_view encoding) {
  return beast::iequals(Of(encoding), "gzip") || beast::iequals(Of(encoding), "x-gzip") ||
         beast::iequals(Of(encoding), "deflate");
}

std::size_t Count(const http::fields& fields, std::string_view name) {
  const auto [first, last] = fields.equal_range(Of(name));
  return static_cast<std::size_t>(std::distance(first, last));
}

std::optional<HttpRefusal> RefuseTransferEncoding(const HttpRequestHeader& header) {
  const auto [first, last] = header.equal_range(http::field::transfer_encoding);
  if (first == last) return std::nullopt;
  if (header.version() < kHttp11) {
    return HttpRefusal{400, "HTTP/1.0 has no Transfer-Encoding; send Content-Length"};
  }
  // Request smuggling: bytes that a proxy takes for the body and this server for the next request.
  // So only the one encoding is accepted that is understood.
  if (std::next(first) == last && beast::iequals(first->value(), "chunked")) return std::nullopt;
  return HttpRefusal{
      501, fmt::format("transfer encoding '{}' is not supported, 'chunked' alone is",
                       Of(std::next(first) == last ? first->value() : std::prev(last)->value()))};
}

std::optional<HttpRefusal> RefuseFields(const HttpRequestHeader& header) {
  for (const std::string_view name : kGivenOnce) {
    if (Count(header, name) > 1) {
      return HttpRefusal{400, fmt::format("the field '{}' is given more than once", name)};
    }
  }
  if (header.version() >= kHttp11 && Count(header, "Host") == 0) {
    return HttpRefusal{400, "the field 'Host' is missing, which HTTP/1.1 demands"};
  }
  return RefuseTransferEncoding(header);
}

}  // namespace

bool HasFoldedLine(std::string_view part, bool& line_ended) {
  for (const char c : part) {
    if (line_ended && (c == ' ' || c == '\t')) return true;
    line_ended = c == '\n';
  }
  return false;
}

bool IsIdentity(std::string_view encoding) {
  return encoding.empty() || beast::iequals(Of(encoding), "identity");
}

std::optional<HttpRefusal> RefuseHeader(const HttpRequestHeader& header,
                                        std::optional<std::uint64_t> length,
                                        std::size_t max_body_bytes) {
  if (auto refusal = RefuseFields(header)) return refusal;
  if (length && *length > max_body_bytes) {
    return HttpRefusal{413, fmt::format("the request's body has {} bytes, the limit is {}", *length,
                                        max_body_bytes)};
  }
  const auto encoding = header[http::field::content_encoding];
  if (!IsIdentity(Of(encoding)) && !IsInflatable(Of(encoding))) {
    return HttpRefusal{
        415,
        fmt::format("content encoding '{}' is not supported, gzip and deflate are", Of(encoding))};
  }
  const auto expect = header[http::field::expect];
  if (!expect.empty() && !beast::iequals(expect, "100-continue")) {
    return HttpRefusal{417, fmt::format("expectation '{}' is not supported", Of(expect))};
  }
  return std::nullopt;
}

std::string_view OriginForm(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!beast::iequals(Of(target.substr(0, scheme.size())), Of(scheme))) continue;
    const std::size_t path = target.find_first_of("/?", scheme.size());
    return path == std::string_view::npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace lagoon

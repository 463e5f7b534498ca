#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace lagoon {

/// Why a request is not read further. The refusal is sent as the answer, then the connection
/// closes.
struct HttpRefusal {
  unsigned status = 400;
  std::string message;
};

using HttpRequestHeader = boost::beast::http::header<true, boost::beast::http::fields>;

/// The reason to refuse the header, if any. Strict where a proxy in front of the server could read
/// the request in another way: the body's length (Transfer-Encoding) and the host. `length`: the
/// Content-Length.
std::optional<HttpRefusal> RefuseHeader(const HttpRequestHeader& header,
                                        std::optional<std::uint64_t> length,
                                        std::size_t max_body_bytes);

/// Whether a line in `part` of a header begins with a space or a tab. Other programs read such a
/// line as a field of its own (RFC 9112, 5.2). `line_ended`: kept between the parts of one header,
/// first false.
bool HasFoldedLine(std::string_view part, bool& line_ended);

/// Whether a body with this Content-Encoding is as it is; else RefuseHeader() lets pass only what
/// Inflater inflates.
bool IsIdentity(std::string_view encoding);

/// The path and query of `target`, which may be an absolute URI (RFC 9112, 3.2.2).
std::string_view OriginForm(std::string_view target);

}  // namespace lagoon

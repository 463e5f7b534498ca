#pragma once

#include <string_view>

#include "server/http/http_message.h"
#include "server/telemetry/traceparent.h"

namespace lagoon {

/// The client's trace. Two fields of the name are none: it is not clear which one holds.
inline TraceContext TraceOf(const HttpRequest& request) {
  const boost::beast::string_view name(kTraceparent.data(), kTraceparent.size());
  if (request.fields.count(name) != 1) return {};
  return ParseTraceparent(request.Field(kTraceparent).value_or(""));
}

}  // namespace lagoon

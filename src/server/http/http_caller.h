#pragma once

#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/telemetry/traceparent.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {

/// The client's trace. Two fields of the name are none: it is not clear which one holds.
inline TraceContext TraceOf(const HttpRequest& request) {
  const boost::beast::string_view name(kTraceparent.data(), kTraceparent.size());
  if (request.fields.count(name) != 1) return {};
  return ParseTraceparent(request.Field(kTraceparent).value_or(""));
}

/// The client's tenant; empty: it names none. Several fields of the name are one with commas, as
/// everywhere in HTTP.
inline std::string TenantOf(const HttpRequest& request) {
  const boost::beast::string_view name(kTenantField.data(), kTenantField.size());
  std::string tenant;
  const auto [begin, end] = request.fields.equal_range(name);
  for (auto field = begin; field != end; ++field) {
    const auto value = field->value();
    tenant += (field == begin ? "" : ",");
    tenant.append(value.data(), value.size());
  }
  return tenant;
}

}  // namespace lagoon

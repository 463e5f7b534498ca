#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "server/telemetry/traceparent.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {

/// The client's trace, of the call's metadata. Two entries of the name are none.
inline TraceContext TraceOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const grpc::string_ref name(kTraceparent.data(), kTraceparent.size());
  if (metadata.count(name) != 1) return {};
  const grpc::string_ref text = metadata.find(name)->second;
  return ParseTraceparent({text.data(), text.size()});
}

/// The client's tenant, of the call's metadata, as TenantOf() of an HTTP request.
inline std::string TenantOf(const grpc::CallbackServerContext& context) {
  const grpc::string_ref name(kTenantField.data(), kTenantField.size());
  const auto [begin, end] = context.client_metadata().equal_range(name);
  std::string tenant;
  for (auto entry = begin; entry != end; ++entry) {
    tenant += (entry == begin ? "" : ",");
    tenant.append(entry->second.data(), entry->second.size());
  }
  return tenant;
}

}  // namespace lagoon

#pragma once

#include <grpcpp/server_context.h>

#include <string_view>

#include "server/telemetry/traceparent.h"

namespace lagoon {

/// The client's trace, of the call's metadata. Two entries of the name are none.
inline TraceContext TraceOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const grpc::string_ref name(kTraceparent.data(), kTraceparent.size());
  if (metadata.count(name) != 1) return {};
  const grpc::string_ref text = metadata.find(name)->second;
  return ParseTraceparent({text.data(), text.size()});
}

}  // namespace lagoon

#pragma once

#include <string>
#include <string_view>

#include "serving/core/request.h"

namespace lagoon {

/// The name of the field of HTTP and of gRPC's metadata.
inline constexpr std::string_view kTraceparent = "traceparent";

/// W3C Trace Context, level 1: "00-<32 hex digits>-<16>-<2>". A text that is not valid counts as
/// none, as the specification asks: TraceContext::any() is false. Reads 56 characters at most.
TraceContext ParseTraceparent(std::string_view text);
/// A traceparent of version 00. `context` is any().
std::string FormatTraceparent(const TraceContext& context);

}  // namespace lagoon

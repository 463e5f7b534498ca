#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace lagoon {

// The codes of HTTP and gRPC for an ErrorCode; docs/guide/clients.md has the table.

unsigned HttpStatus(ErrorCode code);
grpc::StatusCode GrpcCode(ErrorCode code);
/// The ErrorCode that a server has sent as `code`. kInternal for a code that Lagoon does not send.
ErrorCode ErrorCodeOf(grpc::StatusCode code);
/// The same of a status of HTTP.
ErrorCode ErrorCodeOf(unsigned status);

/// `message`, cut to at most this many bytes. This is the last resort: messages quote at most 100
/// bytes of a client's text at a time. The limit of gRPC is 16,384 bytes, where a byte outside
/// ASCII counts as three.
inline constexpr std::size_t kMaxMessageBytes = 2048;
std::string CutMessage(std::string_view message);

/// {"error":"..."}: the body of every HTTP answer that is not a success. The message is cut by
/// CutMessage, and bytes that are not UTF-8 are replaced.
std::string ErrorBody(std::string_view message);

}  // namespace lagoon

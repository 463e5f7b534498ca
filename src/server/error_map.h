#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace lagoon {

// How an ErrorCode reads on the wire; docs/guide/clients.md has the table.

unsigned HttpStatus(ErrorCode code);
grpc::StatusCode GrpcCode(ErrorCode code);

/// `message`, cut to at most this many bytes. Our messages quote what a client wrote in pieces of
/// 100 bytes; this is the last resort. gRPC carries 16,384 bytes, and sends a byte outside ASCII as
/// three.
inline constexpr std::size_t kMaxMessageBytes = 2048;
std::string CutMessage(std::string_view message);

/// {"error":"..."}: the body of every HTTP answer that is not a success. Bytes that are not UTF-8
/// are replaced; cut by CutMessage.
std::string ErrorBody(std::string_view message);

}  // namespace lagoon

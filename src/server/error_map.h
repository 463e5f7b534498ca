#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace lagoon {

// How an ErrorCode reads on the wire; docs/protocols.md has the table.

unsigned HttpStatus(ErrorCode code);
grpc::StatusCode GrpcCode(ErrorCode code);

/// {"error":"..."}: the body of every HTTP answer that is not a success. Bytes that are not UTF-8
/// are replaced.
std::string ErrorBody(std::string_view message);

}  // namespace lagoon

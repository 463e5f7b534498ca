#include "server/error_map.h"

#include <array>

#include "base/check.h"
#include "base/json.h"

namespace lagoon {
namespace {

struct WireError {
  ErrorCode code;
  unsigned http;
  grpc::StatusCode grpc;
};

constexpr std::array kTable = {
    WireError{ErrorCode::kInvalidArgument, 400, grpc::StatusCode::INVALID_ARGUMENT},
    WireError{ErrorCode::kNotFound, 404, grpc::StatusCode::NOT_FOUND},
    WireError{ErrorCode::kAlreadyExists, 409, grpc::StatusCode::ALREADY_EXISTS},
    WireError{ErrorCode::kUnimplemented, 501, grpc::StatusCode::UNIMPLEMENTED},
    WireError{ErrorCode::kResourceExhausted, 413, grpc::StatusCode::RESOURCE_EXHAUSTED},
    WireError{ErrorCode::kDeadlineExceeded, 504, grpc::StatusCode::DEADLINE_EXCEEDED},
    WireError{ErrorCode::kCancelled, 499, grpc::StatusCode::CANCELLED},
    WireError{ErrorCode::kUnavailable, 503, grpc::StatusCode::UNAVAILABLE},
    WireError{ErrorCode::kInternal, 500, grpc::StatusCode::INTERNAL},
};

const WireError& Row(ErrorCode code) {
  for (const WireError& row : kTable) {
    if (row.code == code) return row;
  }
  CheckFailed("every ErrorCode has a row", __FILE__, __LINE__);
}

}  // namespace

unsigned HttpStatus(ErrorCode code) { return Row(code).http; }

grpc::StatusCode GrpcCode(ErrorCode code) { return Row(code).grpc; }

ErrorCode ErrorCodeOf(grpc::StatusCode code) {
  for (const WireError& row : kTable) {
    if (row.grpc == code) return row.code;
  }
  return ErrorCode::kInternal;
}

ErrorCode ErrorCodeOf(unsigned status) {
  for (const WireError& row : kTable) {
    if (row.http == status) return row.code;
  }
  return ErrorCode::kInternal;
}

std::string CutMessage(std::string_view message) {
  constexpr std::string_view kMore = "...";
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  std::size_t end = kMaxMessageBytes - kMore.size();
  // Do not cut within a character: continuation bytes of UTF-8 begin with the bits 10.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) --end;
  return std::string(message.substr(0, end)).append(kMore);
}

std::string ErrorBody(std::string_view message) {
  // No JSON object: its destructor allocates, which ends the server where no memory is left.
  return "{\"error\":" + DumpJson(nlohmann::json(CutMessage(message))) + "}";
}

}  // namespace lagoon

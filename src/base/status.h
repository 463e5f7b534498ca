#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace lagoon {

/// What went wrong, as far as a caller can act on it. One table in `server` maps codes to HTTP and
/// gRPC.
enum class ErrorCode {
  kInvalidArgument,    // the caller's words are wrong; trying again cannot help
  kNotFound,           // the named object does not exist
  kAlreadyExists,      // the name or address is taken
  kUnimplemented,      // understood, but not supported by this build
  kResourceExhausted,  // a limit on memory or size is reached
  kDeadlineExceeded,   // the deadline passed before the work was done
  kCancelled,          // the caller gave up
  kUnavailable,        // full or draining; trying again later can help
  kInternal,           // a bug or a failing device
};

/// Stable lower-case name of a code, for logs and JSON.
std::string_view Name(ErrorCode code);

/// `message` names the object and the values: "model 'bert': input 'ids' has shape [1,512], ...".
struct Error {
  ErrorCode code;
  std::string message;
};

/// A value or an Error. A subclass only because tl::expected 1.0.0 is not [[nodiscard]]; chain with
/// the macros below, not with and_then().
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// The same error with `context` and ": " before its message.
inline tl::unexpected<Error> Annotate(std::string_view context, Error error) {
  error.message.insert(0, std::string(context) + ": ");
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace lagoon

#define LAGOON_CONCAT_INNER(a, b) a##b
#define LAGOON_CONCAT(a, b) LAGOON_CONCAT_INNER(a, b)

#define LAGOON_RETURN_IF_ERROR(expr)                                              \
  do {                                                                            \
    if (auto lagoon_status = (expr); !lagoon_status) {                            \
      return ::tl::unexpected<::lagoon::Error>(std::move(lagoon_status).error()); \
    }                                                                             \
  } while (false)

#define LAGOON_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)                  \
  auto tmp = (expr);                                                  \
  if (!(tmp)) {                                                       \
    return ::tl::unexpected<::lagoon::Error>(std::move(tmp).error()); \
  }                                                                   \
  lhs = *std::move(tmp)
#define LAGOON_ASSIGN_OR_RETURN(lhs, expr) \
  LAGOON_ASSIGN_OR_RETURN_IMPL(LAGOON_CONCAT(lagoon_result_, __LINE__), lhs, expr)

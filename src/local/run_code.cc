#include "local/run_code.h"

namespace lagoon {

std::string_view Name(RunCode code) {
  switch (code) {
    case RunCode::kOk:
      return "ok";
    case RunCode::kInvalidArgument:
      return "invalid argument";
    case RunCode::kNotFound:
      return "not found";
    case RunCode::kUnimplemented:
      return "unimplemented";
    case RunCode::kResourceExhausted:
      return "resource exhausted";
    case RunCode::kDeadlineExceeded:
      return "deadline exceeded";
    case RunCode::kCancelled:
      return "cancelled";
    case RunCode::kUnavailable:
      return "unavailable";
    case RunCode::kInternal:
      return "internal";
    case RunCode::kSuperseded:
      return "superseded";
    case RunCode::kTooLate:
      return "too late";
  }
  return "unknown";
}

RunCode CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kAlreadyExists:
      return RunCode::kInvalidArgument;
    case ErrorCode::kNotFound:
      return RunCode::kNotFound;
    case ErrorCode::kUnimplemented:
      return RunCode::kUnimplemented;
    case ErrorCode::kResourceExhausted:
      return RunCode::kResourceExhausted;
    case ErrorCode::kDeadlineExceeded:
      return RunCode::kDeadlineExceeded;
    case ErrorCode::kCancelled:
      return RunCode::kCancelled;
    case ErrorCode::kUnavailable:
      return RunCode::kUnavailable;
    case ErrorCode::kInternal:
      return RunCode::kInternal;
  }
  return RunCode::kInternal;
}

RunCode CodeOf(const JobResult& result) {
  switch (result.outcome) {
    case Outcome::kDone:
      return RunCode::kOk;
    case Outcome::kCancelled:
      return RunCode::kCancelled;
    case Outcome::kExpired:
      return RunCode::kDeadlineExceeded;
    case Outcome::kSuperseded:
      return RunCode::kSuperseded;
    case Outcome::kTooLate:
      return RunCode::kTooLate;
    case Outcome::kNotStarted:
      return RunCode::kUnavailable;
    case Outcome::kFailed:
      return result.error == nullptr ? RunCode::kUnavailable : CodeOf(result.error->code);
  }
  return RunCode::kInternal;
}

}  // namespace lagoon

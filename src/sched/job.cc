#include "sched/job.h"

#include "base/check.h"

namespace lagoon {

void JobClient::Sent(std::span<const std::span<const std::byte>> /*outputs*/,
                     std::function<void()> /*taken*/) {  // NOLINT: those who override it keep it
  CheckFailed("a client that takes answers", __FILE__, __LINE__);
}

std::string_view Name(JobClass job_class) {
  return job_class == JobClass::kRealTime ? "real-time" : "best-effort";
}

std::string_view Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kExpired:
      return "expired";
    case Outcome::kSuperseded:
      return "superseded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kTooLate:
      return "too late";
    case Outcome::kNotStarted:
      return "not started";
  }
  CheckFailed("a known Outcome", __FILE__, __LINE__);
}

}  // namespace lagoon

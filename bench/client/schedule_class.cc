#include "bench/client/schedule_class.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <system_error>
#include <thread>

namespace lagoon::bench {
namespace {

Status Checked(int result, const char* what) {
  if (result == 0) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

Status SetPolicy(int policy, int priority, const char* what) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  return Checked(sched_setscheduler(0, policy, &parameters), what);
}

}  // namespace

Status Enter(ScheduleClass schedule_class) {
  switch (schedule_class) {
    case ScheduleClass::kNice19:
      return Checked(setpriority(PRIO_PROCESS, 0, 19), "nice 19");
    case ScheduleClass::kIdle:
      return SetPolicy(SCHED_IDLE, 0, "SCHED_IDLE");
    case ScheduleClass::kFifo:
      return SetPolicy(SCHED_FIFO, 1, "SCHED_FIFO needs root, CAP_SYS_NICE or `ulimit -r 1`");
    case ScheduleClass::kNormal:
      break;
  }
  return {};
}

Status MayEnterFifo() {
  Status entered;
  std::jthread([&entered] { entered = Enter(ScheduleClass::kFifo); }).join();
  return entered;
}

}  // namespace lagoon::bench

#include "base/library_trial.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

namespace lagoon {
namespace {

constexpr int kThrough = 77;  // exit code of a child in which the library did no harm

// Runs in a forked child. Only crashing, exiting and hanging matter here.
[[noreturn]] void Try(const std::function<void()>& load) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, SIG_DFL);
  try {
    load();
  } catch (...) {  // the parent will see and report the same exception
    _exit(kThrough);
  }
  _exit(kThrough);
}

}  // namespace

Status TryInChild(const std::function<void()>& load, Nanoseconds limit) {
  const pid_t child = fork();
  if (child < 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no process to try it in: {}", std::generic_category().message(errno)));
  }
  if (child == 0) Try(load);
  const TimePoint until = Now() + limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Now() >= until) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("is not loaded after {:.0f} ms", ToMilliseconds(limit)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // there is no event to wait for
  }
  if (WIFSIGNALED(status)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("crashes when it is loaded: {}", sigdescr_np(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) != kThrough) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("exits with {} when it is loaded", WEXITSTATUS(status)));
  }
  return {};
}

}  // namespace lagoon

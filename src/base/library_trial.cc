#include "base/library_trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <thread>

namespace lagoon {
namespace {

constexpr int kThrough = 77;  // exit code of a child in which the library did no harm
// The longest message of an error. Less than PIPE_BUF, so that the child never waits for the parent
// to read.
constexpr std::size_t kLongestMessage = 2048;

/// What the child says: the error's code and its message, or success. A code is not negative.
constexpr char kSuccess = -1;

Status LoadGuarded(const std::function<Status()>& load) {
  try {
    return load();
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("throws when it is loaded: {}", error.what()));
  } catch (...) {
    return Fail(ErrorCode::kInternal, "throws when it is loaded");
  }
}

// Runs in a forked child.
[[noreturn]] void Try(const std::function<Status()>& load, int verdict) {
  setpgid(0, 0);
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, SIG_DFL);
  const Status loaded = LoadGuarded(load);
  std::string said(1, kSuccess);
  if (!loaded) {
    said[0] = static_cast<char>(loaded.error().code);
    said += loaded.error().message.substr(0, kLongestMessage);
  }
  const ssize_t written = write(verdict, said.data(), said.size());
  _exit(written == static_cast<ssize_t>(said.size()) ? kThrough : 0);
}

/// The child's end, or the limit's. The child is not reaped, so that its number stays taken.
bool AwaitEnd(pid_t child, Nanoseconds limit) {
  const TimePoint until = Now() + limit;
  for (;;) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == child) return true;
    if (Now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // there is no event to wait for
  }
}

Status ReadVerdict(int verdict) {
  std::array<char, 1 + kLongestMessage> said{};
  const ssize_t got = read(verdict, said.data(), said.size());
  if (got < 1) {
    return Fail(ErrorCode::kInvalidArgument, "closes descriptors of the process when it is loaded");
  }
  if (said[0] == kSuccess) return {};
  return Fail(static_cast<ErrorCode>(said[0]),
              std::string(said.data() + 1, static_cast<std::size_t>(got) - 1));
}

Status Judge(int status, int verdict) {
  if (WIFSIGNALED(status)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("crashes when it is loaded: {}", sigdescr_np(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) != kThrough) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("exits with {} when it is loaded", WEXITSTATUS(status)));
  }
  return ReadVerdict(verdict);
}

}  // namespace

Status TryInChild(const std::function<Status()>& load, Nanoseconds limit) {
  std::array<int, 2> ends{};  // read, write
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no pipe to try it with: {}", std::generic_category().message(errno)));
  }
  const pid_t child = fork();
  if (child == 0) Try(load, ends[1]);
  const int problem = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("no process to try it in: {}", std::generic_category().message(problem)));
  }
  const bool ended = AwaitEnd(child, limit);
  kill(child, SIGKILL);
  kill(-child, SIGKILL);  // what the child has forked
  int status = 0;
  waitpid(child, &status, 0);
  Status verdict = ended
                       ? Judge(status, ends[0])
                       : Fail(ErrorCode::kInvalidArgument,
                              fmt::format("is not loaded after {:.0f} ms", ToMilliseconds(limit)));
  close(ends[0]);
  return verdict;
}

}  // namespace lagoon

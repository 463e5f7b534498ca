#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace lagoon::bench {

/// What `measure`, which returns a Result<T>, finds in a child process, so that no memory of an
/// earlier measurement counts. The child writes an error of `measure` to stderr. `name`: of what is
/// measured, for messages. kInternal: there is no child, or `measure` failed there. Call it while
/// no other thread runs: the child has only the calling one.
template <typename T, typename Measure>
Result<T> InChild(const std::string& name, const Measure& measure) {
  static_assert(std::is_trivially_copyable_v<T>);  // goes through a pipe
  int ends[2];
  if (pipe(ends) != 0) return Fail(ErrorCode::kInternal, "no pipe for a child");
  std::fflush(nullptr);  // else the child would write buffered output a second time
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const Result<T> found = measure();
    if (!found) std::fprintf(stderr, "%s\n", found.error().message.c_str());
    const bool told = found && write(ends[1], &*found, sizeof(T)) == sizeof(T);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  T value{};
  const bool heard = child > 0 && read(ends[0], &value, sizeof value) == sizeof value;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (heard) return value;
  return Fail(ErrorCode::kInternal, fmt::format("'{}' did not run in a child", name));
}

}  // namespace lagoon::bench

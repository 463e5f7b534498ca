#include "bench/client/process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lagoon::bench {

Result<int> RunToEnd(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (failed != 0) {
    return Fail(ErrorCode::kNotFound, fmt::format("cannot run '{}': {}", words[0],
                                                  std::generic_category().message(failed)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return Fail(ErrorCode::kInternal, fmt::format("lost sight of '{}'", words[0]));
    }
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return Fail(ErrorCode::kInternal,
              fmt::format("'{}' was ended by signal {}", words[0], WTERMSIG(status)));
}

}  // namespace lagoon::bench

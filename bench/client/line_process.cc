#include "bench/client/line_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "bench/client/keeper.h"

namespace lagoon::bench {

Result<std::unique_ptr<LineProcess>> LineProcess::Start(std::string name,
                                                        std::vector<std::string> words) {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a dead child fails instead of killing us
  std::unique_ptr<LineProcess> process(new LineProcess(std::move(name)));
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kInternal, fmt::format("no pipe for {}", process->name_));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failed = posix_spawnp(&process->pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  process->to_ = to[1];
  process->from_ = fdopen(from[0], "r");
  if (failed == 0) {
    KeepChild(process->pid_);
    return process;
  }
  process->pid_ = -1;
  return Fail(ErrorCode::kNotFound,
              fmt::format("cannot start '{}' for {}", words.front(), process->name_));
}

LineProcess::~LineProcess() {
  if (to_ >= 0) close(to_);
  if (from_ != nullptr) std::fclose(from_);
  if (pid_ <= 0) return;
  waitpid(pid_, nullptr, 0);
  ReleaseChild(pid_);
}

Status LineProcess::Send(const nlohmann::json& command) {
  const std::string line = DumpJson(command) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t wrote = write(to_, line.data() + sent, line.size() - sent);
    if (wrote <= 0) return Fail(ErrorCode::kInternal, fmt::format("{} has ended", name_));
    sent += static_cast<std::size_t>(wrote);
  }
  return {};
}

Result<nlohmann::json> LineProcess::Receive() {
  char* line = nullptr;
  std::size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, from_);
  const std::unique_ptr<char, decltype(&std::free)> owned(line, &std::free);
  if (length <= 0) {
    return Fail(ErrorCode::kInternal, fmt::format("{} ended before it answered", name_));
  }
  nlohmann::json reply = nlohmann::json::parse(
      std::string_view(line, static_cast<std::size_t>(length)), nullptr, false);
  if (reply.is_object() && reply.value("ok", false)) return reply;
  return Fail(
      ErrorCode::kInternal,
      fmt::format("{}: {}", name_,
                  reply.is_object() ? reply.value("error", "no reason") : "answered no JSON"));
}

}  // namespace lagoon::bench

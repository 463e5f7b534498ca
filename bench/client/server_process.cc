#include "bench/client/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/time.h"
#include "bench/client/keeper.h"

namespace lagoon::bench {
namespace {

constexpr std::chrono::seconds kStartLimit{120};
constexpr std::size_t kTailBytes = 1000;

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& lagoon,
                                                            std::vector<std::string> words) {
  LAGOON_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make());
  std::unique_ptr<ServerProcess> server(new ServerProcess(std::move(folder)));
  LAGOON_RETURN_IF_ERROR(server->Spawn(lagoon, std::move(words)));
  LAGOON_RETURN_IF_ERROR(server->AwaitPorts());
  return server;
}

ServerProcess::~ServerProcess() {
  if (!Running()) return;
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  ReleaseChild(pid_);
}

Status ServerProcess::Spawn(const std::string& lagoon, std::vector<std::string> words) {
  std::vector<std::string> all = {lagoon,           "serve",
                                  "--http-port",    "0",
                                  "--grpc-port",    "0",
                                  "--metrics-port", "0",
                                  "--ports-file",   folder_.path() + "/ports.json"};
  std::ranges::move(words, std::back_inserter(all));
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = folder_.path() + "/log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) {
    KeepChild(pid_);
    return {};
  }
  pid_ = -1;
  return Fail(ErrorCode::kInternal, fmt::format("cannot start '{}': {}", lagoon,
                                                std::generic_category().message(failed)));
}

Status ServerProcess::AwaitPorts() {
  const std::string file = folder_.path() + "/ports.json";
  const TimePoint until = Now() + kStartLimit;
  // `lagoon serve` tells that it is ready by writing this file, and its process may also end
  // before. No one call waits for both, so that this loop looks at both again and again. The pause
  // is short beside the time until a server is ready.
  while (!std::filesystem::exists(file)) {
    if (!Running()) return Fail(ErrorCode::kInternal, "the server has ended" + LogTail());
    if (Now() > until) return Fail(ErrorCode::kInternal, "the server does not serve" + LogTail());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ports_ = nlohmann::json::parse(std::ifstream(file), nullptr, /*allow_exceptions=*/false);
  if (ports_.is_object()) return {};
  return Fail(ErrorCode::kInternal, fmt::format("'{}' is no JSON object", file));
}

bool ServerProcess::Running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) != 0) {
    ReleaseChild(pid_);
    pid_ = -1;
  }
  return pid_ > 0;
}

Result<double> ServerProcess::RssKib() {
  if (!Running()) return Fail(ErrorCode::kInternal, "the server has ended" + LogTail());
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  double pages = 0, resident = 0;
  if (!(file >> pages >> resident)) return Fail(ErrorCode::kInternal, "the server has ended");
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

std::string ServerProcess::LogTail() const {
  std::ifstream file(folder_.path() + "/log");
  std::string log{std::istreambuf_iterator<char>(file), {}};
  if (log.size() > kTailBytes) log.erase(0, log.size() - kTailBytes);
  return "; the end of its log:\n" + log;
}

}  // namespace lagoon::bench

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/time.h"
#include "bench/client/temporary_repository.h"
#include "bench/live/overhead.h"

namespace lagoon::bench {
namespace {

constexpr std::chrono::seconds kStartLimit{120};

// `lagoon serve` as a child process. The destructor ends the process.
class ServeProcess {
 public:
  ServeProcess(const std::string& lagoon, const std::string& repository, const std::string& ports) {
    std::vector<std::string> words = {lagoon,           "serve", "--models",     repository,
                                      "--http-port",    "0",     "--grpc-port",  "0",
                                      "--metrics-port", "0",     "--ports-file", ports};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~ServeProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_ = -1;
};

}  // namespace

Status RunFootprint(const FootprintOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, options.models));
  const std::string ports = repository.path() + ".ports";
  const TimePoint begin = Now();
  const ServeProcess server(options.lagoon, repository.path(), ports);
  while (!std::filesystem::exists(ports)) {
    if (!server.running() || Now() - begin > kStartLimit) {
      return Fail(ErrorCode::kInternal, fmt::format("'{} serve' did not start", options.lagoon));
    }
    // `lagoon serve` tells that it is ready by writing this file, and its process may also end
    // before. No one call waits for both, so that this loop looks at both again and again. The
    // pause is short beside the time until the server is ready, which is what this measures.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  report.Metric("serve_ready_ms", ToMilliseconds(Now() - begin));
  report.Metric("serve_peak_rss_mib", PeakRssMib(server.pid()));
  const nlohmann::json ready = nlohmann::json::parse(std::ifstream(ports), nullptr, false);
  std::filesystem::remove(ports);
  for (const std::string& model : options.models) {
    const nlohmann::json& row = ready.at("models").at(model);
    if (!row.at("ready").get<bool>()) {
      return Fail(ErrorCode::kInternal, fmt::format("model '{}' did not load", model));
    }
    report.Metric("load_ms." + model, row.at("load_ms").get<double>());
  }
  return {};
}

}  // namespace lagoon::bench

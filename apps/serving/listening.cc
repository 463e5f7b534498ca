#include "apps/serving/listening.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "base/json.h"
#include "base/log.h"

namespace lagoon {
namespace {

// All bodies and answers share 512 MiB, of which large ones may take 333 (MemoryBudget).
constexpr std::size_t kMostBodyMib = 320;
constexpr std::chrono::seconds kSendTime{1};

// The signals that drain and stop the server. SIGHUP comes from a terminal that closes or from
// `systemctl reload`; there is nothing to reload. Under nohup SIGHUP is ignored, and stays so.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

void AddListening(CLI::App& command, ListenWords& words) {
  command.add_option("--address,--http-address", words.server.address, "Address to listen on")
      ->capture_default_str();
  command.add_option("--grpc-address", words.server.grpc_address,
                     "Address of the port of gRPC, if it is another one");
  command.add_option("--metrics-address", words.server.metrics_address,
                     "Address of the port of metrics and administration, if it is another one");
  command.add_option(
      "--allow-host", words.server.allowed_hosts,
      "A name with a dot that HTTP clients may use for the server; *: any. May be "
      "given several times. Default: any, but none for a port of a loopback address");
  command.add_option("--http-port", words.server.http_port, "Port of HTTP (0: any free port)")
      ->capture_default_str();
  command.add_option("--grpc-port", words.server.grpc_port, "Port of gRPC (0: any free port)")
      ->capture_default_str();
  command
      .add_option("--metrics-port", words.server.metrics_port,
                  "Port of metrics and administration (0: any free port)")
      ->capture_default_str();
  command
      .add_option_function<std::size_t>(
          "--max-body-mib",
          [&words](std::size_t mib) { words.server.http.max_body_bytes = mib << 20; },
          "Largest body of an HTTP request and largest gRPC message, in MiB")
      ->check(CLI::Range(std::size_t{1}, kMostBodyMib))
      ->default_str(std::to_string(words.server.http.max_body_bytes >> 20));
  command.add_option("--ports-file", words.ports_file,
                     "When ready, write ports and models here as JSON");
  command
      .add_option("--drain-seconds,--exit-timeout-secs", words.drain_seconds,
                  "Longest time for answering requests in flight when the server stops")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  command.add_option("--log-level", words.log_level, "Lowest level of messages that are logged")
      ->check(CLI::IsMember(std::vector<std::string>(kLogLevels.begin(), kLogLevels.end())))
      ->capture_default_str();
}

sigset_t BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Some supervisors send SIGUSR1 or SIGUSR2 so that logs are opened anew; there is nothing to do.
  // SIGXFSZ: a write to shared memory beyond the process's limit on files is an error.
  for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ}) std::signal(signal, SIG_IGN);
  return signals;
}

void WritePorts(const ListenWords& words, const nlohmann::json& ports, MemoryReserve& reserve) {
  const auto keep = [&] {
    if (!reserve.Keep()) Die("the memory that this process may have is too little to serve");
  };
  if (words.ports_file.empty()) return keep();
  const std::string part = words.ports_file + ".part";
  std::ofstream file(part);
  file << DumpJson(ports) << '\n';
  file.close();
  keep();
  const bool renamed = std::rename(part.c_str(), words.ports_file.c_str()) == 0;
  if (!file || !renamed) Die(fmt::format("--ports-file: cannot write '{}'", words.ports_file));
}

nlohmann::json PortsOf(const Server& server) {
  return {{"http", server.http_port()},
          {"grpc", server.grpc_port()},
          {"metrics", server.metrics_port()}};
}

void PrintPorts(const ListenWords& words, const Server& server) {
  const std::string& address = words.server.address;
  const auto or_address = [&](const std::string& own) { return own.empty() ? address : own; };
  const std::string grpc = or_address(words.server.grpc_address);
  const std::string metrics = or_address(words.server.metrics_address);
  std::printf("\n  HTTP     http://%s:%d/v2\n  gRPC     %s:%d\n  metrics  http://%s:%d/metrics\n",
              address.c_str(), server.http_port(), grpc.c_str(), server.grpc_port(),
              metrics.c_str(), server.metrics_port());
}

void StopOnSignal(Inference& core, Server& server, const sigset_t& signals, int drain_seconds,
                  MemoryReserve& reserve) {
  int received = 0;
  sigwait(&signals, &received);
  reserve.GiveUp();
  spdlog::info("draining: answering what is in flight, for at most {} s; again stops at once",
               drain_seconds);
  // The second signal ends the process the way the shell expects.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&signals, signal) == 1) std::signal(signal, SIG_DFL);
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const TimePoint until = Now() + std::chrono::seconds(drain_seconds);
  server.AnnounceStop();
  core.Drain(until);
  // All requests are answered: their answers need some time to get to the clients.
  server.Stop(std::max(until, Now() + kSendTime));
  spdlog::info("stopped");
}

}  // namespace lagoon

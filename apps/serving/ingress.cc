#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "apps/command.h"
#include "apps/serving/listening.h"
#include "apps/version.h"
#include "base/json.h"
#include "base/log.h"
#include "server/remote/ingress_core.h"
#include "server/remote/routes_handler.h"

namespace lagoon {
namespace {

struct IngressWords {
  std::string members;  // a list of addresses, or a file with routes
  ListenWords listen;
  IngressOptions core;
  int lost_after_ms = 2000;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) Die(fmt::format("--members: cannot read '{}'", path));
  return text.str();
}

Routes FirstRoutes(const std::string& members) {
  if (members.empty()) return {};
  const bool is_file = std::filesystem::is_regular_file(members);
  const Result<Routes> routes =
      is_file ? ParseRoutesJson(ReadAll(members)) : ParseMemberList(members);
  if (routes) return *routes;
  if (is_file) Die(fmt::format("--members: '{}': {}", members, routes.error().message));
  Die(fmt::format("--members: {}; '{}' is no file either", routes.error().message, members));
}

void RunIngress(const IngressWords& words) {
  spdlog::set_level(spdlog::level::from_str(words.listen.log_level));
  const sigset_t signals = BlockStopSignals();
  const Routes routes = FirstRoutes(words.members);
  IngressOptions of_core = words.core;
  of_core.remote.poll_timeout = std::chrono::milliseconds(words.lost_after_ms);
  IngressCore core(of_core);
  const Status set = core.SetRoutes(routes);
  if (!set) Die(set.error().message);
  RoutesHandler handler(core);
  ServerOptions options = words.listen.server;
  options.fleet = &handler;
  Result<std::unique_ptr<Server>> server = Server::Start(core, options);
  if (!server) Die(server.error().message);
  std::printf("\nLagoon %s, ingress of %zu members\n", kVersion, routes.members.size());
  PrintPorts(words.listen, **server);
  std::printf("  routes   http://%s:%d/v2/fleet/routes\n\nCtrl-C drains and stops.\n",
              options.address.c_str(), (*server)->metrics_port());
  std::fflush(stdout);
  WritePorts(words.listen, PortsOf(**server));
  StopOnSignal(core, **server, signals, words.listen.drain_seconds);
}

}  // namespace

void AddIngress(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ingress", "Serve the models of several `lagoon serve` over HTTP, gRPC and metrics as one");
  auto words = std::make_shared<IngressWords>();
  command->add_option(
      "--members", words->members,
      "The servers: HOST:PORT,... with the ports of gRPC, where every model goes in "
      "equal parts to all servers that have it; or a file with routes as JSON. "
      "Without it, the routes come by POST /v2/fleet/routes on the metrics port");
  AddListening(*command, words->listen);
  command
      ->add_option("--threads", words->core.threads, "Threads that read the answers of the servers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option(
          "--lost-after-ms", words->lost_after_ms,
          "A server that does not answer for so long is lost: the requests that it has are "
          "sent to another")
      ->check(CLI::Range(10, 600'000))
      ->capture_default_str();
  command->callback([words] { RunIngress(*words); });
}

}  // namespace lagoon

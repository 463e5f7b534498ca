#pragma once

// What `lagoon serve` needs to run until a signal ends it.

#include <CLI/CLI.hpp>
#include <csignal>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/heap.h"
#include "server/server.h"
#include "serving/core/inference.h"

namespace lagoon {

struct ListenWords {
  ServerOptions server;
  std::string ports_file;
  std::string log_level = "info";
  int drain_seconds = 30;
};

/// Adds the options for `words`: addresses, ports, --ports-file, --drain-seconds, --log-level.
void AddListening(CLI::App& command, ListenWords& words);

/// Blocks the signals that stop the server in every thread, so that only StopOnSignal() gets them.
/// Call it before any thread starts.
sigset_t BlockStopSignals();

/// Writes `ports` to words.ports_file if there is one. The file appears whole or not at all: a
/// script that waits for the file may read it as soon as it exists. Keeps the reserve from now on.
/// Dies on failure, and where starting has taken the reserve.
void WritePorts(const ListenWords& words, const nlohmann::json& ports, MemoryReserve& reserve);

/// The ports of the server, as WritePorts takes them.
nlohmann::json PortsOf(const Server& server);

/// Prints where the server listens.
void PrintPorts(const ListenWords& words, const Server& server);

/// Waits for one of the signals, then gives up the reserve, answers what is in flight and stops. A
/// second signal ends the process at once.
void StopOnSignal(Inference& core, Server& server, const sigset_t& signals, int drain_seconds,
                  MemoryReserve& reserve);

}  // namespace lagoon

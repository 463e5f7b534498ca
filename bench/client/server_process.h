#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/client/temporary_folder.h"

namespace lagoon::bench {

/// `lagoon serve` as a child process, on free ports of 127.0.0.1. The destructor stops the process
/// and waits for its end. The process does not outlive this one.
class ServerProcess {
 public:
  /// Returns when the server serves. `words`: after `lagoon serve`. kInternal, with the end of its
  /// log: it ended before, or took longer than two minutes.
  static Result<std::unique_ptr<ServerProcess>> Start(const std::string& lagoon,
                                                      std::vector<std::string> words);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// What `lagoon serve --ports-file` writes: ports and models.
  const nlohmann::json& ports() const { return ports_; }
  int port(const std::string& protocol) const { return ports_.at(protocol).get<int>(); }
  /// Resident memory now. kInternal, with the end of its log: the process has ended.
  Result<double> RssKib();

 private:
  explicit ServerProcess(TemporaryFolder folder) : folder_(std::move(folder)) {}
  Status Spawn(const std::string& lagoon, std::vector<std::string> words);
  Status AwaitPorts();
  bool Running();
  std::string LogTail() const;

  TemporaryFolder folder_;
  pid_t pid_ = -1;  // -1: the process is not there
  nlohmann::json ports_;
};

}  // namespace lagoon::bench

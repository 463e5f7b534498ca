#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

/// A child process that reads a JSON object from each line of its stdin, and answers with a line on
/// its stdout: {"ok": true, ...}, or {"ok": false, "error": TEXT}. One thread. The destructor
/// closes the child's stdin, upon which the child ends, and waits for that. The child
/// does not outlive this process.
class LineProcess {
 public:
  /// `name`: of the child, for messages. `words`: a program, a path or found in PATH, and its
  /// words. kNotFound: there is no such program.
  static Result<std::unique_ptr<LineProcess>> Start(std::string name,
                                                    std::vector<std::string> words);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// kInternal: the child has ended.
  Status Send(const nlohmann::json& command);
  /// The next answer. kInternal: the child has ended, or its answer is an error.
  Result<nlohmann::json> Receive();

 private:
  explicit LineProcess(std::string name) : name_(std::move(name)) {}

  const std::string name_;
  pid_t pid_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
};

}  // namespace lagoon::bench

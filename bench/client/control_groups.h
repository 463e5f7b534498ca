#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace lagoon::bench {

/// Two control groups of Linux beside each other. The first has nearly all of the CPU's weight. The
/// destructor removes them; their processes must have ended.
class ControlGroups {
 public:
  /// kUnavailable: the system permits none, and why.
  static Result<std::unique_ptr<ControlGroups>> Make();
  ~ControlGroups();
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;

  /// Moves a process into the first group (`real_time`), or into the second.
  Status Add(pid_t process, bool real_time);

 private:
  explicit ControlGroups(std::string folder) : folder_(std::move(folder)) {}
  std::string PathOf(bool real_time) const {
    return folder_ + (real_time ? "/real-time" : "/background");
  }
  Status Create(bool second_version);

  const std::string folder_;
};

}  // namespace lagoon::bench

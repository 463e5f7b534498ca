#pragma once

// Messages of the library go to functions of the program, instead of stderr.

#include <cstddef>
#include <cstdint>

namespace lagoon {

/// `level`: 0 debug, 1 information, 2 warning, 3 error. Called on any thread; must not log.
using HostLogFunction = void (*)(void* argument, int level, const char* message);

/// While it lives, the function gets all messages of the library. Messages are of the process, not of
/// a device: several functions all get them. From the first one on, nothing is written to stderr.
/// Any thread.
class HostLog {
 public:
  HostLog(HostLogFunction function, void* argument);
  /// Returns when the function is not being called.
  ~HostLog();
  HostLog(const HostLog&) = delete;
  HostLog& operator=(const HostLog&) = delete;

 private:
  const HostLogFunction function_;
  void* const argument_;
};

/// Nothing is written to stderr from now on. Functions of HostLog get the messages.
void LogToHostOnly();

}  // namespace lagoon

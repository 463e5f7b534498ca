#pragma once

// A Python program as a process of its own.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/python/owned_descriptor.h"

namespace lagoon {

/// Text of a file of python/lagoon/backend, which is embedded in the binary.
struct PythonFile {
  std::string name;
  std::string text;
};
std::vector<PythonFile> EmbeddedPythonFiles();  // made by cmake/embed.cmake

/// What runs a program at the other end of a channel. One thread uses it.
class ProgramProcess {
 public:
  virtual ~ProgramProcess() = default;
  /// Ends the process, unless it has ended, and says how that happened: "was killed by signal 9
  /// (Killed)", "has exited with 3". Called once. `gently`: waits for a moment that it ends by
  /// itself.
  virtual std::string End(bool gently) = 0;
  /// A descriptor that is readable once the process has ended; -1: the system has none. A child of
  /// the process may keep its socket open beyond that.
  virtual int ended() const { return -1; }
};

/// Starts a program that speaks over `socket`. Another function in tests.
using StartProgram = std::function<Result<std::unique_ptr<ProgramProcess>>(OwnedDescriptor socket)>;

/// Starts `interpreter` (a path, or a name that PATH has) with python/lagoon/backend/worker.py.
/// The process has descriptors 0 (/dev/null), 1 and 2 (the server's stderr), 3 (the socket), and
/// dies with the calling thread. `title`: what a list of processes shows. kInvalidArgument names
/// the interpreter.
Result<std::unique_ptr<ProgramProcess>> StartPython(const std::string& interpreter,
                                                    const std::string& title,
                                                    OwnedDescriptor socket);

}  // namespace lagoon

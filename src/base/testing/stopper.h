#pragma once

// For tests: threads that are stopped at any instruction.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"

namespace lagoon {

/// The threads of this process whose names begin so.
inline std::vector<pid_t> ThreadsNamed(const std::string& name) {
  std::vector<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(entry.path() / "comm"), line);
    if (line.starts_with(name)) threads.push_back(std::stoi(entry.path().filename()));
  }
  return threads;
}

/// Stops threads by a signal whose handler waits: anywhere. The handler stays for the rest of the
/// process: on a busy machine a thread may get its signal long after Resume().
class Stopper {
 public:
  Stopper() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int error = errno;
      stopped_.fetch_add(1);
      const timespec moment{0, 100'000};
      while (stop_.load()) nanosleep(&moment, nullptr);
      stopped_.fetch_sub(1);
      errno = error;
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
  }

  /// Under ThreadSanitizer a signal may wait until its thread calls the system: then it is not
  /// stopped now.
  void Stop(pid_t thread) {
    stop_.store(true);
    ASSERT_EQ(syscall(SYS_tgkill, getpid(), thread, SIGUSR2), 0);
    const TimePoint until = Now() + std::chrono::milliseconds(50);
    while (stopped_.load() == 0 && Now() < until) std::this_thread::yield();
  }
  void Resume() {
    stop_.store(false);
    while (stopped_.load() != 0) std::this_thread::yield();
  }

 private:
  static inline std::atomic<bool> stop_{false};
  static inline std::atomic<int> stopped_{0};
};

}  // namespace lagoon

#include "bench/client/keeper.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

namespace lagoon::bench {
namespace {

constexpr char kAdd = '+', kDrop = '-';
constexpr char kChild = 'c', kFolder = 'f';
constexpr int kMostTries = 100;

// A process that was killed may still add a file for a moment. So a removal that fails is tried
// again, for a second at most.
void Remove(const std::string& folder) {
  std::error_code error;
  for (int i = 0; i < kMostTries && std::filesystem::exists(folder, error); ++i) {
    std::filesystem::remove_all(folder, error);
    if (error) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// The process that keeps. A message is kAdd or kDrop, kChild or kFolder, and a number or a path.
// There are no more messages when the benchmark has ended.
[[noreturn]] void Guard(int benchmark) {
  setsid();  // what ends the benchmark's process group does not end this process
  prctl(PR_SET_NAME, "lagoon-keeper");
  dup2(benchmark, STDIN_FILENO);
  // A program that reads the benchmark's output waits until no process has the output open.
  close_range(STDOUT_FILENO, ~0U, 0);
  std::set<std::string> left;
  std::array<char, 8192> message{};
  for (ssize_t size = 0; (size = recv(STDIN_FILENO, message.data(), message.size(), 0)) > 0;) {
    const std::string what(message.data() + 1, static_cast<std::size_t>(size) - 1);
    if (message.front() == kAdd) {
      left.insert(what);
    } else {
      left.erase(what);
    }
  }
  for (const std::string& what : left) {  // children come first
    if (what.front() == kChild) kill(std::atoi(what.c_str() + 1), SIGKILL);
    if (what.front() == kFolder) Remove(what.substr(1));
  }
  _exit(0);
}

/// Returns a socket to the process, or -1: nothing is kept.
int StartGuard() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  const pid_t guard = fork();
  if (guard == 0) {
    close(ends[0]);
    Guard(ends[1]);
  }
  close(ends[1]);
  if (guard > 0) return ends[0];
  close(ends[0]);
  return -1;
}

void Tell(char change, char kind, const std::string& what) {
  static const int guard = StartGuard();
  const std::string message = std::string{change, kind} + what;
  if (guard >= 0) send(guard, message.data(), message.size(), MSG_NOSIGNAL);
}

}  // namespace

void KeepChild(pid_t child) { Tell(kAdd, kChild, std::to_string(child)); }
void ReleaseChild(pid_t child) { Tell(kDrop, kChild, std::to_string(child)); }
void KeepFolder(const std::string& path) { Tell(kAdd, kFolder, path); }
void ReleaseFolder(const std::string& path) { Tell(kDrop, kFolder, path); }

}  // namespace lagoon::bench

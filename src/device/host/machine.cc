#include "device/host/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>
#include <thread>

namespace lagoon {
namespace {

// Reads control group version 2: "<quota us> <period us>" or "max <period us>". 0: no limit.
std::uint32_t QuotaCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return std::max(1u, static_cast<std::uint32_t>(quota / period));
}

}  // namespace

std::vector<int> UsableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cores.push_back(i);
    }
  }
  return cores;
}

std::uint32_t UsableCoreCount() {
  auto count = static_cast<std::uint32_t>(UsableCores().size());
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  const std::uint32_t quota = QuotaCores();
  return quota == 0 ? count : std::min(count, quota);
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

Status PinThread(std::jthread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "device 'cpu': cannot bind a worker to core " + std::to_string(core));
  }
  return {};
}

Nanoseconds TimeOffCore(pid_t thread) {
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/self/task/{}/schedstat", thread);
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Nanoseconds(0);
  std::array<char, 128> text{};
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  if (size <= 0) return Nanoseconds(0);
  // "<ns on a core> <ns ready, without a core> <times on a core>"
  const std::string_view line(text.data(), static_cast<std::size_t>(size));
  const std::size_t space = line.find(' ');
  std::int64_t off = 0;
  if (space != line.npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), off);
  return Nanoseconds(off);
}

}  // namespace lagoon

#include "bench/client/control_groups.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lagoon::bench {
namespace {

namespace fs = std::filesystem;

Status Refuse(const std::string& path) {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("control groups need root and a writable /sys/fs/cgroup: cannot write "
                          "'{}'",
                          path));
}

Status WriteLine(const std::string& path, const std::string& line) {
  std::ofstream file(path);
  file << line << std::endl;
  return file ? Status() : Refuse(path);
}

}  // namespace

Result<std::unique_ptr<ControlGroups>> ControlGroups::Make() {
  const bool second_version = fs::exists("/sys/fs/cgroup/cgroup.controllers");
  const std::string root = second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
  std::unique_ptr<ControlGroups> groups(
      new ControlGroups(fmt::format("{}/lagoon-bench-{}", root, getpid())));
  if (second_version) {
    LAGOON_RETURN_IF_ERROR(WriteLine(root + "/cgroup.subtree_control", "+cpu"));
  }
  LAGOON_RETURN_IF_ERROR(groups->Create(second_version));
  return groups;
}

Status ControlGroups::Create(bool second_version) {
  std::error_code error;
  if (!fs::create_directory(folder_, error)) return Refuse(folder_);
  if (second_version) {
    LAGOON_RETURN_IF_ERROR(WriteLine(folder_ + "/cgroup.subtree_control", "+cpu"));
  }
  for (const bool real_time : {true, false}) {
    const std::string path = PathOf(real_time);
    if (!fs::create_directory(path, error)) return Refuse(path);
    // The largest and the smallest weight that the system takes.
    const char* const file = second_version ? "/cpu.weight" : "/cpu.shares";
    const int weight = second_version ? (real_time ? 10000 : 1) : (real_time ? 262144 : 2);
    LAGOON_RETURN_IF_ERROR(WriteLine(path + file, std::to_string(weight)));
  }
  return {};
}

ControlGroups::~ControlGroups() {
  std::error_code ignored;  // a group that is left has no process, and costs nothing
  for (const bool real_time : {true, false}) fs::remove(PathOf(real_time), ignored);
  fs::remove(folder_, ignored);
}

Status ControlGroups::Add(pid_t process, bool real_time) {
  return WriteLine(PathOf(real_time) + "/cgroup.procs", std::to_string(process));
}

}  // namespace lagoon::bench

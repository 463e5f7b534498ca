#include "server/remote/connect.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace lagoon {
namespace {

// The memory of a server that does not say how much there is.
constexpr std::int64_t kUncounted = 1'000'000'000'000'000;

}  // namespace

ConnectMember ConnectServers(RemoteOptions options) {
  // All members share the threads.
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  options.pool = std::make_shared<IoPool>(std::clamp(cores, 2, 4), "lagoon-link");
  return [options = std::move(options)](const FleetJoin& join, const std::string& front) {
    RemoteOptions own = options;
    own.address = join.address;
    own.name = join.name;
    own.front = front;
    auto core = std::make_unique<RemoteCore>(own);
    FleetMember member;
    member.name = join.name;
    member.address = join.address;
    member.memory_bytes = join.memory_bytes > 0 ? join.memory_bytes : kUncounted;
    member.link = core.get();
    member.core = std::move(core);
    return member;
  };
}

}  // namespace lagoon

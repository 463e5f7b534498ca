#include "server/http/json_lane.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace lagoon {
namespace {

// Gives the lane a tenth of the CPU time of a thread of normal priority, because the threads of the
// device and the edges run on the same cores.
constexpr int kNice = 10;  // more than the server's own threads
// Several times the time of parsing a byte: small work overtakes large work that came shortly
// before, and no work waits for ever.
constexpr Nanoseconds kRankPerByte{100};

}  // namespace

JsonLane::JsonLane(std::size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Run(); }) {}

JsonLane::~JsonLane() { Stop(); }

bool JsonLane::Post(TimePoint since, std::size_t bytes, std::function<void()> work) {
  const MutexLock lock(mutex_);
  if (stopped_ || waiting_.size() >= max_waiting_) return false;
  waiting_.emplace(since + kRankPerByte * static_cast<std::int64_t>(bytes), std::move(work));
  changed_.NotifyOne();
  return true;
}

void JsonLane::Stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void JsonLane::Run() {
  NameThisThread("lagoon-json");
  // For this thread only: in Linux each thread has a nice value. Without permission nothing
  // changes.
  ::setpriority(PRIO_PROCESS, 0, std::min(::getpriority(PRIO_PROCESS, 0) + kNice, 19));
  for (;;) {
    std::function<void()> work;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stopped_) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      work = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    try {
      work();
    } catch (const std::exception& e) {  // memory ran out
      spdlog::error("server: work on a large JSON text failed: {}", e.what());
    }
  }
}

}  // namespace lagoon

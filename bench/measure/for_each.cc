#include "bench/measure/for_each.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace lagoon::bench {

Status ForEach(std::size_t count, int threads, const std::function<Status(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  Mutex mutex;
  Status first;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) {
      const Status status = task(i);
      if (status) continue;
      next.store(count);
      const MutexLock lock(mutex);
      if (first) first = status;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  return first;
}

}  // namespace lagoon::bench

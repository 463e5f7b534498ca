#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "base/time.h"

namespace lagoon {

/// JSON of at most this many bytes is parsed on an edge thread: less than 1 ms at the 20 bytes a
/// microsecond that a slow core parses.
inline constexpr std::size_t kMaxEdgeJsonBytes = std::size_t{16} << 10;
/// Answers of at most this many elements are written as JSON on an edge thread: less than 1 ms at
/// 200 ns an element.
inline constexpr std::size_t kMaxEdgeElements = 4096;

/// One thread at low priority that parses and renders JSON, and compresses answers, that are too
/// large for the edge threads.
/// A connection has one request in progress, so it waits behind at most one piece of work of each
/// other connection. Work is ordered by its time of arrival plus a time for its bytes, so that
/// small work goes ahead. Any thread may call any method.
class JsonLane {
 public:
  /// Most pieces of work of all connections that may wait; more are refused.
  static constexpr std::size_t kMaxWaiting = 256;

  explicit JsonLane(std::size_t max_waiting = kMaxWaiting);
  /// Stop().
  ~JsonLane();
  JsonLane(const JsonLane&) = delete;
  JsonLane& operator=(const JsonLane&) = delete;

  /// Calls `work` once, on the lane's thread. `since`: when the request arrived. `bytes`: how much
  /// there is to parse or write. False: max_waiting pieces wait already, or the lane has stopped.
  [[nodiscard]] bool Post(TimePoint since, std::size_t bytes, std::function<void()> work);

  /// Does the work that waits and ends the thread. Must not be called by `work`.
  void Stop();

 private:
  void Run();

  const std::size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  // By arrival plus a time for the bytes.
  std::multimap<TimePoint, std::function<void()>> waiting_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace lagoon

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/time.h"
#include "serving/core/request.h"

namespace lagoon {

class Flight;

/// The table of requests: all of a device between Infer and their answers. Any thread.
class Flights {
 public:
  Flights() = default;
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  /// Gives the request a handle that no other request of this process has had. Returns false after
  /// Close(): the request must be refused then.
  bool Add(Flight& flight);
  /// The same for a step of a request that was added before: also after Close().
  void AddStep(Flight& flight);
  /// The same for a request of a program: after Close() only while requests are in flight, and not
  /// after EndAll(). Returns false otherwise.
  bool AddCall(Flight& flight);
  void Remove(Flight& flight);
  /// Null: no such request is in flight.
  std::shared_ptr<Flight> Find(RequestHandle handle);

  /// From now on no request is added. `why`: the error message for later requests. Idempotent: the
  /// first reason stays. `lost`: the device was lost, so that requests which are cancelled from now
  /// on are answered that.
  void Close(std::string why, bool lost = false);
  bool lost() const { return lost_.load(); }
  /// The reason given to Close(). Only after Close().
  std::string why_closed();
  /// Cancels all that are in flight. Later ones only if Close() came before.
  void CancelAll();
  /// The same after Close(). The clients did not ask for that: requests which are cancelled from
  /// now on are answered kUnavailable, and why.
  void EndAll();
  bool ended() const { return ended_.load(); }
  /// Returns true when no request is left, false when `until` has passed.
  bool WaitUntilEmpty(TimePoint until);

 private:
  static constexpr std::size_t kLists = 256;

  void Link(Flight& flight) REQUIRES(mutex_);
  Flight*& ListOf(RequestHandle handle) REQUIRES(mutex_);

  Mutex mutex_;
  CondVar empty_;
  /// By the last digits of the handle: the heads of lists that are linked through the requests.
  std::array<Flight*, kLists> lists_ GUARDED_BY(mutex_){};
  std::size_t count_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::string why_closed_ GUARDED_BY(mutex_);
  std::atomic<bool> lost_{false}, ended_{false};
};

}  // namespace lagoon

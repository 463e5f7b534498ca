#include "serving/request/flights.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "serving/request/flight.h"

namespace lagoon {
namespace {

/// Shared by all devices, so that a handle of a device that was lost means nothing to the next one.
std::atomic<std::uint64_t> last_handle{0};

}  // namespace

Flight*& Flights::ListOf(RequestHandle handle) {
  return lists_[static_cast<std::uint64_t>(handle) % kLists];
}

bool Flights::Add(Flight& flight) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  Link(flight);
  return true;
}

void Flights::AddStep(Flight& flight) {
  const MutexLock lock(mutex_);
  Link(flight);
}

bool Flights::AddCall(Flight& flight) {
  const MutexLock lock(mutex_);
  if (closed_ && (count_ == 0 || ended_.load() || lost_.load())) return false;
  Link(flight);
  return true;
}

void Flights::Link(Flight& flight) {
  const RequestHandle handle{last_handle.fetch_add(1, std::memory_order_relaxed) + 1};
  flight.handle_ = handle;
  Flight*& first = ListOf(handle);
  flight.next_ = first;
  if (first != nullptr) first->previous_ = &flight;
  first = &flight;
  flight.listed_ = true;
  ++count_;
}

void Flights::Remove(Flight& flight) {
  const MutexLock lock(mutex_);
  if (flight.previous_ != nullptr) flight.previous_->next_ = flight.next_;
  if (flight.next_ != nullptr) flight.next_->previous_ = flight.previous_;
  Flight*& first = ListOf(flight.handle_);
  if (first == &flight) first = flight.next_;
  if (--count_ == 0 && closed_) empty_.NotifyAll();
}

std::shared_ptr<Flight> Flights::Find(RequestHandle handle) {
  const MutexLock lock(mutex_);
  Flight* flight = ListOf(handle);
  while (flight != nullptr && flight->handle_ != handle) flight = flight->next_;
  return flight == nullptr ? nullptr : flight->weak_from_this().lock();
}

void Flights::Close(std::string why, bool lost) {
  if (lost) lost_.store(true);
  const MutexLock lock(mutex_);
  if (!closed_) why_closed_ = std::move(why);
  closed_ = true;
}

std::string Flights::why_closed() {
  const MutexLock lock(mutex_);
  return why_closed_;
}

void Flights::CancelAll() {
  std::vector<std::shared_ptr<Flight>> flights;
  {
    const MutexLock lock(mutex_);
    flights.reserve(count_);
    for (Flight* first : lists_) {
      for (Flight* flight = first; flight != nullptr; flight = flight->next_) {
        if (auto alive = flight->weak_from_this().lock()) flights.push_back(std::move(alive));
      }
    }
  }
  // The oldest ones first, as they stand at the front of the queues.
  std::ranges::sort(flights, {}, [](const auto& flight) { return flight->handle(); });
  // Without the mutex: a request may end inside Cancel(), which takes the mutex in Remove().
  for (const auto& flight : flights) flight->Cancel();
}

void Flights::EndAll() {
  {
    const MutexLock lock(mutex_);  // no call is added behind those that are cancelled
    ended_.store(true);
  }
  CancelAll();
}

bool Flights::WaitUntilEmpty(TimePoint until) {
  const MutexLock lock(mutex_);
  while (count_ > 0) {
    if (until == kNoDeadline) {
      empty_.Wait(mutex_);
    } else if (Now() >= until) {
      return false;
    } else {
      empty_.WaitUntil(mutex_, until);
    }
  }
  return true;
}

}  // namespace lagoon

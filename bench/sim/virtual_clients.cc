#include "bench/sim/virtual_clients.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon::bench {
namespace {

// Virtual time after which a request that has not ended is a bug of the dispatcher. Without this
// limit the loop would never end.
constexpr Nanoseconds kStalled = std::chrono::hours(24);

// Closed loops: so many requests must have ended in the window that parts of requests count.
constexpr std::size_t kLeastForParts = 5;

}  // namespace

VirtualClients::VirtualClients(Device& device, Dispatcher& dispatcher,
                               const std::vector<DisbClient>& clients,
                               const std::vector<std::optional<QueueId>>& queues)
    : device_(device),
      dispatcher_(dispatcher),
      clients_(clients),
      queues_(queues),
      one_at_a_time_(clients.size()),
      runs_(clients.size()) {
  LAGOON_CHECK(queues.size() == clients.size() && device.info().virtual_time);
}

std::vector<VirtualRun> VirtualClients::Run(const DisbWindow& window, Nanoseconds settle) {
  begin_ = device_.Now() + settle;
  end_ = begin_ + window.span;
  last_call_ = end_ + window.span;
  PlanArrivals(window);
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (queues_[i] && IsClosedLoop(clients_[i])) again_.push_back(i);
  }
  for (;;) {
    PostDue();
    if (running_ == 0 && next_ == arrivals_.size()) break;
    const TimePoint stalled = end_ + kStalled;
    device_.Wait(std::min(NextArrival(), stalled));
    LAGOON_CHECK(device_.Now() < stalled);
  }
  CountThroughput();
  return std::move(runs_);
}

void VirtualClients::PlanArrivals(const DisbWindow& window) {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (!queues_[i]) continue;
    for (const Nanoseconds offset : window.arrivals[i]) arrivals_.push_back({begin_ + offset, i});
  }
  std::stable_sort(arrivals_.begin(), arrivals_.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  open_left_ = arrivals_.size();
}

// Posting takes host time, in which more arrivals may become due.
void VirtualClients::PostDue() {
  for (bool any = true; any;) {
    any = false;
    while (NextArrival() <= device_.Now()) {
      Arrive(arrivals_[next_++]);
      any = true;
    }
    std::vector<std::size_t> again;
    again.swap(again_);
    for (const std::size_t client : again) {
      if (!IsClosedLoop(clients_[client])) {
        OneAtATime& one = one_at_a_time_[client];
        Post(client, *std::exchange(one.due, std::nullopt), device_.Now());
      } else if (MayLoop()) {
        Post(client, device_.Now(), device_.Now());
      } else {
        continue;
      }
      any = true;
    }
  }
}

void VirtualClients::Arrive(const Arrival& arrival) {
  if (!TakesNewest(arrival.client)) return Post(arrival.client, arrival.at, arrival.at);
  OneAtATime& one = one_at_a_time_[arrival.client];
  if (!one.busy) {
    one.busy = true;
    return Post(arrival.client, arrival.at, device_.Now());
  }
  if (one.due) {
    ++runs_[arrival.client].dropped;
    --open_left_;
  }
  one.due = arrival.at;
}

// Closed loops go on until the window has ended and all requests of open loops, but at most for
// another window's length.
bool VirtualClients::MayLoop() const {
  const TimePoint now = device_.Now();
  return now < end_ || (open_left_ > 0 && now < last_call_);
}

void VirtualClients::Post(std::size_t client, TimePoint intended, TimePoint from) {
  Request& request = requests_.emplace_back();
  request.owner = this;
  request.client = client;
  request.intended = intended;
  request.from = from;
  ++running_;
  if (IsRealTime(clients_[client])) request.first = real_time_++ == 0;
  // The queue's bound is above the number of requests that a window can have.
  LAGOON_CHECK(dispatcher_.Post({*queues_[client], kNoDeadline, {}, {}, &request}).has_value());
}

// PostDue() posts the client's next request: posting here would recurse.
void VirtualClients::Ended(const Request& request, const JobResult& result) {
  LAGOON_CHECK(result.outcome == Outcome::kDone);
  --running_;
  if (IsRealTime(clients_[request.client])) --real_time_;
  VirtualRun& run = runs_[request.client];
  if (request.first) run.starts_us.push_back(ToMicroseconds(result.first_block - request.from));
  const TimePoint at = result.finished;
  const bool ends_inside = at >= begin_ && at < end_;
  run.ended += ends_inside ? 1 : 0;
  if (!IsClosedLoop(clients_[request.client])) return EndedOpen(request, at);
  again_.push_back(request.client);
  if (ends_inside) run.latencies_ms.push_back(ToMilliseconds(at - request.from));
  const Nanoseconds inside = std::min(at, end_) - std::max(request.from, begin_);
  const Nanoseconds took = std::max(at - request.from, Nanoseconds(1));
  run.completed +=
      std::max(0.0, static_cast<double>(inside.count())) / static_cast<double>(took.count());
}

void VirtualClients::EndedOpen(const Request& request, TimePoint at) {
  --open_left_;
  VirtualRun& run = runs_[request.client];
  run.latencies_ms.push_back(ToMilliseconds(at - request.from));
  if (!TakesNewest(request.client)) return;
  run.from_arrival_ms.push_back(ToMilliseconds(at - request.intended));
  OneAtATime& one = one_at_a_time_[request.client];
  one.busy = one.due.has_value();
  if (one.busy) again_.push_back(request.client);
}

// The parts of the requests that the window's edges cut even out over many requests. With few they
// would be most of the throughput: a request that lasts longer than the window would count nearly
// whole.
void VirtualClients::CountThroughput() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    VirtualRun& run = runs_[i];
    if (IsClosedLoop(clients_[i]) && run.ended >= kLeastForParts) continue;
    run.completed = static_cast<double>(run.ended);
  }
}

}  // namespace lagoon::bench

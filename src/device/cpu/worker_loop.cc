// What the threads of a WorkerDevice do.

#include <algorithm>

#include "device/cpu/worker_device.h"
#include "device/host/busy_lock.h"
#include "device/observer.h"

namespace lagoon {
namespace {

// How long a worker without work keeps looking before it sleeps. At a kernel's tail one worker
// waits for the other's last block, up to one block (20-100 us). If the worker slept then, almost
// every kernel would cost a futex wake-up (5-50 us). Longer spinning would take the core from the
// threads that bring requests: with two cores there is no other.
constexpr Nanoseconds kIdleSpin = std::chrono::microseconds(100);
constexpr int kPausesPerClock = 16;

// True if `next` continues `last`, or is more urgent. Then the news of `last` wait for one block.
bool Continues(const LaunchTable::Assignment& next, const LaunchTable::Assignment& last) {
  if (next.rank < last.rank) return true;
  if (next.stream != kUnordered && next.stream == last.stream) return true;
  return std::any_of(next.deps.begin(), next.deps.end(),
                     [&](const Dep& dep) { return dep.on == last.progress; });
}

}  // namespace

void WorkerDevice::RunWorker(Worker& worker) {
  while (NextWork(worker)) RunWork(worker);
}

// Returns what the worker finished, takes the next work and delivers news. False: the device stops.
bool WorkerDevice::NextWork(Worker& worker) {
  std::optional<Assignment> last = std::exchange(worker.work, std::nullopt);
  for (;; last.reset()) {
    if (!TakeWork(worker, last ? &*last : nullptr)) return false;
    if (!worker.work) {
      DeliverNews();
      AwaitChange(worker);
      continue;
    }
    // News of a kernel wait until the first block of its successor has run, so that the listener's
    // time does not add to the gap between kernels. A worker without work delivers the news
    // meanwhile. In all other cases the news come first: the next block may belong to another job
    // and be long.
    if (last && !worker.news_deferred && Continues(*worker.work, *last)) {
      worker.news_deferred = undelivered_news_.load(std::memory_order_relaxed);
    } else {
      worker.news_deferred = false;
      DeliverNews();
    }
    return true;
  }
}

// False: the device stops.
bool WorkerDevice::TakeWork(Worker& worker, const Assignment* last) {
  std::uint32_t wake = 0;
  std::uint64_t wanted = 0;
  {
    BusyLock lock(mutex_);
    bool may_run = false;
    if (last != nullptr) may_run = table_.Finish(*last, worker.why, worker.left_at);
    if (stopping_.load(std::memory_order_relaxed)) return false;
    worker.work = table_.Pick(worker.unit);
    Publish(may_run);
    worker.seen_epoch = epoch_.load(std::memory_order_relaxed);
    if (worker.work.has_value() == worker.idle) {
      worker.idle = !worker.idle;
      worker.idle ? idle_.Enter(lagoon::Now()) : idle_.Exit(lagoon::Now());
    }
    if (worker.work) {
      if (worker.next_scratch.size() > worker.scratch.size()) {
        std::swap(worker.scratch, worker.next_scratch);
      }
    }
    // One is enough if every worker may take what is left: the woken worker wakes the next. With
    // shares, a worker that finds nothing may leave work that only others may take. Without this
    // wake-up they would sleep on: the notification that woke this worker was meant for them.
    if (sleepers_ != 0 && (worker.work || table_.any_bound()) && table_.HasRunnable()) {
      wake = sleepers_;
      wanted = Wanted(1);
    }
  }
  WakeWorkers(wanted, wake);
  return true;
}

void WorkerDevice::RunWork(Worker& worker) {
  const Assignment& work = *worker.work;
  BlockContext context(work.guards, {worker.scratch.data(), worker.scratch.size()}, probe_);
  DeviceBlock block{.launch = work.id,
                    .unit = worker.unit,
                    .body = work.body,
                    .args = work.args,
                    .copy = work.copy};
  const auto run = [&](std::uint32_t tile) {
    const TimePoint placed = lagoon::Now();
    worker.busy.Start(placed);
    if (observer_ != nullptr) {
      block.tile = tile;
      block.placed = placed;
      observer_->OnPlaced(block);
    }
    const bool committed = work.body(work.args, tile, context);
    const TimePoint ended = lagoon::Now();
    worker.busy.Stop(ended);
    if (observer_ != nullptr) observer_->OnEnded(block, ended, committed);
    return committed;
  };
  worker.why = RunBlocks(
      *work.progress, work.deps, work.guards, run, [&] { return ShouldYield(worker); },
      std::optional(work.tile));
  worker.left_at = lagoon::Now();
}

// Called after every commit but a kernel's last, without the lock.
bool WorkerDevice::ShouldYield(Worker& worker) {
  if (worker.news_deferred) {
    worker.news_deferred = false;
    DeliverNews();
  }
  if (stopping_.load(std::memory_order_relaxed)) return true;
  if (watchers_.Any()) SettleAll();
  const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
  if (epoch == worker.seen_epoch) return false;
  worker.seen_epoch = epoch;
  const Assignment& work = *worker.work;
  const bool at_home = shares_.Has(work.share, worker.unit);
  if (!at_home && !work.beyond_share) return true;  // the share has moved away
  if (at_home && best_rank_.load(std::memory_order_relaxed) >= work.rank) return false;
  BusyLock lock(mutex_);
  return table_.HasBetter(work, worker.unit);
}

void WorkerDevice::SettleAll() {
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    table_.SettleAll();
    Publish(/*may_run=*/true);
    if (sleepers_ != 0 && table_.HasRunnable()) wake = sleepers_;
  }
  WakeWorkers(wake, wake);
  DeliverNews();
}

void WorkerDevice::AwaitChange(Worker& worker) {
  if (SpinForChange(worker)) return;
  MutexLock lock(mutex_);
  ++sleepers_;
  while (epoch_.load(std::memory_order_relaxed) == worker.seen_epoch &&
         !stopping_.load(std::memory_order_relaxed)) {
    work_.Wait(mutex_);
  }
  --sleepers_;
}

bool WorkerDevice::SpinForChange(const Worker& worker) const {
  const TimePoint until = lagoon::Now() + kIdleSpin;
  do {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (epoch_.load(std::memory_order_relaxed) != worker.seen_epoch) return true;
      if (undelivered_news_.load(std::memory_order_relaxed)) return true;
      CpuPause();
    }
  } while (lagoon::Now() < until);
  return false;
}

void WorkerDevice::DeliverNews() {
  if (!undelivered_news_.load(std::memory_order_relaxed)) return;
  // acquire: the events are visible to Poll(), and the waiters are counted.
  if (!undelivered_news_.exchange(false, std::memory_order_acquire)) return;
  if (pending_events_.load(std::memory_order_acquire) == 0) return;  // polled meanwhile
  listener_.Tell();
  NotifyWaiters();
}

}  // namespace lagoon

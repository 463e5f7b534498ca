// The loop of the threads of a WorkerPool.

#include <algorithm>

#include "device/cpu/worker_pool.h"
#include "device/host/busy_lock.h"
#include "device/observer.h"

namespace lagoon {
namespace {

// How long a background worker that has work keeps its news. To deliver them another thread wakes
// up on the same core, which costs about 10 us.
constexpr Nanoseconds kMostDefer = std::chrono::microseconds(300);

// True if `next` continues `last`, or is more urgent. Then the news of `last` wait for one block.
bool Continues(const LaunchTable::Assignment& next, const LaunchTable::Assignment& last) {
  if (next.rank < last.rank) return true;
  if (next.stream != kUnordered && next.stream == last.stream) return true;
  return std::any_of(next.deps.begin(), next.deps.end(),
                     [&](const Dep& dep) { return dep.on == last.progress; });
}

}  // namespace

void WorkerPool::RunWorker(Worker& worker) {
  while (NextWork(worker)) RunWork(worker);
}

// Returns what the worker finished, takes the next work and delivers news. False: the pool stops.
bool WorkerPool::NextWork(Worker& worker) {
  std::optional<Assignment> last = std::exchange(worker.work, std::nullopt);
  for (;; last.reset()) {
    if (!TakeWork(worker, last ? &*last : nullptr)) return false;
    if (!worker.work) {
      DeliverNews();
      AwaitChange(worker);
      continue;
    }
    if (last && MayDefer(worker, *last)) {
      const bool news = undelivered_news_.load(std::memory_order_relaxed);
      if (news && !worker.news_deferred) worker.deferred_at = worker.left_at;
      worker.news_deferred = news;
    } else {
      worker.news_deferred = false;
      DeliverNews();
    }
    return true;
  }
}

// News of a kernel wait until the first block of its successor has run, so that the listener's time
// does not add to the gap between kernels. A worker without work delivers the news meanwhile. In
// all other cases the news come first: the next block may belong to another job and be long. In the
// background they may wait while enough launches are left.
bool WorkerPool::MayDefer(const Worker& worker, const Assignment& last) const {
  if (!options_.background) return !worker.news_deferred && Continues(*worker.work, last);
  return !worker.few_left &&
         (!worker.news_deferred || worker.left_at - worker.deferred_at < kMostDefer);
}

// Returns false if the pool stops.
bool WorkerPool::TakeWork(Worker& worker, const Assignment* last) {
  std::uint32_t wake = 0;
  std::uint64_t wanted = 0;
  {
    BusyLock lock(mutex_);
    bool may_run = false;
    if (last != nullptr) may_run = table_.Finish(*last, worker.why, worker.left_at);
    if (stopping_.load(std::memory_order_relaxed)) return false;
    // Before the letters are read, so that one that comes later changes it.
    worker.seen_epoch = epoch_.load(std::memory_order_acquire);
    ReadLetters();
    worker.work = table_.Pick(worker.unit, LevelOf(worker));
    Publish(may_run);
    if (may_run) ++worker.seen_epoch;  // this worker has seen its own change
    worker.few_left = table_.live() <= workers_.size();
    if (worker.work.has_value() == worker.idle.load(std::memory_order_relaxed)) {
      worker.idle.store(!worker.work.has_value(), std::memory_order_relaxed);
      idle_.SetIdle(IdleUnits(), lagoon::Now());
    }
    // One is enough if every worker may take what is left: the woken worker wakes the next. With
    // shares, a worker that finds nothing may leave work that only others may take. Without this
    // wake-up they would sleep on: the notification that woke this worker was meant for them.
    const std::uint32_t sleepers = sleepers_.load(std::memory_order_seq_cst);
    if (sleepers != 0 && (worker.work || table_.any_bound()) && table_.HasRunnable()) {
      wake = sleepers;
      wanted = Wanted(1);
    }
  }
  WakeWorkers(wanted, wake);
  return true;
}

void WorkerPool::RunWork(Worker& worker) {
  Assignment& work = *worker.work;
  const Buffer* const own = worker.scratch.load(std::memory_order_acquire);
  const auto scratch =
      own == nullptr ? std::span<std::byte>() : std::span(own->data(), own->size());
  BlockContext context(work.guards, scratch, options_.probe);
  DeviceBlock block{.launch = work.id,
                    .unit = options_.first_unit + worker.unit,
                    .body = work.body,
                    .args = work.args,
                    .copy = work.copy};
  const auto run = [&](std::uint32_t tile) {
    if (work.told != nullptr && work.told->Begin()) TellProgress(work);
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
    worker.left_at = ended;
    if (work.expected_block > Nanoseconds(0)) {
      const Nanoseconds more = ended - placed - work.expected_block;
      if (more >= kLeastStolen && more > (kStolenRatio - 1) * work.expected_block) {
        work.stolen += more;
      }
    }
    if (observer_ != nullptr) observer_->OnEnded(block, ended, committed);
    worker.tells = committed && work.told != nullptr && work.told->Commit();
    return committed;
  };
  worker.why = RunBlocks(
      *work.progress, work.deps, work.guards, run,
      [&] {
        const bool yields = ShouldYield(worker);  // first: it tells others of the last block
        return yields || (worker.until != nullptr && Over(*worker.until, worker.left_at));
      },
      std::optional(work.tile), work.from);
  worker.left_at = lagoon::Now();
}

// Called after every commit but a kernel's last, without the lock.
bool WorkerPool::ShouldYield(Worker& worker) {
  if (std::exchange(worker.tells, false)) TellProgress(*worker.work);
  if (worker.news_deferred &&
      (!options_.background || worker.left_at - worker.deferred_at >= kMostDefer)) {
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
  if (at_home && mailbox_ == nullptr && best_rank_.load(std::memory_order_relaxed) >= work.rank) {
    return false;
  }
  BusyLock lock(mutex_);
  if (HasLetters()) {
    ReadLetters();
    Publish(/*may_run=*/false);
  }
  return table_.HasBetter(work, worker.unit, LevelOf(worker));
}

void WorkerPool::TellProgress(const Assignment& work) {
  {
    BusyLock lock(mutex_);
    table_.Tell(work);
    Publish(/*may_run=*/false);
  }
  DeliverNews();
}

void WorkerPool::SettleAll() {
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    table_.SettleAll();
    Publish(/*may_run=*/true);
    if (table_.HasRunnable()) wake = sleepers_.load(std::memory_order_seq_cst);
  }
  WakeWorkers(wake, wake);
  DeliverNews();
}

void WorkerPool::AwaitChange(Worker& worker) {
  // The pool's end comes without the lock. A worker that did not see it when it looked for work may
  // have seen the epoch that came with it.
  if (stopping_.load(std::memory_order_relaxed)) return;
  const std::uint32_t seen = worker.seen_epoch;  // a thread that borrows the unit changes it
  UnitPlace& place = worker.place;
  place.BeginIdle();
  if (SpinForChange(seen, [&](TimePoint) { return !place.idle(); }) && place.EndIdle()) return;
  if (place.FallAsleep()) {
    if (pending() != 0) on_news_();  // a waiter that hoped for more events learns that none comes
    // After FallAsleep(), as UnitPlace says. relaxed: the epoch of the end comes after its flag.
    const bool changed = epoch_.load(std::memory_order_seq_cst) != seen;
    if ((changed || stopping_.load(std::memory_order_relaxed)) && place.WakeItself()) return;
  }
  place.AwaitTurn();
}

void WorkerPool::DeliverNews() {
  if (!undelivered_news_.load(std::memory_order_relaxed)) return;
  // acquire: the events are visible to Poll().
  if (!undelivered_news_.exchange(false, std::memory_order_acquire)) return;
  if (pending() != 0) on_news_();  // else polled meanwhile
}

}  // namespace lagoon

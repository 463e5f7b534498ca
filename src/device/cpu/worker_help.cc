// Threads that work in the place of a worker of a WorkerPool, while they wait for a job.

#include "device/cpu/worker_pool.h"

namespace lagoon {

// Idle workers first: these are awake, and would take the work from the thread that borrows.
BorrowedUnit WorkerPool::Borrow(ShareId share) {
  for (const bool asleep : {false, true}) {
    for (const auto& worker : workers_) {
      if (!shares_.Has(share, worker->unit) || !worker->place.Borrow(asleep)) continue;
      BusyLock lock(mutex_);
      return table_.Lend(worker->unit);
    }
  }
  return kNoUnit;
}

bool WorkerPool::Over(const HelpUntil& until, TimePoint now) {
  // acquire: what the thread waits for has happened.
  return (until.word->load(std::memory_order_acquire) & kHelpDone) != 0 || now >= until.time;
}

// News go first, other than in a worker's loop: they may be those that the thread waits for, and
// then it must not begin a block of another job.
void WorkerPool::Help(BorrowedUnit unit, const HelpUntil& until) {
  Worker& worker = *workers_[LaunchTable::UnitOf(unit)];
  worker.until = &until;
  while (!Over(until, lagoon::Now()) && TakeWork(worker, nullptr)) {
    const bool worked = worker.work.has_value();
    if (worked) {
      RunWork(worker);
      FinishWork(worker);
    }
    DeliverNews();
    const auto over = [&](TimePoint now) { return Over(until, now); };
    if (!worked && !SpinForChange(worker.seen_epoch, over)) break;
  }
  GiveBack(worker);
}

// Wakes no other worker for what becomes runnable: this thread may take it, and TakeWork() or
// GiveBack() follows.
void WorkerPool::FinishWork(Worker& worker) {
  BusyLock lock(mutex_);
  Publish(table_.Finish(*worker.work, worker.why, worker.left_at));
  worker.work.reset();
}

void WorkerPool::GiveBack(Worker& worker) {
  std::uint32_t wake = 0;
  std::uint64_t wanted = 0;
  {
    BusyLock lock(mutex_);
    worker.until = nullptr;
    table_.TakeBack(worker.unit);
    if (!worker.idle.load(std::memory_order_relaxed)) {
      worker.idle.store(true, std::memory_order_relaxed);
      idle_.SetIdle(IdleUnits(), lagoon::Now());
    }
    worker.place.GiveBack();
    // What became runnable meanwhile did not wake this unit's worker.
    if (table_.HasRunnable()) {
      wake = sleepers_.load(std::memory_order_seq_cst);
      wanted = Wanted(1);
    }
  }
  WakeWorkers(wanted, wake);
  if (pending() != 0) on_news_();  // as a worker that goes to sleep
}

}  // namespace lagoon

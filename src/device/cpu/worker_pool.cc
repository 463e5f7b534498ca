#include "device/cpu/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"
#include "device/host/busy_lock.h"
#include "device/host/float_control.h"
#include "device/host/machine.h"

namespace lagoon {
namespace {

LaunchTable::Limits LimitsOf(const WorkerPool::Options& options) {
  LaunchTable::Limits limits;
  if (options.background) limits.launches = WorkerPool::kBackgroundLaunches;
  if (!options.background) limits.units = options.workers;
  limits.workers = std::max<std::uint32_t>(options.workers, 1);
  LAGOON_CHECK(limits.events >= std::size_t{kEventsPerLaunch} * limits.launches);
  return limits;
}

}  // namespace

WorkerPool::WorkerPool(Options options, const GuardWords& guards, const Shares& shares,
                       std::function<void()> on_news)
    : options_(std::move(options)),
      shares_(shares),
      on_news_(std::move(on_news)),
      table_(LimitsOf(options_), guards, shares),
      table_events_(table_.events()) {
  if (options_.background) mailbox_ = std::make_unique<Mailbox>(kBackgroundLaunches);
  for (std::uint32_t i = 0; i < options_.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>(i, /*idle_in=*/options_.background, sleepers_));
  }
}

WorkerPool::~WorkerPool() {
  stopping_.store(true, std::memory_order_relaxed);
  // release: a worker that sees this epoch sees the end.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  for (const auto& worker : workers_) worker->place.End();
  Hurry(true);
  workers_.clear();
}

Status WorkerPool::Start(std::span<const int> cores) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = *workers_[i];
    worker.thread = std::jthread([this, &worker, i] {
      const FloatControl control;  // a new thread has that of its creator
      NameThisThread(options_.name + "-" + std::to_string(i));
      worker.thread_id.store(::gettid(), std::memory_order_release);
      if (options_.gives_way) GiveWay(::gettid());
      RunWorker(worker);
    });
    if (!cores.empty()) LAGOON_RETURN_IF_ERROR(PinThread(worker.thread, cores[i]));
  }
  return {};
}

void WorkerPool::Hurry(bool hurry) {
  if (!options_.gives_way) return;
  for (const auto& worker : workers_) {
    const pid_t thread = worker->thread_id.load(std::memory_order_acquire);
    if (thread != 0) hurry ? TakeBack(thread) : static_cast<void>(GiveWay(thread));
  }
}

// Without the lock, as a background worker may hold it for long. A worker that runs a launch which
// was submitted later sees its new memory.
void WorkerPool::SetScratch(std::vector<Buffer> scratch) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    scratch_.push_back(std::move(scratch[i]));
    workers_[i]->scratch.store(&scratch_.back(), std::memory_order_release);
  }
}

SubmitResult WorkerPool::Submit(const Launch& launch, Body body) {
  const std::uint64_t tiles = launch.progress->blocks();
  if (mailbox_ == nullptr) return Add(launch, tiles, body);
  Letter letter;
  letter.launch = launch;
  letter.launch.tell_every = 0;  // so that the table has room for all letters
  letter.body = body;
  return Send(letter, launch.share == kAllUnits ? tiles : workers_.size());
}

SubmitResult WorkerPool::Submit(const Copy& copy) {
  if (mailbox_ == nullptr) return Add(copy, CopyBlocks(copy.bytes));
  Letter letter;
  letter.is_copy = true;
  letter.copy = copy;
  return Send(letter, CopyBlocks(copy.bytes));
}

template <typename Work, typename... Code>
SubmitResult WorkerPool::Add(const Work& work, std::uint64_t tiles, Code... code) {
  std::uint32_t wake = 0;
  std::uint64_t wanted = 0;
  {
    BusyLock lock(mutex_);
    const SubmitResult result = table_.Add(work, code...);
    if (result != SubmitResult::kOk) return result;
    watchers_.Enter(table_);
    table_.TakeNews();  // whoever submits polls
    Publish(/*may_run=*/true);
    if (table_.NewestMayRun()) wake = sleepers_.load(std::memory_order_seq_cst);
    const std::uint64_t own = table_.WantedByNewest(tiles);
    wanted = own == 0 ? 0 : Wanted(own);
  }
  WakeWorkers(wanted, wake);
  return SubmitResult::kOk;
}

SubmitResult WorkerPool::Send(const Letter& letter, std::uint64_t tiles) {
  // So many at most, and three events of each, have room in the table. It never refuses a letter.
  if (in_flight_ == kBackgroundLaunches) return SubmitResult::kFull;
  ++in_flight_;
  LAGOON_CHECK(mailbox_->Send(letter));
  Announce(tiles);
  return SubmitResult::kOk;
}

// Called by a background pool after a letter.
void WorkerPool::Announce(std::uint64_t wanted) {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (any_bound_.load(std::memory_order_relaxed)) wanted = workers_.size();
  WakeWorkers(wanted, sleepers_.load(std::memory_order_seq_cst));
}

bool WorkerPool::HasLetters() const {
  return mailbox_ != nullptr && (!mailbox_->empty() || settle_.load(std::memory_order_acquire));
}

void WorkerPool::ReadLetters() {
  if (mailbox_ == nullptr) return;
  for (const Letter* letter = mailbox_->Front(); letter != nullptr; letter = mailbox_->Front()) {
    const SubmitResult result =
        letter->is_copy ? table_.Add(letter->copy) : table_.Add(letter->launch, letter->body);
    LAGOON_CHECK(result == SubmitResult::kOk);
    mailbox_->Take();
    watchers_.Enter(table_);
  }
  // acquire: the guard's word or the count that was changed before.
  if (settle_.exchange(false, std::memory_order_acquire)) table_.SettleAll();
}

// A worker that has begun a tile reads the range of its share again before its next claim, because
// the epoch has changed (ShouldYield).
void WorkerPool::OnShareMoved() {
  if (mailbox_ != nullptr) return Announce(workers_.size());
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    Publish(/*may_run=*/true);
    if (table_.HasRunnable()) wake = sleepers_.load(std::memory_order_seq_cst);
  }
  WakeWorkers(wake, wake);
}

void WorkerPool::OnGuardRaised() {
  if (mailbox_ != nullptr) {
    settle_.store(true, std::memory_order_release);
    return Announce(1);
  }
  std::uint32_t wake = 0;
  {
    BusyLock lock(mutex_);
    table_.SettleAll();
    table_.TakeNews();  // the caller of Raise() polls
    Publish(/*may_run=*/true);
    if (table_.HasRunnable()) wake = sleepers_.load(std::memory_order_seq_cst);
  }
  WakeWorkers(wake, wake);
}

void WorkerPool::OnOthersRetired() {
  if (!watchers_.Any()) return;
  settle_.store(true, std::memory_order_release);
  Announce(1);
}

std::size_t WorkerPool::Poll(std::span<DeviceEvent> events) {
  const std::size_t count = table_events_.Pop(events);
  if (mailbox_ != nullptr) {
    in_flight_ -= static_cast<std::uint32_t>(std::count_if(
        events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count),
        [](const DeviceEvent& event) { return event.kind == DeviceEvent::Kind::kRetired; }));
  }
  return count;
}

UnitTimes WorkerPool::Times() const {
  UnitTimes times;
  for (const auto& worker : workers_) times.busy += worker->busy.Total();
  // Threads of the idle class are meant to lose their cores, and nobody may wait for their lock.
  if (options_.gives_way) return times;
  for (const auto& worker : workers_) {
    const pid_t thread = worker->thread_id.load(std::memory_order_acquire);
    if (thread != 0) times.off_core += TimeOffCore(thread);
  }
  BusyLock lock(mutex_);
  idle_.SetIdle(IdleUnits(), lagoon::Now());
  times.idle = idle_.idle();
  times.idle_while_ready = idle_.idle_while_held();
  return times;
}

void WorkerPool::SetWorkHeld(bool held) {
  if (held == held_) return;
  held_ = held;
  BusyLock lock(mutex_);
  idle_.SetHeld(held, lagoon::Now());
}

// A change of the pool below counts from the next change here on.
std::int64_t WorkerPool::IdleUnits() const {
  std::int64_t units = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const bool below = options_.below == nullptr ||
                       options_.below->workers_[i]->idle.load(std::memory_order_relaxed);
    units += below && workers_[i]->idle.load(std::memory_order_relaxed) ? 1 : 0;
  }
  return units;
}

void WorkerPool::Publish(bool may_run) {
  best_rank_.store(table_.best_rank(), std::memory_order_relaxed);
  any_bound_.store(table_.any_bound(), std::memory_order_relaxed);
  watchers_.Publish(table_.watchers());
  if (table_.TakeNews()) undelivered_news_.store(true, std::memory_order_release);
  // release: a thread that sees the new epoch also sees the rank that belongs to it. seq_cst: this
  // thread sees a worker that went to sleep at the old epoch, or that worker sees the new one.
  if (may_run) epoch_.fetch_add(1, std::memory_order_seq_cst);
}

std::uint64_t WorkerPool::Wanted(std::uint64_t tiles) const {
  return table_.any_bound() ? workers_.size() : tiles;
}

void WorkerPool::WakeWorkers(std::uint64_t count, std::uint32_t sleepers) {
  if (sleepers == 0) return;
  for (const auto& worker : workers_) {
    if (count == 0) return;
    if (worker->place.Wake()) --count;
  }
}

}  // namespace lagoon

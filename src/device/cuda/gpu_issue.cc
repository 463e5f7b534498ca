// Issuing work to the GPU, and reading its reports.

#include <algorithm>

#include "device/cuda/gpu_device.h"

namespace lagoon::cuda {

void GpuDevice::IssueAll() {
  for (const std::uint32_t index : order_) {
    Work& work = works_[index];
    if (lost_) return;
    if (work.issue != nullptr || work.copying) continue;
    // In an ordered stream a launch can only follow one that the GPU has already got. A complete
    // one has retired.
    const std::uint32_t previous = work.stream_before;
    if (previous != kNoIndex && works_[previous].issue == nullptr) continue;
    if (!work.is_copy) {
      TryIssue(work);
    } else if (previous == kNoIndex && DepsMet(work.deps)) {
      work.copying = true;
      ReportPlaced(work);
      copy_queue_.push_back(index);
    }
  }
}

void GpuDevice::TryIssue(Work& work) {
  GridRequest request{
      .work = work, .kernel = kernels_[work.kernel], .run = share_runs_[Raw(work.share)]};
  if (work.Over() || !WaitsOf(work, request.waits)) return;
  for (std::size_t i = 0; i < kGuardsPerLaunch; ++i) request.guards[i] = RefOf(work.guards[i]);
  if (Accept(issuer_->TryIssue(request)) && work.issue != nullptr) MeterUnits();
}

// Collects what must be complete before a block of the launch begins, and is not yet: its
// dependencies, and the launch before it in an ordered stream. False: the GPU cannot check all of
// it, so the host must wait.
bool GpuDevice::WaitsOf(const Work& work, Waits& waits) {
  const auto add = [&](const Dep& dep) REQUIRES(mutex_) {
    if (dep.Met()) return true;
    if (waits.size() == waits.capacity()) return false;
    const DeviceRecord* const record = records_->Find(dep.on->done_word());
    if (record == nullptr) return false;
    waits.push_back({record, dep.blocks});
    return true;
  };
  if (!std::all_of(work.deps.begin(), work.deps.end(), add)) return false;
  if (work.stream_before == kNoIndex) return true;
  const Work& previous = works_[work.stream_before];
  if (previous.is_copy) return false;
  if (previous.Complete()) return true;
  // A revoked launch leaves incomplete, and the waiting grid would leave with it. A launch cannot
  // wait for its own kernel.
  if (previous.Left() || previous.progress == work.progress) return false;
  return add({.on = previous.progress, .blocks = previous.progress->blocks()});
}

// The GPU cannot see the done count of a record without launches in flight: only the host checks
// such a guard.
GuardRef GpuDevice::RefOf(const Guard& guard) {
  GuardRef ref{};
  if (guard.word == nullptr) return ref;
  ref.limit = guard.limit;
  ref.only_before_start = guard.only_before_start ? 1 : 0;
  if (guards_.Owns(guard.word)) {
    const Address at = device_guards_.device() + guards_.IndexOf(guard.word) * kGuardStride;
    ref.word = reinterpret_cast<const u32*>(at);
  } else if (const DeviceRecord* const record = records_->Find(*guard.word)) {
    ref.done = record->ref.done;
    ref.tag = record->ref.tag;
    ref.blocks = record->ref.blocks;
  }
  return ref;
}

bool GpuDevice::TakeNotes() {
  bool any = false;
  while (const std::optional<GridNote> note = issuer_->TakeNote()) {
    any = true;
    OnNote(*note);
  }
  if (any) watchdog_.Hear();
  return any;
}

void GpuDevice::OnNote(const GridNote& note) {
  if (note.kind == Note::kEnded) return MeterUnits();
  Work& work = *note.work;
  if (note.kind == Note::kPlaced) return ReportPlaced(work);
  Progress& progress = *work.progress;
  if (note.value > progress.done()) {
    ReportPlaced(work);
    progress.Mirror(note.value);
  }
  // The launch with the last commit sends this count. Blocks of another launch may have completed
  // the record: then that launch reports it.
  if (note.value == progress.blocks()) ReportComplete(work);
}

bool GpuDevice::CheckFetches() {
  std::size_t kept = 0;
  for (const PendingFetch& fetch : fetches_) {
    if (!fetch_->Reached(fetch.mark)) {
      fetches_[kept++] = fetch;
      continue;
    }
    records_->Store(*fetch.record);
    fetch.record->fetching = fetch.record->dirty = false;
  }
  const bool any = kept < fetches_.size();
  fetches_.resize(kept);
  if (any) watchdog_.Hear();
  return any;
}

void GpuDevice::MeterUnits() { meter_.SetBlocks(issuer_->BlocksInFront(), lagoon::Now()); }

}  // namespace lagoon::cuda

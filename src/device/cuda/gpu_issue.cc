// What the GPU gets, when and in which stream, and what it reports.

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cuda/gpu_device.h"

namespace lagoon::cuda {

void GpuDevice::IssueAll() {
  for (const std::uint32_t index : order_) {
    Work& work = works_[index];
    if (lost_) return;
    if (work.issue != kNoIndex || work.copying) continue;
    // In an ordered stream a launch can only follow one that the GPU has already got. A complete
    // one has retired.
    const std::uint32_t previous = work.stream_before;
    if (previous != kNoIndex && works_[previous].issue == kNoIndex) continue;
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
  Waits waits;
  if (work.Over() || MustWait(work) || !WaitsOf(work, waits)) return;
  std::uint32_t stream = kNoIndex;
  if (!waits.empty()) {
    stream = ChainStream(waits, ShareOf(work));
  } else if (HasRoom(work)) {
    stream = FreeStream(work.rank, ShareOf(work));
  }
  if (stream != kNoIndex) LaunchGrid(work, waits, stream);
}

// Collects what must be complete before a block of the launch begins, and is not yet: its
// dependencies, and the launch before it in an ordered stream. False: the GPU cannot check all of
// it, so the host must wait.
bool GpuDevice::WaitsOf(const Work& work, Waits& waits) const {
  const auto add = [&](const Dep& dep) {
    if (dep.Met()) return true;
    if (waits.size() == waits.capacity()) return false;
    waits.push_back(dep);
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

// True if another grid would find nothing now: the record is on its way to or from the GPU, or the
// missing tiles are with blocks of other grids, and no grid has ended since this launch's last one.
bool GpuDevice::MustWait(const Work& work) {
  const DeviceRecord& record = *work.record;
  if (record.fetching || (record.to_load && record.issues > 0) || record.loading) return true;
  return record.issues > 0 && work.parked_at == record.ends + 1;
}

std::uint32_t GpuDevice::ShareOf(const Work& work) const {
  return work.stream == kUnordered ? 0 : stream_shares_[Raw(work.stream) - 1];
}

// The stream of all grids that work on what the launch waits for; kNoIndex: not one stream, or no
// place in it. Behind these grids the launch needs no word from the host. Its blocks still check
// the dependencies, because the grids in front may leave without a result.
std::uint32_t GpuDevice::ChainStream(const Waits& waits, std::uint32_t share) {
  std::uint32_t stream = kNoIndex;
  for (const Dep& dep : waits) {
    // A partial count is reached before the grid ends: the launch would start too late.
    if (dep.blocks < dep.on->blocks()) return kNoIndex;
    const DeviceRecord* const record = records_->Find(dep.on->done_word());
    if (record == nullptr || record->issues == 0 || record->stream == kNoIndex) return kNoIndex;
    if (stream != kNoIndex && stream != record->stream) return kNoIndex;
    stream = record->stream;
  }
  if (kernel_streams_[stream].share != share ||
      kernel_streams_[stream].issues.size() >= options_.depth) {
    return kNoIndex;
  }
  return stream;
}

// True if running grids of the same or a better rank leave units free. Grids of a worse rank give
// way between their blocks to a stream of higher priority.
bool GpuDevice::HasRoom(const Work& work) const {
  const GpuKernel& kernel = kernels_[Raw(work.kernel)];
  const std::uint32_t share = ShareOf(work);
  const std::uint32_t units = share == 0 ? info_.units : shares_->units(share - 1);
  const std::uint64_t places = std::uint64_t{units} * kernel.occupancy;
  std::uint64_t taken = 0;
  for (const KernelStream& stream : kernel_streams_) {
    if (stream.issues.empty()) continue;
    // That share has its own units.
    if (share != 0 && stream.share != 0 && stream.share != share) continue;
    const Issue& running = issues_[stream.issues.front()];
    const Work& other = works_[running.work];
    if (other.rank > work.rank) continue;
    taken += std::min(other.progress->blocks() - other.progress->done(), running.grid);
  }
  return taken < places;
}

// An idle stream with a priority between the streams of worse ranks and those of better ranks. The
// upper half of the ranks (best effort) prefers the lowest priority.
std::uint32_t GpuDevice::FreeStream(Rank rank, std::uint32_t share) const {
  std::uint32_t above = 0;
  std::uint32_t below = levels_ - 1;
  for (const KernelStream& stream : kernel_streams_) {
    for (const std::uint32_t index : stream.issues) {
      const Rank other = works_[issues_[index].work].rank;
      if (other > rank) above = std::max(above, std::min(stream.level + 1, levels_ - 1));
      if (other < rank && stream.level > 0) below = std::min(below, stream.level - 1);
    }
  }
  const std::uint32_t home = rank >> 63 != 0 ? 0 : levels_ / 2;
  const std::uint32_t level = std::max(std::min(home, below), above);
  std::uint32_t best = kNoIndex;
  std::uint32_t best_distance = levels_;
  for (std::uint32_t i = 0; i < kernel_streams_.size(); ++i) {
    const KernelStream& stream = kernel_streams_[i];
    const bool between = stream.level >= above && stream.level <= std::max(below, above);
    if (!between || !stream.issues.empty() || stream.share != share) continue;
    const std::uint32_t distance =
        stream.level > level ? stream.level - level : level - stream.level;
    if (distance >= best_distance) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

void GpuDevice::LaunchGrid(Work& work, const Waits& waits, std::uint32_t stream) {
  while (next_issue_ == 0 || issues_[next_issue_ % kIssues].work != kNoIndex) {
    if (issues_live_ == kIssues) return;
    ++next_issue_;
  }
  const std::uint32_t blocks = work.progress->blocks();
  const std::uint32_t notes = 4 + blocks / CountInterval(blocks, options_.count_interval);
  if (!ring_->Reserve(notes)) return;
  // Without a limit: one block per tile, placed by the hardware. With a limit: that many blocks,
  // and each takes one tile after the other.
  const std::uint32_t left = blocks - work.progress->done();
  const std::uint32_t grid = work.max_claimants == 0 ? left : std::min(left, work.max_claimants);
  const std::uint32_t slot = next_issue_ % kIssues;
  const Issue issue{IndexOf(work), next_issue_++, stream, grid, notes};
  FillParams(work, issue.id, waits);
  const Stream handle = kernel_streams_[stream].stream->handle();
  DeviceRecord& record = *work.record;
  record.loading = record.to_load;
  if (!Accept(records_->Load(record, driver(), handle), "cuMemcpyHtoDAsync")) return;
  record.stream = record.issues == 0 || record.stream == stream ? stream : kNoIndex;
  ++record.issues;
  record.dirty = true;
  void* parameter = &params_;
  const GpuKernel& kernel = kernels_[Raw(work.kernel)];
  const EntryName& entry = kernel.image->program->entries()[kernel.image->entry];
  const Code code =
      driver().launch(kernel.functions[kernel.image->entry], issue.grid, 1, 1, entry.threads, 1, 1,
                      kernel.shared_bytes, handle, &parameter, nullptr);
  if (!Accept(code, "cuLaunchKernel")) return;
  issues_[slot] = issue;
  ++issues_live_;
  work.issue = slot;
  kernel_streams_[stream].issues.push_back(slot);
  MeterUnits();
}

// Fills `params_` for a grid. `issue`: its tag.
void GpuDevice::FillParams(const Work& work, std::uint32_t issue, const Waits& waits) {
  const CudaImage& image = *kernels_[Raw(work.kernel)].image;
  params_.state = reinterpret_cast<IssueState*>(states_.device()) + issue % kIssues;
  params_.ring = ring_->ref();
  params_.issue = issue;
  params_.started = work.started ? 1 : 0;
  params_.record = work.record->ref;
  params_.body = image.body;
  params_.tiles_per_block = work.max_claimants == 0 ? 1 : 0;
  params_.count_interval = CountInterval(work.progress->blocks(), options_.count_interval);
  params_.dep_count = 0;
  for (const Dep& dep : waits) {
    const DeviceRecord* const record = records_->Find(dep.on->done_word());
    LAGOON_CHECK(record != nullptr);
    params_.deps[params_.dep_count++] = {record->ref.done, record->ref.tag, dep.blocks};
  }
  for (std::size_t i = 0; i < kGuardsPerLaunch; ++i) params_.guards[i] = RefOf(work.guards[i]);
  if (image.args_bytes == 0) {
    std::memcpy(params_.args, &work.args, sizeof(work.args));
  } else {
    std::memcpy(params_.args, work.args, image.args_bytes);
  }
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
  }
  return ref;
}

bool GpuDevice::TakeNotes() {
  bool any = false;
  while (const std::optional<NoteSeen> note = ring_->Take()) {
    any = true;
    OnNote(*note);
  }
  return any;
}

void GpuDevice::OnNote(const NoteSeen& note) {
  Issue& issue = issues_[note.issue % kIssues];
  LAGOON_CHECK(issue.work != kNoIndex && (issue.id & 0xffffff) == note.issue);
  if (note.kind == Note::kEnded) return OnEnded(issue);
  Work& work = works_[issue.work];
  if (note.kind == Note::kPlaced) return ReportPlaced(work);
  Progress& progress = *work.progress;
  if (note.value > progress.done()) progress.Mirror(note.value);
  // The launch with the last commit sends this count. Blocks of another launch may have completed
  // the record: then that launch reports it.
  if (note.value == progress.blocks()) ReportComplete(work);
}

void GpuDevice::OnEnded(Issue& issue) {
  Work& work = works_[issue.work];
  std::vector<std::uint32_t>& in_stream = kernel_streams_[issue.stream].issues;
  in_stream.erase(std::find(in_stream.begin(), in_stream.end(), work.issue));
  DeviceRecord& record = *work.record;
  --record.issues;
  ++record.ends;
  record.loading = false;
  work.parked_at = record.ends + 1;
  work.issue = kNoIndex;
  ring_->Release(issue.notes);
  issue.work = kNoIndex;
  --issues_live_;
  MeterUnits();
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
  return any;
}

void GpuDevice::MeterUnits() {
  std::uint32_t blocks = 0;
  for (const KernelStream& stream : kernel_streams_) {
    if (!stream.issues.empty()) blocks += issues_[stream.issues.front()].grid;
  }
  meter_.SetBlocks(blocks, lagoon::Now());
}

}  // namespace lagoon::cuda

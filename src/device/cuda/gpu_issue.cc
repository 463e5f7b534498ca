// What the GPU gets, when and in which stream, and what it reports.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "device/cuda/gpu_device.h"

namespace lagoon::cuda {

void GpuDevice::IssueAll() {
  for (const std::uint32_t index : order_) {
    Work& work = works_[index];
    if (lost_) return;
    if (work.issue != kNone || work.copying) continue;
    // In an ordered stream a launch can only follow one that the GPU has already got. A complete
    // one has retired.
    const std::uint32_t previous = work.previous_in_stream;
    if (previous != kNone && works_[previous].issue == kNone) continue;
    if (!work.is_copy()) {
      TryIssue(work);
    } else if (previous == kNone && DepsMet(work.copy.deps)) {
      work.copying = true;
      work.segments[0] = {};
      ReportPlaced(work, 0);
      copy_queue_.push_back(index);
    }
  }
}

void GpuDevice::TryIssue(Work& work) {
  Waits waits;
  const std::uint32_t segments = SegmentsToIssue(work, waits);
  if (segments == 0) return;
  std::uint32_t stream = kNone;
  if (!waits.empty()) {
    stream = ChainStream(waits, ShareOf(work));
  } else if (HasRoom(work)) {
    stream = FreeStream(work.rank, ShareOf(work));
  }
  if (stream != kNone) LaunchGrid(work, segments, waits, stream);
}

// Collects what must be complete before a block of the segment begins, and is not yet: its
// dependencies, and the launch before it in an ordered stream. False: the GPU cannot check all of
// it, so the host must wait.
bool GpuDevice::WaitsOf(const Work& work, const WorkSegment& segment, Waits& waits) const {
  const auto add = [&](const Dep& dep) {
    if (dep.Met()) return true;
    if (waits.size() == waits.capacity()) return false;
    waits.push_back(dep);
    return true;
  };
  if (!std::all_of(segment.deps.begin(), segment.deps.end(), add)) return false;
  if (work.previous_in_stream == kNone) return true;
  const Work& previous = works_[work.previous_in_stream];
  if (previous.is_copy()) return false;
  const std::span<const WorkSegment> in_front = previous.all();
  return std::all_of(in_front.begin(), in_front.end(), [&](const WorkSegment& other) {
    const Dep dep{.on = other.progress, .blocks = other.progress->blocks()};
    // A revoked launch leaves incomplete, and the waiting grid would leave with it. A launch cannot
    // wait for its own kernel.
    const bool leaves = Revoked(std::span<const Guard>(other.guards), previous.started);
    if (!dep.Met() && (leaves || other.progress == segment.progress)) return false;
    return add(dep);
  });
}

// Returns a bit for each segment that can use blocks now. The first such segment sets entry kernel
// and shared memory; segments that need more are issued later. `waits`: what the blocks must check
// on the GPU; always empty for launches of several segments.
std::uint32_t GpuDevice::SegmentsToIssue(const Work& work, Waits& waits) const {
  std::uint32_t segments = 0;
  const GpuKernel* first = nullptr;
  for (std::uint32_t i = 0; i < work.segment_count; ++i) {
    const WorkSegment& segment = work.segments[i];
    if (segment.progress->Complete() || MustWait(segment) ||
        Revoked(std::span<const Guard>(segment.guards), work.started)) {
      continue;
    }
    Waits own;
    if (!WaitsOf(work, segment, own) || (work.segment_count > 1 && !own.empty())) continue;
    const GpuKernel& kernel = kernels_[Raw(segment.kernel)];
    if (first == nullptr) first = &kernel;
    const bool fits = kernel.image->program == first->image->program &&
                      kernel.image->entry <= first->image->entry &&
                      kernel.shared_bytes <= first->shared_bytes;
    if (!fits) continue;
    segments |= 1u << i;
    waits = own;
  }
  return segments;
}

// True if another grid would find nothing now: the record is on its way to or from the GPU, or the
// missing tiles are with blocks of other grids, and no grid has ended since this segment's last
// one.
bool GpuDevice::MustWait(const WorkSegment& segment) {
  const DeviceRecord& record = *segment.record;
  if (record.fetching || (record.to_load && record.issues > 0) || record.loading) return true;
  return record.issues > 0 && segment.parked_at == record.ends + 1;
}

std::uint32_t GpuDevice::ShareOf(const Work& work) const {
  return work.stream == kUnordered ? 0 : stream_shares_[Raw(work.stream) - 1];
}

// The stream of all grids that work on what the launch waits for; kNone: not one stream, or no
// place in it. Behind these grids the launch needs no word from the host. Its blocks still check
// the dependencies, because the grids in front may leave without a result.
std::uint32_t GpuDevice::ChainStream(const Waits& waits, std::uint32_t share) {
  std::uint32_t stream = kNone;
  for (const Dep& dep : waits) {
    // A partial count is reached before the grid ends: the launch would start too late.
    if (dep.blocks < dep.on->blocks()) return kNone;
    const DeviceRecord* const record = records_->Find(dep.on->done_word());
    if (record == nullptr || record->issues == 0 || record->stream == kNone) return kNone;
    if (stream != kNone && stream != record->stream) return kNone;
    stream = record->stream;
  }
  if (kernel_streams_[stream].share != share ||
      kernel_streams_[stream].issues.size() >= options_.depth) {
    return kNone;
  }
  return stream;
}

// True if running grids of the same or a better rank leave units free. Grids of a worse rank give
// way between their blocks to a stream of higher priority.
bool GpuDevice::HasRoom(const Work& work) const {
  const GpuKernel& kernel = kernels_[Raw(work.segments[0].kernel)];
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
    std::uint64_t left = 0;
    for (std::uint32_t i = 0; i < other.segment_count; ++i) {
      if ((running.segments >> i & 1) == 0) continue;
      left += other.segments[i].progress->blocks() - other.segments[i].progress->done();
    }
    taken += std::min<std::uint64_t>(left, running.grid);
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
  std::uint32_t best = kNone;
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

void GpuDevice::LaunchGrid(Work& work, std::uint32_t segments, const Waits& waits,
                           std::uint32_t stream) {
  while (next_issue_ == 0 || issues_[next_issue_ % kIssues].work != kNone) {
    if (issues_live_ == kIssues) return;
    ++next_issue_;
  }
  std::uint32_t notes = 1;
  for (std::uint32_t i = 0; i < work.segment_count; ++i) {
    const std::uint32_t blocks = work.segments[i].progress->blocks();
    notes += 3 + blocks / CountInterval(blocks, options_.count_interval);
  }
  if (!ring_->Reserve(notes)) return;
  const std::uint32_t slot = next_issue_ % kIssues;
  const Stream handle = kernel_streams_[stream].stream->handle();
  Issue issue{IndexOf(work), next_issue_++, stream, 0, notes, segments};
  issue.grid = FillTable(work, issue, waits);
  const WorkSegment& first = work.segments[static_cast<std::uint32_t>(std::countr_zero(segments))];
  const GpuKernel& kernel = kernels_[Raw(first.kernel)];
  for (std::uint32_t i = 0; i < work.segment_count; ++i) {
    if ((segments >> i & 1) == 0) continue;
    DeviceRecord& record = *work.segments[i].record;
    record.loading = record.to_load;
    if (!Accept(records_->Load(record, driver(), handle), "cuMemcpyHtoDAsync")) return;
    record.stream = record.issues == 0 || record.stream == stream ? stream : kNone;
    ++record.issues;
    record.dirty = true;
  }
  void* parameter = &params_;
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

// Fills `params_` for the grid. Returns the number of blocks of the grid.
std::uint32_t GpuDevice::FillTable(const Work& work, const Issue& issue, const Waits& waits) {
  params_.state = reinterpret_cast<IssueState*>(states_.device()) + issue.id % kIssues;
  params_.ring = ring_->ref();
  params_.issue = issue.id;
  params_.started = work.started ? 1 : 0;
  params_.segment_count = 0;
  std::uint32_t grid = 0;
  std::uint32_t args = 0;
  for (std::uint32_t i = 0; i < work.segment_count; ++i) {
    if ((issue.segments >> i & 1) == 0) continue;
    const WorkSegment& from = work.segments[i];
    const CudaImage& image = *kernels_[Raw(from.kernel)].image;
    SegmentRef& to = params_.segments[params_.segment_count++];
    FillSegment(from, waits, to);
    to.body = image.body;
    to.args_offset = args;
    if (image.args_bytes == 0) {
      std::memcpy(params_.args + args, &from.args, sizeof(from.args));
    } else {
      std::memcpy(params_.args + args, from.args, image.args_bytes);
    }
    const std::uint32_t bytes = std::max<std::uint32_t>(image.args_bytes, sizeof(from.args));
    args += (bytes + kArgsAlignment - 1) / kArgsAlignment * kArgsAlignment;
    grid += to.claimants;
  }
  return grid;
}

void GpuDevice::FillSegment(const WorkSegment& from, const Waits& waits, SegmentRef& to) {
  const std::uint32_t left = from.progress->blocks() - from.progress->done();
  to.record = from.record->ref;
  // Without a limit: one block per tile, placed by the hardware. With a limit: that many blocks,
  // and each takes one tile after the other.
  to.claimants = from.max_claimants == 0 ? left : std::min(left, from.max_claimants);
  to.tiles_per_block = from.max_claimants == 0 ? 1 : 0;
  to.count_interval = CountInterval(from.progress->blocks(), options_.count_interval);
  to.dep_count = 0;
  for (const Dep& dep : waits) {
    const DeviceRecord* const record = records_->Find(dep.on->done_word());
    LAGOON_CHECK(record != nullptr);
    to.deps[to.dep_count++] = {record->ref.done, record->ref.tag, dep.blocks};
  }
  for (std::size_t i = 0; i < kGuardsPerSegment; ++i) to.guards[i] = RefOf(from.guards[i]);
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
  LAGOON_CHECK(issue.work != kNone && (issue.id & 0xffffff) == note.issue);
  if (note.kind == Note::kEnded) return OnEnded(issue);
  // The table holds only the segments that take part in the issue.
  std::uint32_t segments = issue.segments;
  for (std::uint32_t skip = note.segment; skip > 0; --skip) segments &= segments - 1;
  const auto index = static_cast<std::uint32_t>(std::countr_zero(segments));
  Work& work = works_[issue.work];
  LAGOON_CHECK(index < work.segment_count);
  if (note.kind == Note::kPlaced) return ReportPlaced(work, index);
  Progress& progress = *work.segments[index].progress;
  if (note.value > progress.done()) progress.Mirror(note.value);
  // The launch with the last commit sends this count. Blocks of another launch may have completed
  // the record: then that launch reports it.
  if (note.value == progress.blocks()) ReportComplete(work, index);
}

void GpuDevice::OnEnded(Issue& issue) {
  Work& work = works_[issue.work];
  std::vector<std::uint32_t>& in_stream = kernel_streams_[issue.stream].issues;
  in_stream.erase(std::find(in_stream.begin(), in_stream.end(), work.issue));
  for (std::uint32_t i = 0; i < work.segment_count; ++i) {
    if ((issue.segments >> i & 1) == 0) continue;
    DeviceRecord& record = *work.segments[i].record;
    --record.issues;
    ++record.ends;
    record.loading = false;
    work.segments[i].parked_at = record.ends + 1;
  }
  work.issue = kNone;
  ring_->Release(issue.notes);
  issue.work = kNone;
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

#include "device/cuda/grid_issuer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lagoon::cuda {
namespace {

constexpr std::uint32_t kRingNotes = 8192;
// So many launches in a row the driver may refuse for lack of something. The device's thread tries
// again after each of its naps, so this is at least a tenth of a second.
constexpr std::uint32_t kMostRefused = 5000;

// The driver lacks memory or a resource for now: nothing is broken.
bool IsTransient(Code code) { return code == kOutOfMemory || code == kLaunchOutOfResources; }

// True if another grid would find nothing now: the record is on its way to or from the GPU, or the
// missing tiles are with blocks of other grids, and no grid has ended since this launch's last one.
bool MustWait(const Work& work) {
  const DeviceRecord& record = *work.record;
  if (record.fetching || (record.to_load && record.issues > 0) || record.loading) return true;
  return record.issues > 0 && work.parked_at == record.ends + 1;
}

}  // namespace

GridIssuer::GridIssuer(std::shared_ptr<const GpuSession> session, RecordPool& records,
                       const Options& options)
    : session_(std::move(session)), records_(records), options_(options), issues_(kIssues) {}

Result<std::unique_ptr<GridIssuer>> GridIssuer::Create(std::shared_ptr<const GpuSession> session,
                                                       RecordPool& records, PriorityRange range,
                                                       const Options& options) {
  std::unique_ptr<GridIssuer> issuer(new GridIssuer(session, records, options));
  LAGOON_ASSIGN_OR_RETURN(issuer->states_, OwnMemory::Create(session, kIssues * sizeof(IssueState),
                                                             OwnMemory::Where::kDevice));
  LAGOON_ASSIGN_OR_RETURN(issuer->ring_, NoteRing::Create(session, kRingNotes));
  LAGOON_ASSIGN_OR_RETURN(issuer->streams_,
                          KernelStreams::Create(std::move(session), range, options.depth));
  return issuer;
}

CallResult GridIssuer::TryIssue(const GridRequest& request) {
  if (MustWait(request.work)) return {};
  const std::uint32_t stream = StreamFor(request);
  if (stream == kNoIndex) return {};
  const std::optional<Issue> issue = Reserve(request.work, stream);
  if (!issue) return {};
  const bool loads = request.work.record->to_load;
  const CallResult launched = Launch(request, *issue);
  if (launched.code != kSuccess) {
    // The words of a record that were loaded are in that stream, which another launch may not take.
    if (loads || !IsTransient(launched.code) || ++refused_ > kMostRefused) return launched;
    --request.work.record->issues;
    ring_->Release(issue->notes);
    return {};
  }
  refused_ = 0;
  Issue& slot = issues_[issue->id % kIssues];
  slot = *issue;
  ++issues_live_;
  request.work.issue = &slot;
  streams_->Add(slot);
  return {};
}

std::uint32_t GridIssuer::StreamFor(const GridRequest& request) const {
  if (!request.waits.empty()) return ChainStream(request);
  const Rank rank = request.work.rank;
  if (!streams_->HasRoom(rank, request.run, request.kernel.occupancy)) return kNoIndex;
  return streams_->FreeStream(rank, request.run);
}

// The stream of all grids that work on what the launch waits for; kNoIndex: not one stream, or no
// place in it. Behind these grids the launch needs no word from the host. Its blocks still check
// the dependencies, because the grids in front may leave without a result.
std::uint32_t GridIssuer::ChainStream(const GridRequest& request) const {
  std::uint32_t stream = kNoIndex;
  for (const Wait& wait : request.waits) {
    const DeviceRecord& record = *wait.on;
    // A partial count is reached before the grid ends: the launch would start too late.
    if (wait.blocks < record.ref.blocks) return kNoIndex;
    if (record.issues == 0 || record.stream == kNoIndex) return kNoIndex;
    if (stream != kNoIndex && stream != record.stream) return kNoIndex;
    stream = record.stream;
  }
  return streams_->TakesMore(stream, request.run) ? stream : kNoIndex;
}

// Reserves the notes of a grid, and finds a free slot for it. Nothing: there is no room.
std::optional<Issue> GridIssuer::Reserve(Work& work, std::uint32_t stream) {
  if (issues_live_ == kIssues) return std::nullopt;
  while (next_issue_ == 0 || issues_[next_issue_ % kIssues].work != nullptr) ++next_issue_;
  const std::uint32_t blocks = work.progress->blocks();
  const std::uint32_t notes = 5 + blocks / CountInterval(blocks, options_.count_interval);
  if (!ring_->Reserve(notes)) return std::nullopt;
  // Without a limit: one block per tile, placed by the hardware. With a limit: that many blocks,
  // and each takes one tile after the other.
  const std::uint32_t left = blocks - work.progress->done();
  const std::uint32_t grid = work.max_claimants == 0 ? left : std::min(left, work.max_claimants);
  return Issue{&work, next_issue_++, stream, grid, notes};
}

CallResult GridIssuer::Launch(const GridRequest& request, const Issue& issue) {
  FillParams(request, issue);
  const Driver& driver = session_->driver();
  const Stream stream = streams_->handle(issue.stream);
  DeviceRecord& record = *request.work.record;
  record.loading = record.to_load;
  const Code loaded = records_.Load(record, driver, stream);
  if (loaded != kSuccess) return {loaded, "cuMemcpyHtoDAsync"};
  record.stream = record.issues == 0 || record.stream == issue.stream ? issue.stream : kNoIndex;
  ++record.issues;
  record.dirty = true;
  void* parameter = &params_;
  const GpuKernel& kernel = request.kernel;
  const EntryName& entry = kernel.image.program->entries()[kernel.image.entry];
  const Code launched = driver.launch(kernel.function, issue.grid, 1, 1, entry.threads, 1, 1,
                                      kernel.shared_bytes, stream, &parameter, nullptr);
  if (launched == kSuccess) record.fresh = false;
  return {launched, "cuLaunchKernel"};
}

// Fills `params_` for a grid.
void GridIssuer::FillParams(const GridRequest& request, const Issue& issue) {
  const Work& work = request.work;
  const CudaImage& image = request.kernel.image;
  params_.state = reinterpret_cast<IssueState*>(states_.device()) + issue.id % kIssues;
  params_.ring = ring_->ref();
  params_.issue = issue.id;
  params_.started = work.started ? 1 : 0;
  params_.record = work.record->ref;
  params_.body = image.body;
  params_.tiles_per_block = work.max_claimants == 0 ? 1 : 0;
  // The record of a Progress that is partly done has counts of blocks that no issue has.
  const DeviceRecord& record = *work.record;
  params_.opening = record.fresh && work.progress->done() == 0 && work.max_claimants == 0 &&
                            record.ref.blocks <= kMostOpenedTiles
                        ? 1
                        : 0;
  // Blocks that all run at once end at about the same time: counts between would only delay them.
  const bool at_once = record.ref.blocks <= streams_->Places(request.run, request.kernel.occupancy);
  params_.count_interval = params_.opening != 0 && at_once
                               ? 0
                               : CountInterval(work.progress->blocks(), options_.count_interval);
  params_.dep_count = 0;
  for (const Wait& wait : request.waits) {
    params_.deps[params_.dep_count++] = {wait.on->ref.done, wait.on->ref.tag, wait.blocks};
  }
  std::copy(request.guards.begin(), request.guards.end(), params_.guards);
  if (image.args_bytes == 0) {
    std::memcpy(params_.args, &work.args, sizeof(work.args));
  } else {
    std::memcpy(params_.args, work.args, image.args_bytes);
  }
}

std::optional<GridNote> GridIssuer::TakeNote() {
  const std::optional<NoteSeen> note = ring_->Take();
  if (!note) return std::nullopt;
  Issue& issue = issues_[note->issue % kIssues];
  LAGOON_CHECK(issue.work != nullptr && (issue.id & 0xffffff) == note->issue);
  const GridNote news{issue.work, note->kind, note->value};
  if (note->kind == Note::kEnded) End(issue);
  return news;
}

void GridIssuer::End(Issue& issue) {
  streams_->Remove(issue);
  Work& work = *issue.work;
  DeviceRecord& record = *work.record;
  --record.issues;
  ++record.ends;
  record.loading = false;
  work.parked_at = record.ends + 1;
  work.issue = nullptr;
  ring_->Release(issue.notes);
  issue.work = nullptr;
  --issues_live_;
}

}  // namespace lagoon::cuda

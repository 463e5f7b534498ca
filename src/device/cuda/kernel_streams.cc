#include "device/cuda/kernel_streams.h"

#include <algorithm>
#include <utility>

namespace lagoon::cuda {
namespace {

// A process has at most 32 connections to a GPU, and streams beyond them wait for each other. With
// 6 priorities, 12 streams of the whole device and those of two runs of units for shares fit in,
// beside the device's others. A chain of kernels needs only one stream.
constexpr std::uint32_t kStreamsPerPriority = 2;
constexpr std::uint32_t kStreamsPerPriorityOfShare = 1;
constexpr std::uint32_t kMaxPriorities = 6;

bool Overlap(UnitRange a, UnitRange b) { return a.first < b.end() && b.first < a.end(); }

}  // namespace

KernelStreams::KernelStreams(std::shared_ptr<const GpuSession> session, PriorityRange range,
                             std::uint32_t depth)
    : session_(std::move(session)),
      least_priority_(range.least),
      priorities_(
          std::min(kMaxPriorities, static_cast<std::uint32_t>(range.least - range.greatest) + 1)),
      depth_(depth) {}

Result<std::unique_ptr<KernelStreams>> KernelStreams::Create(
    std::shared_ptr<const GpuSession> session, PriorityRange range, std::uint32_t depth) {
  std::unique_ptr<KernelStreams> streams(new KernelStreams(std::move(session), range, depth));
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<NewRun> all, streams->Prepare(nullptr));
  streams->AddRun(std::move(all));
  return streams;
}

Result<std::unique_ptr<KernelStreams::NewRun>> KernelStreams::Prepare(
    std::unique_ptr<GreenRun> green) const {
  auto made = std::make_unique<NewRun>();
  const GreenContext context = green == nullptr ? nullptr : green->context();
  made->run_.units =
      green == nullptr ? UnitRange{0, session_->gpu().multiprocessors} : green->units();
  const std::uint32_t connections = session_->driver().connections();
  const bool few = connections < priorities_ * kStreamsPerPriority + kOtherStreams;
  const std::uint32_t streams =
      green != nullptr || few ? kStreamsPerPriorityOfShare : kStreamsPerPriority;
  made->run_.green = std::move(green);
  LAGOON_ASSIGN_OR_RETURN(
      made->run_.marks,
      OwnMemory::Create(session_, std::size_t{priorities_} * streams * MarkedStream::kMarkBytes,
                        OwnMemory::Where::kPinned));
  for (std::uint32_t priority = 0; priority < priorities_; ++priority) {
    for (std::uint32_t i = 0; i < streams; ++i) {
      const int number = least_priority_ - static_cast<int>(priority);
      LAGOON_ASSIGN_OR_RETURN(
          std::unique_ptr<MarkedStream> stream,
          MarkedStream::Create(session_, number, made->run_.marks, made->streams_.size(), context));
      made->streams_.push_back({.stream = std::move(stream), .priority = priority});
      made->streams_.back().issues.reserve(depth_);
    }
  }
  return made;
}

std::uint32_t KernelStreams::AddRun(std::unique_ptr<NewRun> run) {
  const auto index = static_cast<std::uint32_t>(runs_.size());
  runs_.push_back(std::move(run->run_));
  for (KernelStream& stream : run->streams_) {
    stream.run = index;
    streams_.push_back(std::move(stream));
  }
  return index;
}

std::uint32_t KernelStreams::FindRun(UnitRange units) const {
  const auto found = std::ranges::find(runs_, units, &Run::units);
  return found == runs_.end() ? kNoIndex : static_cast<std::uint32_t>(found - runs_.begin());
}

bool KernelStreams::TakesMore(std::uint32_t stream, std::uint32_t run) const {
  return streams_[stream].run == run && streams_[stream].issues.size() < depth_;
}

// Grids of a worse rank do not count: they give way between their blocks to a stream of higher
// priority.
bool KernelStreams::HasRoom(Rank rank, std::uint32_t run, std::uint32_t occupancy) const {
  const UnitRange units = runs_[run].units;
  const std::uint64_t places = Places(run, occupancy);
  std::uint64_t taken = 0;
  for (const KernelStream& stream : streams_) {
    if (stream.issues.empty()) continue;
    if (!Overlap(runs_[stream.run].units, units)) continue;
    const Issue& running = *stream.issues.front();
    if (running.work->rank > rank) continue;
    const Progress& progress = *running.work->progress;
    taken += std::min(progress.blocks() - progress.done(), running.grid);
  }
  return taken < places;
}

// The upper half of the ranks (best effort) prefers the lowest priority.
std::uint32_t KernelStreams::FreeStream(Rank rank, std::uint32_t run) const {
  const bool best_effort = rank >> 63 != 0;
  const std::uint32_t top = best_effort && priorities_ > 1 ? priorities_ - 2 : priorities_ - 1;
  std::uint32_t above = 0;
  std::uint32_t below = top;
  for (const KernelStream& stream : streams_) {
    for (const Issue* const issue : stream.issues) {
      const Rank other = issue->work->rank;
      if (other > rank) above = std::max(above, std::min(stream.priority + 1, top));
      if (other < rank && stream.priority > 0) below = std::min(below, stream.priority - 1);
    }
  }
  const std::uint32_t home = best_effort ? 0 : priorities_ / 2;
  const std::uint32_t wanted = std::max(std::min(home, below), above);
  std::uint32_t best = kNoIndex;
  std::uint32_t best_distance = priorities_;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    const KernelStream& stream = streams_[i];
    const bool between = stream.priority >= above && stream.priority <= std::max(below, above);
    if (!between || !stream.issues.empty() || stream.run != run) continue;
    const std::uint32_t distance =
        stream.priority > wanted ? stream.priority - wanted : wanted - stream.priority;
    if (distance >= best_distance) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

Code KernelStreams::Query() const {
  for (const KernelStream& stream : streams_) {
    const Code code = session_->driver().query_stream(stream.stream->handle());
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

std::uint32_t KernelStreams::BlocksInFront() const {
  std::uint32_t blocks = 0;
  for (const KernelStream& stream : streams_) {
    if (!stream.issues.empty()) blocks += stream.issues.front()->grid;
  }
  return blocks;
}

}  // namespace lagoon::cuda

#include "device/cuda/kernel_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lagoon::cuda {
namespace {

constexpr std::uint32_t kStreamsPerPriority = 4;
constexpr std::uint32_t kMaxPriorities = 6;

}  // namespace

KernelStreams::KernelStreams(std::shared_ptr<const GpuSession> session, PriorityRange range,
                             std::uint32_t depth)
    : session_(std::move(session)),
      least_priority_(range.least),
      priorities_(
          std::min(kMaxPriorities, static_cast<std::uint32_t>(range.least - range.greatest) + 1)),
      depth_(depth),
      shares_(session_) {}

Result<std::unique_ptr<KernelStreams>> KernelStreams::Create(
    std::shared_ptr<const GpuSession> session, PriorityRange range, std::uint32_t depth) {
  std::unique_ptr<KernelStreams> streams(new KernelStreams(std::move(session), range, depth));
  LAGOON_ASSIGN_OR_RETURN(OwnMemory marks, streams->NewMarks());
  LAGOON_RETURN_IF_ERROR(streams->AddStreams(0, std::move(marks)));
  return streams;
}

// Words for the streams of one share.
Result<OwnMemory> KernelStreams::NewMarks() const {
  return OwnMemory::Create(
      session_, std::size_t{priorities_} * kStreamsPerPriority * MarkedStream::kMarkBytes,
      OwnMemory::Where::kPinned);
}

// Adds all streams of the share or none.
Status KernelStreams::AddStreams(std::uint32_t share, OwnMemory marks) {
  const GreenContext context = share == 0 ? nullptr : shares_.context(share - 1);
  std::vector<KernelStream> added;
  for (std::uint32_t priority = 0; priority < priorities_; ++priority) {
    for (std::uint32_t i = 0; i < kStreamsPerPriority; ++i) {
      const int number = least_priority_ - static_cast<int>(priority);
      LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<MarkedStream> stream,
                              MarkedStream::Create(session_, number, marks, added.size(), context));
      added.push_back({.stream = std::move(stream), .priority = priority, .share = share});
      added.back().issues.reserve(depth_);
    }
  }
  std::move(added.begin(), added.end(), std::back_inserter(streams_));
  marks_.push_back(std::move(marks));
  return {};
}

Result<std::uint32_t> KernelStreams::AddShare(std::uint32_t units) {
  if (units > UnitsFor(0)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} units, the device has {}", units, UnitsFor(0)));
  }
  LAGOON_RETURN_IF_ERROR(session_->Enter());
  LAGOON_ASSIGN_OR_RETURN(OwnMemory marks, NewMarks());
  LAGOON_RETURN_IF_ERROR(shares_.Add(units));
  const auto share = static_cast<std::uint32_t>(shares_.count());
  if (Status added = AddStreams(share, std::move(marks)); !added) {
    shares_.RemoveLast();
    return tl::unexpected(std::move(added).error());
  }
  return share;
}

std::uint32_t KernelStreams::UnitsFor(std::uint32_t share) const {
  return share == 0 ? session_->gpu().multiprocessors : shares_.units(share - 1);
}

bool KernelStreams::TakesMore(std::uint32_t stream, std::uint32_t share) const {
  return streams_[stream].share == share && streams_[stream].issues.size() < depth_;
}

// Grids of a worse rank do not count: they give way between their blocks to a stream of higher
// priority.
bool KernelStreams::HasRoom(Rank rank, std::uint32_t share, std::uint32_t occupancy) const {
  const std::uint64_t places = std::uint64_t{UnitsFor(share)} * occupancy;
  std::uint64_t taken = 0;
  for (const KernelStream& stream : streams_) {
    if (stream.issues.empty()) continue;
    // That share has its own units.
    if (share != 0 && stream.share != 0 && stream.share != share) continue;
    const Issue& running = *stream.issues.front();
    if (running.work->rank > rank) continue;
    const Progress& progress = *running.work->progress;
    taken += std::min(progress.blocks() - progress.done(), running.grid);
  }
  return taken < places;
}

// The upper half of the ranks (best effort) prefers the lowest priority.
std::uint32_t KernelStreams::FreeStream(Rank rank, std::uint32_t share) const {
  std::uint32_t above = 0;
  std::uint32_t below = priorities_ - 1;
  for (const KernelStream& stream : streams_) {
    for (const Issue* const issue : stream.issues) {
      const Rank other = issue->work->rank;
      if (other > rank) above = std::max(above, std::min(stream.priority + 1, priorities_ - 1));
      if (other < rank && stream.priority > 0) below = std::min(below, stream.priority - 1);
    }
  }
  const std::uint32_t home = rank >> 63 != 0 ? 0 : priorities_ / 2;
  const std::uint32_t wanted = std::max(std::min(home, below), above);
  std::uint32_t best = kNoIndex;
  std::uint32_t best_distance = priorities_;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    const KernelStream& stream = streams_[i];
    const bool between = stream.priority >= above && stream.priority <= std::max(below, above);
    if (!between || !stream.issues.empty() || stream.share != share) continue;
    const std::uint32_t distance =
        stream.priority > wanted ? stream.priority - wanted : wanted - stream.priority;
    if (distance >= best_distance) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

std::uint32_t KernelStreams::BlocksInFront() const {
  std::uint32_t blocks = 0;
  for (const KernelStream& stream : streams_) {
    if (!stream.issues.empty()) blocks += stream.issues.front()->grid;
  }
  return blocks;
}

}  // namespace lagoon::cuda

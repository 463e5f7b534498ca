#include "sched/job_streams.h"

#include "base/check.h"

namespace lagoon {
namespace {

using Streams = SchedulerConfig::Streams;

constexpr std::size_t kJobStreams = 32;  // hardware queues of a GPU (Paella 2)

}  // namespace

Status JobStreams::Use(Streams kind, const QueueTable& queues) {
  const std::size_t shared = kind == Streams::kOne ? 1 : kind == Streams::kPerJob ? kJobStreams : 0;
  while (shared_.size() < shared) {
    Result<StreamId> stream = device_.CreateStream({"shared"});
    if (!stream && shared_.empty()) return tl::unexpected<Error>(std::move(stream).error());
    if (!stream) break;  // fewer streams suffice
    shared_.push_back(*stream);
  }
  for (std::uint32_t i = 0; kind == Streams::kPerQueue && i < Raw(queues.next_id()); ++i) {
    JobQueue& queue = *queues.Find(QueueId{i});
    if (queue.stream != kUnordered) continue;
    LAGOON_ASSIGN_OR_RETURN(queue.stream, device_.CreateStream({queue.options.name}));
  }
  kind_ = kind;
  next_ = 0;
  return {};
}

Status JobStreams::AddQueue(JobQueue& queue, const std::string& name) {
  if (kind_ != Streams::kPerQueue || queue.stream != kUnordered) return {};
  LAGOON_ASSIGN_OR_RETURN(queue.stream, device_.CreateStream({name}));
  return {};
}

StreamId JobStreams::Next(const JobQueue& queue) {
  switch (kind_) {
    case Streams::kOne:
      return shared_.front();
    case Streams::kPerJob:
      return shared_[next_++ % shared_.size()];
    case Streams::kPerQueue:
      return queue.stream;
    case Streams::kPooled:
      return kUnordered;
  }
  CheckFailed("a known Streams", __FILE__, __LINE__);
}

}  // namespace lagoon

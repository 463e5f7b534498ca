#include "trace/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

using Kind = SchedEvent::Kind;

// Assigns lanes so that intervals of one lane do not overlap: the first lane that is free.
class Lanes {
 public:
  /// Calls must come in order of `begin`.
  std::uint32_t Take(TimePoint begin, TimePoint end) {
    const auto free =
        std::find_if(ends_.begin(), ends_.end(), [&](TimePoint last) { return last <= begin; });
    const auto lane = static_cast<std::uint32_t>(free - ends_.begin());
    if (free == ends_.end()) ends_.emplace_back();
    ends_[lane] = end;
    return lane;
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }

 private:
  std::vector<TimePoint> ends_;
};

class Builder {
 public:
  explicit Builder(const TraceRecorder& recorder) : recorder_(recorder) {}

  Timeline Build() {
    FindBegin();
    const Ring<SchedEvent>& events = recorder_.events();
    timeline_.dropped_events = events.lost();
    for (std::size_t i = 0; i < events.size(); ++i) AddEvent(events[i], events.lost() + i);
    SortLaunches();
    for (const Ring<TraceRecorder::Block>& ring : recorder_.blocks()) AddBlocks(ring);
    FindEnd();
    PlaceBlocks();
    PlaceJobs();
    PlaceShares();
    return std::move(timeline_);
  }

 private:
  // Sets cut_ to the time from which on no ring has lost a record.
  void FindBegin() {
    const Ring<SchedEvent>& events = recorder_.events();
    if (events.lost() > 0) cut_ = events[0].at;
    for (const Ring<TraceRecorder::Block>& ring : recorder_.blocks()) {
      if (ring.lost() > 0) cut_ = std::max(cut_, ring[0].end);
    }
  }

  void AddEvent(const SchedEvent& event, std::uint64_t number) {
    const std::vector<TraceRecorder::Run>& runs = recorder_.runs();
    while (run_ + 1 < runs.size() && runs[run_ + 1].first <= number) ++run_;
    switch (event.kind) {
      case Kind::kArrived:
        JobOf(event);
        break;
      case Kind::kLaunched:
        AddLaunch(event);
        break;
      case Kind::kFinished: {
        Timeline::Job& job = timeline_.jobs[JobOf(event)];
        job.finished = true;
        job.end = event.at;
        job.outcome = event.value;
        break;
      }
      case Kind::kDepth:
        if (event.at >= cut_) timeline_.depths.push_back({event});
        break;
      case Kind::kRevoked:
      case Kind::kResumed:
      case Kind::kEvicted:
      case Kind::kLeft:
        if (event.at >= cut_) timeline_.instants.push_back({event});
        break;
    }
  }

  void AddLaunch(const SchedEvent& event) {
    const std::uint32_t job = JobOf(event);
    const std::vector<TraceRecorder::PlanNames>& plans = timeline_.jobs[job].queue->plans;
    timeline_.launches.push_back(
        {.id = event.launch,
         .at = event.at,
         .job = job,
         .names = event.value < plans.size() ? &plans[event.value] : nullptr,
         .work = event.work,
         .index = event.index,
         .padding = event.padding});
  }

  std::uint32_t JobOf(const SchedEvent& event) {
    const auto next = static_cast<std::uint32_t>(timeline_.jobs.size());
    const auto [found, is_new] = job_of_.try_emplace({run_, event.job}, next);
    if (is_new) {
      const TraceRecorder::Run& run = recorder_.runs()[run_];
      const std::vector<TraceRecorder::Queue>& queues = recorder_.queues(run);
      LAGOON_CHECK(Raw(event.queue) < queues.size());
      timeline_.jobs.push_back({.run = &run,
                                .queue = &queues[Raw(event.queue)],
                                .id = event.job,
                                .arrived = event.kind == Kind::kArrived && event.at >= cut_,
                                .begin = std::max(event.at, cut_)});
    }
    return found->second;
  }

  // By id, then time: ids are used again, but never while a launch with the id is in the device.
  void SortLaunches() {
    std::sort(timeline_.launches.begin(), timeline_.launches.end(),
              [](const Timeline::Launch& a, const Timeline::Launch& b) {
                return std::tie(a.id, a.at) < std::tie(b.id, b.at);
              });
    for (Timeline::Instant& instant : timeline_.instants) {
      if (instant.event.kind == Kind::kRevoked) continue;
      instant.launch = LaunchOf(instant.event.launch, instant.event.at);
    }
    std::erase_if(timeline_.instants, [](const Timeline::Instant& instant) {
      return instant.event.kind != Kind::kRevoked && instant.launch == Timeline::kNone;
    });
  }

  std::uint32_t LaunchOf(LaunchId id, TimePoint at) const {
    const auto after =
        std::upper_bound(timeline_.launches.begin(), timeline_.launches.end(), std::tie(id, at),
                         [](const auto& key, const Timeline::Launch& launch) {
                           return key < std::tie(launch.id, launch.at);
                         });
    if (after == timeline_.launches.begin() || std::prev(after)->id != id) return Timeline::kNone;
    return static_cast<std::uint32_t>(std::prev(after) - timeline_.launches.begin());
  }

  void AddBlocks(const Ring<TraceRecorder::Block>& ring) {
    timeline_.dropped_blocks += ring.lost();
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const TraceRecorder::Block& block = ring[i];
      const std::uint32_t launch =
          block.begin < cut_ ? Timeline::kNone : LaunchOf(block.launch, block.begin);
      if (launch == Timeline::kNone) {
        ++timeline_.dropped_blocks;
      } else {
        timeline_.blocks.push_back({block, launch, 0});
      }
    }
  }

  // Sets begin and end to those of all records that are left. Jobs that have not finished last
  // until the end.
  void FindEnd() {
    TimePoint first = kNoDeadline, last = cut_;
    const auto see = [&](TimePoint from, TimePoint to) {
      first = std::min(first, from);
      last = std::max(last, to);
    };
    for (const auto& block : timeline_.blocks) see(block.record.begin, block.record.end);
    for (const auto& instant : timeline_.instants) see(instant.event.at, instant.event.at);
    for (const auto& depth : timeline_.depths) see(depth.event.at, depth.event.at);
    std::erase_if(job_of_, [&](const auto& entry) {
      const Timeline::Job& job = timeline_.jobs[entry.second];
      return job.finished && job.end < cut_;
    });
    for (const auto& [key, index] : job_of_) {
      const Timeline::Job& job = timeline_.jobs[index];
      see(job.begin, job.finished ? job.end : job.begin);
    }
    empty_ = first == kNoDeadline;
    if (empty_) return;
    timeline_.begin = first;
    timeline_.end = last;
    for (Timeline::Job& job : timeline_.jobs) {
      if (!job.finished) job.end = timeline_.end;
    }
  }

  void PlaceBlocks() {
    std::vector<Timeline::Block>& blocks = timeline_.blocks;
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
      return std::tie(a.record.unit, a.record.begin, a.record.end, a.launch, a.record.tile) <
             std::tie(b.record.unit, b.record.begin, b.record.end, b.launch, b.record.tile);
    });
    std::vector<Lanes> lanes(recorder_.units());
    for (Timeline::Block& block : blocks) {
      if (block.record.unit >= lanes.size()) lanes.resize(block.record.unit + 1u);
      block.row = lanes[block.record.unit].Take(block.record.begin, block.record.end);
    }
    std::vector<std::uint32_t> first_row;
    for (std::uint32_t unit = 0; unit < lanes.size(); ++unit) {
      first_row.push_back(static_cast<std::uint32_t>(timeline_.unit_rows.size()));
      const std::uint32_t rows = std::max(1u, lanes[unit].size());
      for (std::uint32_t lane = 0; lane < rows; ++lane) timeline_.unit_rows.push_back({unit, lane});
    }
    for (Timeline::Block& block : blocks) block.row += first_row[block.record.unit];
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const auto& a, const auto& b) { return a.row < b.row; });
  }

  // Rows are per queue name: queues of different dispatchers with one name share them.
  void PlaceJobs() {
    std::vector<std::uint32_t> order;
    for (const auto& [key, index] : job_of_) order.push_back(index);
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return std::tie(timeline_.jobs[a].begin, a) < std::tie(timeline_.jobs[b].begin, b);
    });
    std::map<std::string, Lanes> lanes;
    std::map<std::pair<std::string, std::uint32_t>, std::vector<std::uint32_t>> rows;
    for (const std::uint32_t index : order) {
      Timeline::Job& job = timeline_.jobs[index];
      const std::string& name = job.queue->name;
      rows[{name, lanes[name].Take(job.begin, job.end)}].push_back(index);
    }
    for (const auto& [row, members] : rows) {
      for (const std::uint32_t index : members) {
        timeline_.jobs[index].row = static_cast<std::uint32_t>(timeline_.job_rows.size());
      }
      timeline_.job_rows.push_back({row.first, row.second});
    }
  }

  // Shares are usually given before the first request. The trace does not begin earlier for them.
  void PlaceShares() {
    const auto notes = recorder_.share_notes();
    if (notes.empty()) return;
    if (empty_) timeline_.begin = timeline_.end = notes.front().at;
    std::vector<std::string>& rows = timeline_.share_rows;
    for (const auto& note : notes) rows.push_back(note.model);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (std::size_t i = 0; i < notes.size(); ++i) {
      const TraceRecorder::ShareNote& note = notes[i];
      const auto replaces = [&](const TraceRecorder::ShareNote& later) {
        return later.model == note.model && later.at <= timeline_.begin;
      };
      if (note.at <= timeline_.begin &&
          std::any_of(notes.begin() + static_cast<std::ptrdiff_t>(i) + 1, notes.end(), replaces)) {
        continue;
      }
      const auto row = std::lower_bound(rows.begin(), rows.end(), note.model) - rows.begin();
      timeline_.shares.push_back(
          {note, std::max(note.at, timeline_.begin), static_cast<std::uint32_t>(row)});
      timeline_.end = std::max(timeline_.end, timeline_.shares.back().at);
    }
  }

  const TraceRecorder& recorder_;
  Timeline timeline_;
  TimePoint cut_ = TimePoint::min();
  bool empty_ = false;   // there is nothing but decisions about shares
  std::size_t run_ = 0;  // index of the run of the present event
  std::map<std::pair<std::size_t, JobId>, std::uint32_t> job_of_;
};

}  // namespace

Timeline MakeTimeline(const TraceRecorder& recorder) { return Builder(recorder).Build(); }

}  // namespace lagoon

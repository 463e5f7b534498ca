#include "trace/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json.h"

namespace lagoon {
namespace {

using Kind = SchedEvent::Kind;
using Work = SchedEvent::Work;

constexpr int kUnits = 1, kJobs = 2, kScheduler = 3, kShares = 4;  // ids of the trace's processes
constexpr std::size_t kPieceBytes = 1 << 16;
// Blocks of one job on one unit that are at most so far apart are joined into one slice of the job.
constexpr Nanoseconds kJoin = std::chrono::microseconds(20);

std::string_view DepthName(std::uint32_t depth) {
  constexpr std::string_view kNames[SchedEvent::kDepths] = {
      "ready real-time jobs", "ready best-effort jobs", "waiting jobs", "launches in the device"};
  return kNames[depth];
}

class Writer {
 public:
  Writer(const TraceRecorder& recorder, const Timeline& timeline,
         const std::function<void(std::string_view)>& write)
      : recorder_(recorder), timeline_(timeline), write_(write) {}

  void Write(const std::string& version) {
    Put("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"version\":{},\"device\":{},\"units\":{},"
        "\"dropped_blocks\":{},\"dropped_events\":{}}},\n\"traceEvents\":[",
        JsonString(version), JsonString(recorder_.device()), recorder_.units(),
        timeline_.dropped_blocks, timeline_.dropped_events);
    PutRows();
    PutBlocks();
    for (const Timeline::Job& job : timeline_.jobs) PutJob(job);
    for (const Timeline::Instant& instant : timeline_.instants) PutInstant(instant);
    for (const Timeline::Instant& depth : timeline_.depths) {
      Event("{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":\"{}\",\"args\":{{\"value\":{}}}}}",
            kScheduler, Time(depth.event.at), DepthName(depth.event.index), depth.event.value);
    }
    for (const Timeline::Share& share : timeline_.shares) PutShare(share);
    Put("\n]}}\n");
    Flush();
  }

 private:
  template <typename... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(piece_), format, std::forward<Args>(args)...);
    if (piece_.size() >= kPieceBytes) Flush();
  }

  template <typename... Args>
  void Event(fmt::format_string<Args...> format, Args&&... args) {
    Put("{}", first_ ? "\n" : ",\n");
    first_ = false;
    Put(format, std::forward<Args>(args)...);
  }

  void Flush() {
    write_({piece_.data(), piece_.size()});
    piece_.clear();
  }

  // In microseconds. The viewer multiplies by 1000 and truncates. The added fifth of a nanosecond
  // covers the rounding of a double, which would make adjacent slices overlap.
  static std::string Microseconds(Nanoseconds time) {
    return fmt::format("{}.{:03}2", time.count() / 1000, time.count() % 1000);
  }
  std::string Time(TimePoint at) const { return Microseconds(at - timeline_.begin); }

  // Each row is a thread of the trace. Thread ids differ from all process ids.
  static int UnitThread(std::uint32_t row) { return static_cast<int>(100 + row); }
  int JobThread(std::uint32_t row) const {
    return UnitThread(static_cast<std::uint32_t>(timeline_.unit_rows.size()) + row);
  }
  // Each kind has its own row: of several instants of a row at the same time, the viewer shows one.
  enum Moment : std::uint8_t { kArrival, kRevocation, kEviction, kLeaving, kResumption, kMoments };
  static constexpr std::string_view kMomentRows[kMoments] = {"arrivals", "revocations", "evicted",
                                                             "left", "resumed"};
  static constexpr std::string_view kMomentNames[kMoments] = {"arrival", "revocation", "evicted",
                                                              "left", "resumed"};
  int MomentThread(int moment) const {
    return JobThread(static_cast<std::uint32_t>(timeline_.job_rows.size())) + moment;
  }

  int ShareThread(std::uint32_t row) const {
    return MomentThread(kMoments) + static_cast<int>(row);
  }

  void PutName(std::string_view what, int process, int thread, const std::string& name) {
    Event("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":{}}}}}",
          process, thread, what, JsonString(name));
  }
  void PutThread(int process, int thread, const std::string& name) {
    PutName("thread_name", process, thread, name);
    Event(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\","
        "\"args\":{{\"sort_index\":{}}}}}",
        process, thread, thread);
  }

  void PutRows() {
    PutName("process_name", kUnits, UnitThread(0), "compute units of " + recorder_.device());
    PutName("process_name", kJobs, JobThread(0), "jobs");
    PutName("process_name", kScheduler, MomentThread(0), "scheduler");
    const auto lane = [](std::uint32_t i) { return i == 0 ? "" : fmt::format(" ({})", i + 1); };
    for (std::uint32_t i = 0; i < timeline_.unit_rows.size(); ++i) {
      const auto& row = timeline_.unit_rows[i];
      const bool is_unit = row.unit < recorder_.units();
      const std::string name = fmt::format("{} {}",
                                           is_unit                       ? "unit"
                                           : recorder_.device() == "cpu" ? "background of unit"
                                                                         : "copy engine",
                                           row.unit - (is_unit ? 0 : recorder_.units()));
      PutThread(kUnits, UnitThread(i), name + lane(row.lane));
    }
    for (std::uint32_t i = 0; i < timeline_.job_rows.size(); ++i) {
      const auto& row = timeline_.job_rows[i];
      PutThread(kJobs, JobThread(i), row.name + lane(row.lane));
    }
    for (int i = 0; i < kMoments; ++i) {
      PutThread(kScheduler, MomentThread(i), std::string(kMomentRows[i]));
    }
    if (timeline_.share_rows.empty()) return;
    PutName("process_name", kShares, ShareThread(0), "shares");
    for (std::uint32_t i = 0; i < timeline_.share_rows.size(); ++i) {
      PutThread(kShares, ShareThread(i), "decisions: " + timeline_.share_rows[i]);
    }
  }

  static std::string NameOf(const Timeline::Job& job) {
    return JsonString(fmt::format("{} #{}", job.queue->name, Raw(job.id)));
  }
  // Job and run identify the job among all runs; the other arguments are for people to search.
  std::string ArgsOf(const Timeline::Job& job) const {
    return fmt::format("\"job\":{},\"run\":{},\"model\":{},\"class\":\"{}\",\"scheduler\":{}",
                       Raw(job.id), job.run - recorder_.runs().data(), JsonString(job.queue->name),
                       Name(job.queue->job_class), JsonString(job.run->scheduler));
  }

  // A job with an instance of its own may have more ops than the names of its queue's plan.
  static bool HasNames(const Timeline::Launch& launch) {
    return launch.names != nullptr && launch.index < launch.names->ops.size();
  }
  // The op's name as JSON, or its index if the name is not known.
  static std::string OpOf(const Timeline::Launch& launch) {
    const bool named = launch.work == Work::kKernel && HasNames(launch);
    return named ? JsonString(launch.names->ops[launch.index]) : std::to_string(launch.index);
  }

  // Returns an unterminated JSON string (no closing quote): the caller appends " (padding)" or
  // " (left)", because viewers show only the name.
  const std::string& KernelOf(const Timeline::Launch& launch) {
    static const std::string kInput = "\"input", kOutput = "\"output";
    if (launch.work != Work::kKernel) return launch.work == Work::kInput ? kInput : kOutput;
    if (!HasNames(launch)) return unnamed_ = fmt::format("\"op {}", launch.index);
    const std::string& name = launch.names->kernels[launch.index];
    std::string& quoted = kernels_[&name];
    if (quoted.empty()) {
      quoted = JsonString(name);
      quoted.pop_back();
    }
    return quoted;
  }

  void PutBlocks() {
    const std::vector<Timeline::Block>& blocks = timeline_.blocks;
    for (std::size_t i = 0; i < blocks.size();) {
      std::size_t end = i + 1;
      while (end < blocks.size() && Joined(blocks[end - 1], blocks[end])) ++end;
      PutJobOnUnit(blocks[i], blocks[end - 1]);
      for (; i < end; ++i) PutBlock(blocks[i]);
    }
  }

  bool Joined(const Timeline::Block& before, const Timeline::Block& next) const {
    return before.row == next.row &&
           timeline_.launches[before.launch].job == timeline_.launches[next.launch].job &&
           next.record.begin - before.record.end <= kJoin;
  }

  // Must be written before the blocks: of two slices that begin together, the first is the outer
  // one.
  void PutJobOnUnit(const Timeline::Block& first, const Timeline::Block& last) {
    const Timeline::Job& job = timeline_.jobs[timeline_.launches[first.launch].job];
    Event(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"job,{}\","
        "\"args\":{{{}}}}}",
        kUnits, UnitThread(first.row), Time(first.record.begin),
        Microseconds(last.record.end - first.record.begin), NameOf(job), Name(job.queue->job_class),
        ArgsOf(job));
  }

  void PutBlock(const Timeline::Block& block) {
    const Timeline::Launch& launch = timeline_.launches[block.launch];
    const Timeline::Job& job = timeline_.jobs[launch.job];
    const TraceRecorder::Block& record = block.record;
    Event(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{}{}{}\","
        "\"cat\":\"block,{}{}{}\",\"args\":{{\"job\":{},\"run\":{},\"op\":{},\"tile\":{},"
        "\"padding\":{},\"committed\":{}}}}}",
        kUnits, UnitThread(block.row), Time(record.begin), Microseconds(record.end - record.begin),
        KernelOf(launch), launch.padding ? " (padding)" : "", record.committed ? "" : " (left)",
        Name(job.queue->job_class), launch.padding ? ",padding" : "",
        record.committed ? "" : ",left", Raw(job.id), job.run - recorder_.runs().data(),
        OpOf(launch), record.tile, launch.padding, record.committed);
  }

  void PutJob(const Timeline::Job& job) {
    if (job.finished && job.end < timeline_.begin) return;
    if (job.arrived) {
      PutMoment(kArrival, job.begin, Name(job.queue->job_class), ArgsOf(job));
    }
    Event(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"job,{}\","
        "\"args\":{{{},\"outcome\":\"{}\"}}}}",
        kJobs, JobThread(job.row), Time(job.begin), Microseconds(job.end - job.begin), NameOf(job),
        Name(job.queue->job_class), ArgsOf(job),
        job.finished ? Name(static_cast<Outcome>(job.outcome)) : "unfinished");
  }

  void PutInstant(const Timeline::Instant& instant) {
    const SchedEvent& event = instant.event;
    if (event.kind == Kind::kRevoked) {
      return PutMoment(kRevocation, event.at, "best-effort",
                       fmt::format("\"kernels\":{}", event.value));
    }
    const Timeline::Launch& launch = timeline_.launches[instant.launch];
    const Timeline::Job& job = timeline_.jobs[launch.job];
    const bool resumed = event.kind == Kind::kResumed;
    const Moment moment = resumed                        ? kResumption
                          : event.kind == Kind::kEvicted ? kEviction
                                                         : kLeaving;
    PutMoment(
        moment, event.at, Name(job.queue->job_class),
        fmt::format("{},\"op\":{},\"padding\":{}{}", ArgsOf(job), OpOf(launch), launch.padding,
                    resumed ? fmt::format(",\"blocks\":{}", event.value) : ""));
  }

  void PutMoment(Moment moment, TimePoint at, std::string_view category, const std::string& args) {
    Event(
        "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":{},\"ts\":{},\"name\":\"{}\","
        "\"cat\":\"{}\",\"args\":{{{}}}}}",
        kScheduler, MomentThread(moment), Time(at), kMomentNames[moment], category, args);
  }

  // A counter of the share in percent, and an instant that says why.
  void PutShare(const Timeline::Share& share) {
    const TraceRecorder::ShareNote& note = share.note;
    const std::string from = note.from > 0 ? fmt::format("{:.3g} %", 100 * note.from) : "none";
    const std::string units = note.units.count == 0
                                  ? "by weight"
                                  : fmt::format("{} to {}", note.units.first, note.units.end() - 1);
    Event("{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":{},\"args\":{{\"value\":{:.6g}}}}}",
          kShares, Time(share.at), JsonString("share of " + note.model + " in %"), 100 * note.to);
    Event(
        "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":{},\"ts\":{},\"name\":{},\"cat\":\"share\","
        "\"args\":{{\"model\":{},\"from\":{:.6g},\"to\":{:.6g},\"units\":\"{}\",\"why\":{}}}}}",
        kShares, ShareThread(share.row), Time(share.at),
        JsonString(fmt::format("{} -> {:.3g} %", from, 100 * note.to)), JsonString(note.model),
        note.from, note.to, units, JsonString(note.why));
  }

  const TraceRecorder& recorder_;
  const Timeline& timeline_;
  const std::function<void(std::string_view)>& write_;
  fmt::memory_buffer piece_;
  bool first_ = true;
  std::map<const std::string*, std::string> kernels_;  // by name: KernelOf()'s strings
  std::string unnamed_;                                // the last one of a kernel without a name
};

}  // namespace

void WriteTraceJson(const TraceRecorder& recorder, const Timeline& timeline,
                    const std::string& version,
                    const std::function<void(std::string_view)>& write) {
  Writer(recorder, timeline, write).Write(version);
}

}  // namespace lagoon

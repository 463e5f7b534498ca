#include "serving/late/late_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/guard.h"
#include "base/json.h"
#include "base/log.h"
#include "base/seldom.h"
#include "base/text.h"
#include "base/thread.h"

namespace lagoon {
namespace {

/// Most bytes of a client's id in a record.
constexpr std::size_t kMostIdBytes = 200;
/// Most jobs in the line of the log.
constexpr std::size_t kMostLineJobs = 3;

std::int64_t SecondOf(TimePoint time) {
  return std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
}

struct Wait {
  const char* name;
  Nanoseconds time;
};

/// Where the request's time went, from its arrival to its end, in order.
std::array<Wait, 10> WaitsOf(const LateRequest& request) {
  const RequestEnd& end = request.end;
  const JobResult& job = end.job;
  const auto since = [](TimePoint from, TimePoint to) {
    return std::max(to - from, Nanoseconds(0));
  };
  const Nanoseconds infer = since(job.inputs_copied, job.computed) - end.waits_between;
  const Nanoseconds places = end.waits.sequence + end.waits.plan + end.waits.batch;
  const Nanoseconds admit = since(end.admitted, job.posted) - (places - end.waits_between);
  return {{{"wire", since(request.arrival, end.received)},
           {"parse", since(end.received, end.admitted)},
           {"admit", std::max(admit, Nanoseconds(0))},
           {"sequence", end.waits.sequence},
           {"plan", end.waits.plan},
           {"batch", end.waits.batch},
           {"queue", since(job.posted, job.started)},
           {"copy_in", since(job.started, std::min(job.inputs_copied, job.computed))},
           {"compute", std::max(infer, Nanoseconds(0))},
           {"copy_out", since(job.computed, job.finished)}}};
}

/// The rows of other jobs, and the sum of the request's own.
struct Sides {
  RecentWork::Work own;
  std::vector<RecentWork::Work> others;
};

void AddWork(RecentWork::Work& sum, const RecentWork::Work& more) {
  sum.launches += more.launches;
  sum.blocks += more.blocks;
  sum.left += more.left;
  sum.busy += more.busy;
  sum.opaque += more.opaque;
}

Sides SidesOf(const LateRequest& request, const RecentWork::Report& work) {
  Sides sides;
  for (const RecentWork::Work& job : work.jobs) {
    if (std::ranges::find(request.jobs, job.job) != request.jobs.end()) {
      AddWork(sides.own, job);
    } else {
      sides.others.push_back(job);
    }
  }
  return sides;
}

nlohmann::ordered_json JsonOf(const RecentWork::Work& work) {
  return {{"launches", work.launches},
          {"blocks", work.blocks},
          {"left_blocks", work.left},
          {"us", ToMicroseconds(work.busy)},
          {"opaque_us", ToMicroseconds(work.opaque)}};
}

/// At most so many bytes of a text in UTF-8, without a part of a character at the end.
std::string_view Begin(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

std::string LateRecordJson(const LateRequest& request, const RecentWork::Report& work,
                           std::uint64_t left_out) {
  const RequestEnd& end = request.end;
  nlohmann::ordered_json json = {{"unix_ms", UnixMilliseconds()},
                                 {"model", request.model},
                                 {"version", request.version},
                                 {"id", std::string(Begin(request.id, kMostIdBytes))},
                                 {"trace_id", request.trace},
                                 {"class", Name(end.job_class)},
                                 {"outcome", Name(end.job.outcome)},
                                 {"allowed_us", ToMicroseconds(end.deadline - request.arrival)},
                                 {"took_us", ToMicroseconds(end.job.finished - request.arrival)},
                                 {"late_us", ToMicroseconds(end.job.finished - end.deadline)}};
  for (const Wait& wait : WaitsOf(request)) {
    json["waits_us"][wait.name] = ToMicroseconds(wait.time);
  }
  json["revocations"] = end.job.revocations;
  json["resumed_blocks"] = end.job.resumed_blocks;
  json["repeated_kernels"] = end.job.repeated_kernels;
  json["off_core_us"] = ToMicroseconds(request.off_core);
  const Sides sides = SidesOf(request, work);
  json["own"] = JsonOf(sides.own);
  json["instead"] = nlohmann::ordered_json::array();
  RecentWork::Work rest;
  for (std::size_t i = 0; i < sides.others.size(); ++i) {
    const RecentWork::Work& other = sides.others[i];
    if (i >= LateLog::kMostJobs) {
      AddWork(rest, other);
      continue;
    }
    nlohmann::ordered_json row = {
        {"model", other.model}, {"class", Name(other.job_class)}, {"job", Raw(other.job)}};
    row.update(JsonOf(other));
    json["instead"].push_back(std::move(row));
  }
  if (sides.others.size() > LateLog::kMostJobs) {
    json["instead_rest"] = JsonOf(rest);
    json["instead_rest"]["jobs"] = sides.others.size() - LateLog::kMostJobs;
  }
  json["blocks_known"] = work.blocks_known;
  json["complete"] = work.complete;
  json["left_out"] = left_out;
  return DumpJson(json);
}

std::string LateLine(const LateRequest& request, const RecentWork::Report& work) {
  const RequestEnd& end = request.end;
  std::string line = fmt::format(
      "model '{}': a {} request{} was late: {} after {:.3f} ms of {:.3f} ms (", request.model,
      Name(end.job_class), request.id.empty() ? "" : " " + Quoted(request.id),
      Name(end.job.outcome), ToMilliseconds(end.job.finished - request.arrival),
      ToMilliseconds(end.deadline - request.arrival));
  for (const Wait& wait : WaitsOf(request)) {
    if (wait.time < std::chrono::microseconds(1)) continue;
    line += fmt::format("{} {:.3f}, ", wait.name, ToMilliseconds(wait.time));
  }
  line += fmt::format("revoked {} times)", end.job.revocations);
  const Sides sides = SidesOf(request, work);
  std::string_view separator = "; instead ran ";
  for (std::size_t i = 0; i < std::min(sides.others.size(), kMostLineJobs); ++i) {
    const RecentWork::Work& other = sides.others[i];
    line += fmt::format("{}{} ({}) {} blocks, {:.3f} ms", separator,
                        other.model.empty() ? "an unknown job" : Quoted(other.model),
                        Name(other.job_class), other.blocks, ToMilliseconds(other.busy));
    if (other.opaque > Nanoseconds(0)) {
      line += fmt::format(" of which {:.3f} ms in an engine", ToMilliseconds(other.opaque));
    }
    separator = ", ";
  }
  if (sides.others.size() > kMostLineJobs) {
    line += fmt::format(" and {} jobs more", sides.others.size() - kMostLineJobs);
  }
  return line;
}

/// The file, on one thread.
class LateLog::File {
 public:
  explicit File(const Options& options) : options_(options) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Status Open() {
    // O_NONBLOCK: while the reader of a pipe pauses, records are lost. Without it a write would
    // wait for the reader, and so would the end of the server.
    descriptor_ =
        open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    struct stat status = {};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("cannot write '{}': {}", options_.path,
                                                           std::generic_category().message(errno)));
    }
    regular_ = S_ISREG(status.st_mode);
    bytes_ = regular_ ? static_cast<std::uint64_t>(status.st_size) : 0;
    return {};
  }

  /// Writes the whole line, or nothing of it.
  bool Append(const std::string& line) {
    if (regular_ && bytes_ > 0 && bytes_ + line.size() > options_.most_bytes) Rotate();
    if (descriptor_ < 0 && !Open()) return Complain();
    std::size_t written = 0;
    while (written < line.size()) {
      const ssize_t wrote = write(descriptor_, line.data() + written, line.size() - written);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) break;
      written += static_cast<std::size_t>(wrote);
    }
    if (written == line.size()) {
      bytes_ += written;
      return true;
    }
    const int error = errno;
    // Half a line would spoil the next one.
    if (written > 0 && regular_ && ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
      bytes_ += written;
    }
    errno = error;
    return Complain();
  }

 private:
  void Close() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }
  void Rotate() {
    const std::string old = options_.path + ".1";
    if (std::rename(options_.path.c_str(), old.c_str()) != 0) {
      // Bounded all the same: the records before are lost.
      if (ftruncate(descriptor_, 0) == 0) bytes_ = 0;
      return;
    }
    Close();
    bytes_ = 0;
  }
  /// Once a minute at most.
  bool Complain() {
    const int error = errno;
    if (!complaint_.Due(Now())) return false;
    spdlog::warn("--late-file: cannot write '{}': {}; records of late requests are lost",
                 options_.path, std::generic_category().message(error));
    return false;
  }

  const Options options_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::uint64_t bytes_ = 0;
  Seldom complaint_{std::chrono::minutes(1)};
};

Result<std::unique_ptr<LateLog>> LateLog::Open(const Options& options) {
  auto file = std::make_unique<File>(options);
  LAGOON_RETURN_IF_ERROR(file->Open());
  return std::unique_ptr<LateLog>(new LateLog(options, std::move(file)));
}

LateLog::LateLog(const Options& options, std::unique_ptr<File> file)
    : options_(options),
      file_(std::move(file)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

LateLog::~LateLog() {
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    wake_.NotifyAll();
  }
  thread_.join();
}

std::uint32_t& LateLog::PerSecond::At(TimePoint time) {
  const std::int64_t now = SecondOf(time);
  if (now != second) {
    second = now;
    count = 0;
  }
  return count;
}

void LateLog::Add(LateRequest request) {
  const MutexLock lock(mutex_);
  std::uint32_t& in_second = added_.At(request.end.job.finished);
  if (in_second >= options_.most_per_second || waiting_.size() >= kMostWaiting) {
    ++left_out_;
    return;
  }
  ++in_second;
  waiting_.push_back(std::move(request));
  wake_.NotifyOne();
}

void LateLog::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-late");
  for (;;) {
    std::optional<LateRequest> request;
    std::uint64_t left_out = 0;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stop.stop_requested()) wake_.Wait(mutex_);
      if (waiting_.empty()) return;
      request = std::move(waiting_.front());
      waiting_.pop_front();
      left_out = std::exchange(left_out_, 0);
    }
    const Status written = WithoutExceptions([&]() -> Status {
      Write(*request, left_out);
      return {};
    });
    if (!written) ++unwritten_;  // memory ran out
  }
}

void LateLog::Write(const LateRequest& request, std::uint64_t left_out) {
  RecentWork::Report work;
  if (request.work != nullptr) {
    work = request.work->Between(request.arrival, request.end.job.finished);
  } else {
    work.blocks_known = work.complete = false;
  }
  unwritten_ += left_out;
  if (file_->Append(LateRecordJson(request, work, unwritten_) + "\n")) {
    unwritten_ = 0;
  } else {
    ++unwritten_;
  }
  std::uint32_t& in_second = logged_.At(request.end.job.finished);
  unlogged_ += left_out;
  if (in_second >= options_.most_lines_per_second) {
    ++unlogged_;
    return;
  }
  ++in_second;
  const std::uint64_t unlogged = std::exchange(unlogged_, 0);
  spdlog::warn(
      "{}{}", LateLine(request, work),
      unlogged == 0 ? "" : fmt::format("; {} late requests before have no line", unlogged));
}

}  // namespace lagoon

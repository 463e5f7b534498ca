#pragma once

// A record of each request that missed its deadline: how long it waited for what, and which jobs
// had the device instead.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/core/request.h"
#include "trace/recent_work.h"

namespace lagoon {

/// What a record tells.
struct LateRequest {
  std::string model, version, id;
  std::string trace = {};  // the number of the client's trace, in hex; empty: it has none
  TimePoint arrival = {};
  RequestEnd end = {};
  /// The jobs that ran the request, as far as they are known.
  std::vector<JobId> jobs = {};
  /// Growth of DispatcherStats::off_core while the request was there.
  Nanoseconds off_core{0};
  /// What the device did. Null: not known.
  std::shared_ptr<const RecentWork> work = {};
};

/// Writes a line of the log and a line of JSON in a file for each request, on a thread of its own.
class LateLog {
 public:
  struct Options {
    std::string path = {};
    /// A file of this size is renamed to `path`.1, which replaces the one before, and a new one
    /// begins.
    std::uint64_t most_bytes = std::uint64_t{64} << 20;
    std::uint32_t most_per_second = 100;       // records; those beyond are counted only
    std::uint32_t most_lines_per_second = 10;  // of the log
  };
  static constexpr std::size_t kMostWaiting = 256;
  /// Most jobs of a record; the others are added up.
  static constexpr std::size_t kMostJobs = 16;

  /// Appends to the file. kInvalidArgument: it cannot be written.
  static Result<std::unique_ptr<LateLog>> Open(const Options& options);
  /// Writes what waits.
  ~LateLog();
  LateLog(const LateLog&) = delete;
  LateLog& operator=(const LateLog&) = delete;

  /// Any thread. Never waits for the file. Where more come than the limits allow, or the thread is
  /// behind by kMostWaiting, the request is left out, and the next record says how many were.
  void Add(LateRequest request);

 private:
  class File;
  /// How often something happened in the second of the last time asked for.
  struct PerSecond {
    std::int64_t second = -1;
    std::uint32_t count = 0;
    std::uint32_t& At(TimePoint time);
  };

  LateLog(const Options& options, std::unique_ptr<File> file);
  void Run(const std::stop_token& stop);
  void Write(const LateRequest& request, std::uint64_t left_out);

  const Options options_;
  const std::unique_ptr<File> file_;  // of the thread
  // Used by the thread: requests without a record and without a line since the last one.
  std::uint64_t unwritten_ = 0, unlogged_ = 0;
  PerSecond logged_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<LateRequest> waiting_ GUARDED_BY(mutex_);
  std::uint64_t left_out_ GUARDED_BY(mutex_) = 0;  // since the last record
  PerSecond added_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

/// One line of JSON without its end: docs/guide/deadlines.md explains the fields. `left_out`: how
/// many requests before this one have no record.
std::string LateRecordJson(const LateRequest& request, const RecentWork::Report& work,
                           std::uint64_t left_out);
/// The same for people, on one line.
std::string LateLine(const LateRequest& request, const RecentWork::Report& work);

}  // namespace lagoon

#include "trace/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "trace/json.h"

namespace lagoon {
namespace {

std::string LastError() { return std::generic_category().message(errno); }

}  // namespace

Result<TraceFile> TraceFile::Create(const std::string& path) {
  TraceFile trace;
  trace.path_ = path;
  trace.file_.reset(std::fopen(path.c_str(), "w"));
  if (trace.file_ == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("trace '{}': cannot be written: {}", path, LastError()));
  }
  return trace;
}

Status TraceFile::Write(const TraceRecorder& recorder, const std::string& version) {
  LAGOON_CHECK(file_ != nullptr);
  const Timeline timeline = MakeTimeline(recorder);
  bool failed = false;
  std::string why;
  const auto note = [&](bool good) {
    if (good || failed) return;
    failed = true;
    why = LastError();
  };
  WriteTraceJson(recorder, timeline, version, [&](std::string_view piece) {
    if (!failed) note(std::fwrite(piece.data(), 1, piece.size(), file_.get()) == piece.size());
  });
  note(std::fclose(file_.release()) == 0);
  if (failed) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("trace '{}': not complete: {}", path_, why));
  }
  if (timeline.dropped_blocks + timeline.dropped_events > 0) {
    spdlog::warn("trace '{}': {} blocks and {} events did not fit; it has the newest", path_,
                 timeline.dropped_blocks, timeline.dropped_events);
  }
  return {};
}

}  // namespace lagoon

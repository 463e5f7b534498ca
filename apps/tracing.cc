#include "apps/tracing.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/command.h"
#include "apps/load.h"
#include "base/log.h"

namespace lagoon {

namespace {

// Blocks that the files of one command keep together: some 300 bytes each.
constexpr std::size_t kTogether = std::size_t{1} << 22;

}  // namespace

void Tracing::AddOptions(CLI::App& command) {
  CLI::Option* file = command.add_option(
      "--trace", path_, "At the end, write a trace to this file, for https://ui.perfetto.dev");
  capacity_option_ =
      command
          .add_option(
              "--trace-capacity", capacity_,
              "Number of blocks, and of scheduler events, that the trace keeps (the newest)")
          ->needs(file)
          ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 27))
          ->capture_default_str();
}

TraceRecorder* Tracing::StartPart(const std::string& part, std::size_t files) {
  const std::filesystem::path path(path_);
  const std::string name = path.stem().string() + "." + part + path.extension().string();
  const bool given = capacity_option_->count() > 0;
  return Start(path.parent_path() / name,
               given ? capacity_ : std::min(capacity_, kTogether / files));
}

TraceRecorder* Tracing::Start(const std::string& path, std::size_t capacity) {
  if (path.empty()) return nullptr;
  Result<TraceFile> file = TraceFile::Create(path);
  if (!file) Die("--trace: " + file.error().message);
  file_ = *std::move(file);
  recorder_ = std::make_unique<TraceRecorder>(TraceOptions{capacity, capacity});
  return recorder_.get();
}

void Tracing::Finish() {
  if (!file_) return;
  if (const Status status = file_->Write(*recorder_, Build()); !status) {
    Die("--trace: " + status.error().message);
  }
  spdlog::info("trace '{}' written: open it in https://ui.perfetto.dev", file_->path());
  file_.reset();
  recorder_.reset();
}

}  // namespace lagoon

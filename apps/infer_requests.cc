#include "apps/infer_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "apps/command.h"
#include "apps/infer_model.h"
#include "apps/tensor_file.h"
#include "base/json.h"
#include "base/time.h"
#include "plan/strings.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostRuns = 50;  // of one request, for its median

double MillisecondsSince(TimePoint begin) {
  return static_cast<double>((Now() - begin).count()) / 1e6;
}

std::vector<fs::path> RequestsIn(const std::string& folder) {
  std::vector<fs::path> requests;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory()) requests.push_back(entry.path());
  }
  if (requests.empty()) {
    Die(fmt::format("--requests {}: no folder with a request, which has NAME.npy for each input",
                    folder));
  }
  std::sort(requests.begin(), requests.end());
  return requests;
}

Result<std::vector<Constant>> ReadRequest(const OnnxModel& model, const fs::path& folder) {
  std::vector<Constant> tensors;
  for (const DeclaredTensor& input : model.inputs()) {
    LAGOON_ASSIGN_OR_RETURN(Constant tensor, ReadInput((folder / FileNameFor(input.name)).string(),
                                                       input, Normalization::kRaw));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// The median time of a run, in milliseconds.
Result<double> Measure(BoundRequest& request, double seconds) {
  std::vector<double> times;
  const TimePoint begin = Now();
  do {
    const TimePoint start = Now();
    LAGOON_RETURN_IF_ERROR(request.Run());
    times.push_back(MillisecondsSince(start));
  } while (times.size() < kMostRuns && MillisecondsSince(begin) < seconds * 1e3);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::vector<std::vector<std::byte>> Contents(const BoundRequest& request) {
  std::vector<std::vector<std::byte>> contents;
  for (const BoundRequest::Output& output : request.outputs()) {
    if (output.spec.type != DataType::kString) {
      contents.emplace_back(output.bytes.begin(), output.bytes.end());
      continue;
    }
    // Strings lie elsewhere after each run.
    contents.emplace_back(ProtocolBytes(output.bytes).value_or(0));
    if (!contents.back().empty()) WriteProtocolBytes(output.bytes, contents.back().data());
  }
  return contents;
}

/// Runs until `count` revocations at random moments have happened; true if every run gave the bits
/// of the run before. `run_ms`: the time of an undisturbed run.
Result<bool> SameBitsWhenRevoked(BoundRequest& request, Device& device, int count, double run_ms) {
  constexpr int kMostRevokedRuns = 10'000;
  const std::vector<std::vector<std::byte>> expected = Contents(request);
  // At most a quarter of a run: so every run is revoked, and most make progress.
  std::uniform_int_distribution<std::int64_t> moment(0,
                                                     static_cast<std::int64_t>(run_ms * 1e6 / 4));
  std::mt19937 random(1);
  LAGOON_ASSIGN_OR_RETURN(const GuardId guard, device.CreateGuard());
  int given = 0;
  for (int runs = 0; given < count && runs < kMostRevokedRuns; ++runs) {
    RunOptions options;
    options.max_in_flight = 8;  // so that a revocation also meets queued launches
    options.guard = guard;
    options.revoke_after = [&]() -> std::optional<Nanoseconds> {
      ++given;
      return Nanoseconds(moment(random));
    };
    LAGOON_RETURN_IF_ERROR(request.Run(options));
    --given;  // the run ended before its last moment
    if (Contents(request) != expected) return false;
  }
  return true;
}

void WriteOutputs(const BoundRequest& request, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) Die(fmt::format("cannot create '{}': {}", folder.string(), error.message()));
  for (const BoundRequest::Output& output : request.outputs()) {
    const std::string path = (folder / FileNameFor(output.spec.name)).string();
    const Status status = WriteNpy(path, output.spec, output.bytes.data());
    if (!status) Die(status.error().message);
  }
}

using Plans = std::vector<std::shared_ptr<const LoadedPlan>>;

/// Adds the plans to `kept`.
Result<Json> RunRequest(const fs::path& folder, const RequestWords& words, ModelCompiler& compiler,
                        Device& device, Plans& kept) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Constant> inputs,
                          ReadRequest(compiler.model(), folder));
  LAGOON_ASSIGN_OR_RETURN(BoundRequest request, BoundRequest::Bind(compiler, device, inputs));
  std::ranges::copy(request.plans(), std::back_inserter(kept));
  Json line = {{"new_shape_ms", static_cast<double>(request.compile_time().count()) / 1e6},
               {"parts", request.parts()},
               {"opaque", request.opaque()}};
  LAGOON_RETURN_IF_ERROR(request.Run());
  WriteOutputs(request, folder / "outputs");
  LAGOON_ASSIGN_OR_RETURN(line["latency_ms"], Measure(request, words.seconds));
  if (words.revocations > 0) {
    LAGOON_ASSIGN_OR_RETURN(
        line["revoked_identical"],
        SameBitsWhenRevoked(request, device, words.revocations, line["latency_ms"]));
  }
  return line;
}

}  // namespace

void RunRequests(const RequestWords& words, ModelCompiler& compiler, Device& device) {
  Plans kept;  // as a server keeps them
  std::size_t failed = 0;
  for (const fs::path& folder : RequestsIn(words.folder)) {
    Result<Json> line = RunRequest(folder, words, compiler, device, kept);
    failed += line ? 0 : 1;
    Json printed = line ? *std::move(line) : Json{{"error", line.error().message}};
    printed["request"] = folder.filename().string();
    std::printf("%s\n", DumpJson(printed, -1).c_str());
    std::fflush(stdout);  // a crash in a later request leaves the earlier lines
  }
  if (failed > 0) Die(fmt::format("{} of the requests failed: their lines say why", failed));
}

}  // namespace lagoon

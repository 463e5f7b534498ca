#include "serving/model/program_warmup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sched/programs/profile_jobs.h"
#include "serving/model/model_folder.h"

namespace lagoon {
namespace {

/// The longest a run may take.
constexpr Nanoseconds kRunsWithin = std::chrono::minutes(1);

Result<std::string> WarmupBytesOf(const WarmupInput& input, const TensorSpec& spec,
                                  const std::string& folder) {
  if (input.type != ConfigType(spec.type) || input.dims != spec.dims) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("is {} {}, the program takes {} {}",
                            inference::DataType_Name(input.type), ToString(input.dims),
                            inference::DataType_Name(ConfigType(spec.type)), ToString(spec.dims)));
  }
  if (input.file.empty()) return std::string(spec.bytes(), '\0');
  LAGOON_ASSIGN_OR_RETURN(std::string bytes,
                          ReadModelFile(folder, "warmup/" + input.file, spec.bytes()));
  if (bytes.size() == spec.bytes()) return bytes;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("has {} bytes, its file {}", spec.bytes(), bytes.size()));
}

}  // namespace

Result<std::vector<WarmupBytes>> FitWarmup(const std::vector<WarmupRequest>& requests,
                                           const std::string& folder, const Signature& signature) {
  std::vector<WarmupBytes> fitted;
  for (const WarmupRequest& request : requests) {
    WarmupBytes bytes{fmt::format("model_warmup {}", Quoted(request.name)), request.runs, {}};
    for (const auto& [name, input] : request.inputs) {
      if (std::ranges::count(signature.inputs, name, &TensorSpec::name) > 0) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: input {} is not one of the program, which has {}", bytes.place,
                              Quoted(name), QuotedNames(signature.inputs)));
    }
    for (const TensorSpec& spec : signature.inputs) {
      const std::string place = fmt::format("{}: input {}", bytes.place, Quoted(spec.name));
      const auto found = request.inputs.find(spec.name);
      if (found == request.inputs.end()) {
        return Fail(ErrorCode::kInvalidArgument, place + " is missing");
      }
      Result<std::string> read = WarmupBytesOf(found->second, spec, folder);
      if (!read) return Annotate(place, std::move(read).error());
      bytes.inputs.push_back(*std::move(read));
    }
    fitted.push_back(std::move(bytes));
  }
  return fitted;
}

Status RunWarmup(const std::vector<WarmupBytes>& requests, const Signature& signature,
                 const Device& device, ProgramHost& host) {
  for (const WarmupBytes& request : requests) {
    std::vector<const void*> inputs;
    for (const std::string& bytes : request.inputs) inputs.push_back(bytes.data());
    const JobProfile profile{inputs, signature.outputs.size(), request.runs, kRunsWithin};
    if (Status ran = ProfileJobs(host, device, profile); !ran) {
      return Annotate(request.place, std::move(ran).error());
    }
  }
  return {};
}

}  // namespace lagoon

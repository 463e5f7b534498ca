#include "serving/config/warmup_settings.h"

#include <fmt/format.h>

#include "base/text.h"

namespace lagoon {
namespace {

using Given = inference::ModelWarmup;

Result<WarmupInput> ReadWarmupInput(const Given::Input& proto, const std::string& place) {
  WarmupInput input{proto.data_type(), {proto.dims().begin(), proto.dims().end()}, {}};
  switch (proto.input_data_type_case()) {
    case Given::Input::kZeroData:
      return input;
    case Given::Input::kInputDataFile:
      input.file = proto.input_data_file();
      if (!input.file.empty()) return input;
      break;
    case Given::Input::kRandomData:
      return Fail(ErrorCode::kUnimplemented,
                  place +
                      ": random_data is not implemented: the work of a job program depends on "
                      "its inputs; give zero_data or an input_data_file");
    case Given::Input::INPUT_DATA_TYPE_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, place + " has neither zero_data nor input_data_file");
}

}  // namespace

Result<std::vector<WarmupRequest>> ReadWarmup(const inference::ModelConfig& config) {
  std::vector<WarmupRequest> requests;
  std::uint64_t runs = 0;
  for (const Given& proto : config.model_warmup()) {
    const std::string place = fmt::format("model_warmup {}", Quoted(proto.name()));
    if (proto.batch_size() > 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: batch_size is {}; a job program takes one request at a time: 1",
                              place, proto.batch_size()));
    }
    WarmupRequest request{proto.name(), proto.count() > 0 ? proto.count() : kWarmupRuns, {}};
    runs += request.runs;
    if (runs > kMostWarmupRuns) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: up to here model_warmup asks for {} runs, the limit is {}",
                              place, runs, kMostWarmupRuns));
    }
    for (const auto& [name, input] : proto.inputs()) {
      LAGOON_ASSIGN_OR_RETURN(
          request.inputs[name],
          ReadWarmupInput(input, fmt::format("{}, input {}", place, Quoted(name))));
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace lagoon

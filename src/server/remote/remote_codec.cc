#include "server/remote/remote_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/text.h"
#include "server/error_map.h"
#include "server/http/http_message.h"
#include "server/telemetry/traceparent.h"
#include "server/tensors/tensor_codec.h"
#include "serving/config/model_settings.h"
#include "serving/core/parameters.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {
namespace {

/// With the member's name, if the member is the reason.
Error NameMember(Error error, std::string_view member) {
  const bool of_member =
      error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kInternal;
  if (of_member) error.message = fmt::format("{}: {}", member, error.message);
  return error;
}

tl::unexpected<Error> BadAnswer(std::string_view why) {
  return Fail(ErrorCode::kInternal, fmt::format("the member's answer {}", why));
}

/// One entry of an answer's "outputs". Its bytes are the next ones of `tail`.
Status TakeOutput(const nlohmann::json& json, std::span<const std::byte>& tail,
                  InferResponse& response) {
  OutputTensor& output = response.outputs.emplace_back();
  output.name = json.at("name").get<std::string>();
  const auto type = ParseOipType(json.at("datatype").get<std::string>());
  if (!type) return BadAnswer(fmt::format("has output {} of no type", Quoted(output.name)));
  output.type = *type;
  output.dims = json.at("shape").get<Dims>();
  const auto size = json.at("parameters").at("binary_data_size").get<std::size_t>();
  if (size > tail.size()) {
    return BadAnswer(fmt::format("ends within output {}: {} of {} bytes are there",
                                 Quoted(output.name), tail.size(), size));
  }
  if (!CheckTensorBytes(output.type, output.dims, tail.first(size))) {
    return BadAnswer(fmt::format("has {} bytes for output {} of type {} and {} dimensions", size,
                                 Quoted(output.name), OipName(output.type), output.dims.size()));
  }
  output.data.assign(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(size));
  tail = tail.subspan(size);
  return {};
}

Result<InferResponse> ReadAnswer(std::string_view text, std::span<const std::byte> tail) {
  InferResponse response;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return BadAnswer("has no JSON object");
  response.model = json.at("model_name").get<std::string>();
  response.version = json.at("model_version").get<std::string>();
  response.id = json.value("id", std::string());
  if (const auto set = json.find("parameters"); set != json.end()) {
    auto read = ReadAnswerParameters(*set);
    if (!read) return BadAnswer("is wrong: " + read.error().message);
    response.parameters = *std::move(read);
  }
  const auto& outputs = json.at("outputs");
  if (!outputs.is_array()) return BadAnswer("has no list of outputs");
  for (const auto& output : outputs) {
    LAGOON_RETURN_IF_ERROR(TakeOutput(output, tail, response));
  }
  if (!tail.empty()) return BadAnswer(fmt::format("has {} bytes too many", tail.size()));
  return response;
}

/// The parameters of a request, and the comma behind them.
std::string ParametersOf(const InferRequest& request, Nanoseconds left, std::string_view front) {
  std::string text = R"("parameters":{"binary_data_output":true)";
  const auto add = [&text](std::string_view name, const auto& value) {
    fmt::format_to(std::back_inserter(text), ",\"{}\":{}", name, value);
  };
  if (request.priority != 0) add("priority", request.priority);
  // Rounded up: 0 would mean that there is no deadline.
  if (left > Nanoseconds::zero()) add("timeout", (left.count() + 999) / 1000);
  if (const SequencePart& sequence = request.sequence; sequence.has_id()) {
    if (sequence.text.empty()) {
      add("sequence_id", sequence.number);
    } else {
      add("sequence_id", JsonString(sequence.text));
    }
    add("sequence_start", sequence.start);
    add("sequence_end", sequence.end);
  }
  if (!request.tenant_of_parameter.empty()) {
    add("lagoon_tenant", JsonString(request.tenant_of_parameter));
  }
  text += ParameterMembers(request.parameters);  // a member ignores those that are null
  if (!front.empty()) {
    const std::string_view comma = request.via.empty() ? "" : ",";
    add("lagoon_via", JsonString(fmt::format("{}{}{}", request.via, comma, front)));
  }
  return text + "},";
}

std::string BodyOf(const InferRequest& request, Nanoseconds left, std::string_view front) {
  std::string text = "{";
  if (!request.id.empty()) text += fmt::format("\"id\":{},", JsonString(request.id));
  text += ParametersOf(request, left, front);
  text += "\"inputs\":[";
  std::string_view comma;
  for (const InputTensor& input : request.inputs) {
    fmt::format_to(std::back_inserter(text),
                   R"({}{{"name":{},"datatype":"{}","shape":[{}],"parameters":)"
                   R"({{"binary_data_size":{}}}}})",
                   comma, JsonString(input.name), OipName(input.type), fmt::join(input.dims, ","),
                   input.data.size());
    comma = ",";
  }
  text += "]";
  if (!request.outputs.empty()) text += ",\"outputs\":[";
  comma = "";
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    text += fmt::format("{}{{\"name\":{}", comma, JsonString(request.outputs[i]));
    if (i < request.classes.size() && request.classes[i] != 0) {
      text += fmt::format(",\"parameters\":{{\"classification\":{}}}", request.classes[i]);
    }
    text += "}";
    comma = ",";
  }
  return text + (request.outputs.empty() ? "}" : "]}");
}

Status FillSpecs(const google::protobuf::RepeatedPtrField<
                     inference::ModelMetadataResponse::TensorMetadata>& tensors,
                 std::vector<TensorSpec>& specs) {
  for (const auto& tensor : tensors) {
    const auto type = ParseOipType(tensor.datatype());
    if (!type) {
      return BadAnswer(
          fmt::format("names {} as the type of tensor {}, which is no type of the "
                      "protocol",
                      Quoted(tensor.datatype()), Quoted(tensor.name())));
    }
    specs.push_back(
        TensorSpec{tensor.name(), *type, {tensor.shape().begin(), tensor.shape().end()}});
  }
  return {};
}

StageStatistics StageOf(const inference::StatisticDuration& duration) {
  return {duration.count(), duration.ns()};
}

}  // namespace

std::string RequestHead(const InferRequest& request, Nanoseconds left, std::string_view front) {
  const std::string body = BodyOf(request, left, front);
  std::size_t bytes = body.size();
  for (const InputTensor& input : request.inputs) bytes += input.data.size();
  std::string fields;
  if (request.trace.any()) {
    fields = fmt::format("{}: {}\r\n", kTraceparent, FormatTraceparent(request.trace));
  }
  if (!request.tenant_of_header.empty()) {
    // What is no text of a header does not end one here, wherever it comes from.
    std::string tenant = request.tenant_of_header;
    std::ranges::replace_if(
        tenant, [](char c) { return c < ' ' || c > '~'; }, '?');
    fields += fmt::format("{}: {}\r\n", kTenantField, tenant);
  }
  const std::string version = request.version.empty() ? "" : "/versions/" + request.version;
  return fmt::format(
      "POST /v2/models/{}{}/infer HTTP/1.1\r\nHost: member\r\nContent-Length: {}\r\n{}: "
      "{}\r\n{}: 1\r\n{}\r\n{}",
      request.model, version, bytes, kJsonLengthField, body.size(), kBeatField, fields, body);
}

Result<InferResponse> ParseAnswer(std::span<const std::byte> body,
                                  std::optional<std::size_t> json_bytes) {
  const std::size_t length = json_bytes.value_or(body.size());  // an answer without tensors
  if (length > body.size()) return BadAnswer("has no JSON with tensors behind it");
  const std::string_view text(reinterpret_cast<const char*>(body.data()), length);
  try {
    return ReadAnswer(text, body.subspan(length));
  } catch (const nlohmann::json::exception&) {
    return BadAnswer("is no answer to an inference with binary tensors");
  }
}

Error ErrorOf(unsigned status, std::span<const std::byte> body, std::string_view member) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto told = json.is_object() ? json.find("error") : json.end();
  const ErrorCode code = ErrorCodeOf(status);
  if (told == json.end() || !told->is_string()) {
    return {code, fmt::format("{} has answered with status {}", member, status)};
  }
  return NameMember({code, CutMessage(told->get<std::string>())}, member);
}

Status CheckAnswer(const InferResponse& response, const Asked& asked) {
  const auto differs = [](std::string_view what, const std::string& has, const std::string& other) {
    return BadAnswer(
        fmt::format("has the {} {}, the request has {}", what, Quoted(has), Quoted(other)));
  };
  if (response.model != asked.model) return differs("model", response.model, asked.model);
  if (response.id != asked.id) return differs("id", response.id, asked.id);
  if (!asked.version.empty() && response.version != asked.version) {
    return differs("version", response.version, asked.version);
  }
  std::set<std::string_view> names;
  for (const OutputTensor& output : response.outputs) {
    if (!names.insert(output.name).second) {
      return BadAnswer(fmt::format("has the output {} twice", Quoted(output.name)));
    }
  }
  if (asked.outputs.empty()) return {};
  for (const std::string_view name : names) {
    if (std::ranges::find(asked.outputs, name) != asked.outputs.end()) continue;
    return BadAnswer(
        fmt::format("has the output {}, which the request does not name", Quoted(name)));
  }
  return {};
}

Status CheckOutputs(const InferResponse& response, const ModelMetadata& model,
                    std::span<const std::string> outputs, std::span<const std::string> classified) {
  for (const OutputTensor& output : response.outputs) {
    const auto spec = std::ranges::find(model.outputs, output.name, &TensorSpec::name);
    if (spec == model.outputs.end()) {
      return BadAnswer(fmt::format("has the output {}, which the model {} lacks",
                                   Quoted(output.name), Quoted(model.name)));
    }
    const auto fits = [](std::int64_t size, std::int64_t takes) {
      return takes < 0 || size == takes;
    };
    // A tensor of which all sizes are open may have any rank (ServedModel::OutputSpecs).
    const bool open = !spec->dims.empty() &&
                      std::ranges::all_of(spec->dims, [](std::int64_t size) { return size < 0; });
    const bool shaped = open || std::ranges::equal(output.dims, spec->dims, fits);
    const bool classes = std::ranges::find(classified, output.name) != classified.end();
    if (classes ? output.type == DataType::kString : output.type == spec->type && shaped) continue;
    return BadAnswer(fmt::format("has the output {} as {} {}, and the model {} has it as {} {}",
                                 Quoted(output.name), OipName(output.type), ShownShape(output.dims),
                                 Quoted(model.name), OipName(spec->type), ShownShape(spec->dims)));
  }
  if (model.platform == kPythonBackend) return {};  // a program may leave outputs out
  std::vector<std::string_view> wanted(outputs.begin(), outputs.end());
  if (wanted.empty()) {
    for (const TensorSpec& output : model.outputs) wanted.push_back(output.name);
  }
  for (const std::string_view name : wanted) {
    const auto given = std::ranges::find(response.outputs, name, &OutputTensor::name);
    if (given != response.outputs.end()) continue;
    return BadAnswer(
        fmt::format("lacks the output {} of model {}", Quoted(name), Quoted(model.name)));
  }
  return {};
}

Status CheckForms(const InferResponse& response, std::span<const std::string> outputs,
                  std::span<const OutputForm> forms, OutputForm form) {
  for (const OutputTensor& output : response.outputs) {
    OutputForm wanted = form;
    for (std::size_t i = 0; i < std::min(outputs.size(), forms.size()); ++i) {
      if (outputs[i] == output.name) wanted = forms[i];
    }
    const bool half = output.type == DataType::kFloat16 || output.type == DataType::kBFloat16;
    if (wanted == OutputForm::kText && half) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("model {}: output {} is {}, which JSON has no numbers for; ask for "
                              "binary data",
                              Quoted(response.model), Quoted(output.name), OipName(output.type)));
    }
  }
  return {};
}

Result<ModelMetadata> ParseMetadata(const inference::ModelMetadataResponse& message) {
  ModelMetadata model{message.name(),
                      {message.versions().begin(), message.versions().end()},
                      message.platform(),
                      {},
                      {}};
  LAGOON_RETURN_IF_ERROR(FillSpecs(message.inputs(), model.inputs));
  LAGOON_RETURN_IF_ERROR(FillSpecs(message.outputs(), model.outputs));
  return model;
}

std::vector<ModelStatistics> ParseStatistics(const inference::ModelStatisticsResponse& message) {
  std::vector<ModelStatistics> models;
  models.reserve(static_cast<std::size_t>(message.model_stats_size()));
  for (const auto& row : message.model_stats()) {
    ModelStatistics& model = models.emplace_back();
    model.name = row.name();
    model.version = row.version();
    model.last_inference_ms = row.last_inference();
    model.inference_count = row.inference_count();
    model.execution_count = row.execution_count();
    model.pending = row.pending();
    const auto& stages = row.inference_stats();
    model.success = StageOf(stages.success());
    model.fail = StageOf(stages.fail());
    model.queue = StageOf(stages.queue());
    model.compute_input = StageOf(stages.compute_input());
    model.compute_infer = StageOf(stages.compute_infer());
    model.compute_output = StageOf(stages.compute_output());
    for (const auto& batch : row.batch_stats()) {
      model.batches.push_back({batch.batch_size(), StageOf(batch.compute_input()),
                               StageOf(batch.compute_infer()), StageOf(batch.compute_output())});
    }
  }
  return models;
}

Error ErrorOf(const grpc::Status& status, std::string_view member) {
  return NameMember({ErrorCodeOf(status.error_code()), CutMessage(status.error_message())}, member);
}

}  // namespace lagoon

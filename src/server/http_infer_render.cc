#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "server/http_infer_codec.h"

namespace lagoon {
namespace {

void AppendString(std::string& out, std::string_view text) {
  const nlohmann::json value = text;
  out += value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename T>
bool AppendNumber(std::string& out, T value) {
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return false;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  out.append(text, end.ptr);
  return true;
}

// False: a value has no JSON form.
template <typename T>
bool AppendNumbers(std::string& out, std::span<const std::byte> data) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    if (at != 0) out += ',';
    if (!AppendNumber(out, value)) return false;
  }
  return true;
}

void AppendBools(std::string& out, std::span<const std::byte> data) {
  for (std::size_t at = 0; at < data.size(); ++at) {
    if (at != 0) out += ',';
    out += data[at] == std::byte{0} ? "false" : "true";
  }
}

bool AppendElements(std::string& out, const OutputTensor& output) {
  switch (output.type) {
    case DataType::kFloat32:
      return AppendNumbers<float>(out, output.data);
    case DataType::kFloat64:
      return AppendNumbers<double>(out, output.data);
    case DataType::kInt8:
      return AppendNumbers<std::int8_t>(out, output.data);
    case DataType::kInt16:
      return AppendNumbers<std::int16_t>(out, output.data);
    case DataType::kInt32:
      return AppendNumbers<std::int32_t>(out, output.data);
    case DataType::kInt64:
      return AppendNumbers<std::int64_t>(out, output.data);
    case DataType::kUInt8:
      return AppendNumbers<std::uint8_t>(out, output.data);
    case DataType::kUInt16:
      return AppendNumbers<std::uint16_t>(out, output.data);
    case DataType::kUInt32:
      return AppendNumbers<std::uint32_t>(out, output.data);
    case DataType::kUInt64:
      return AppendNumbers<std::uint64_t>(out, output.data);
    case DataType::kBool:
      AppendBools(out, output.data);
      return true;
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kString:
      break;
  }
  return false;
}

bool IsBinary(const HttpAnswerFormat& format, const std::string& name) {
  for (const JsonOutput& output : format.outputs) {
    if (output.name == name) return output.binary.value_or(format.binary);
  }
  return format.binary;
}

void AppendStages(std::string& out, const EdgeStamps& stamps, const JobResult& job) {
  out += ",\"parameters\":{";
  bool first = true;
  for (const Stage& stage : Stages(stamps, job, Now())) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\":{:.3f}", first ? "" : ",", stage.name,
                   stage.us);
    first = false;
  }
  out += '}';
}

// `output` loses its data to `blobs` if it is binary.
Status AppendOutput(std::string& out, OutputTensor& output, bool binary,
                    std::vector<std::vector<std::byte>>& blobs) {
  out += "{\"name\":";
  AppendString(out, output.name);
  fmt::format_to(std::back_inserter(out), ",\"datatype\":\"{}\",\"shape\":[{}]",
                 OipName(output.type), fmt::join(output.dims, ","));
  if (binary) {
    fmt::format_to(std::back_inserter(out), ",\"parameters\":{{\"binary_data_size\":{}}}}}",
                   output.data.size());
    blobs.push_back(std::move(output.data));
    return {};
  }
  out += ",\"data\":[";
  if (!AppendElements(out, output)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("output '{}' of type {} holds a value that JSON cannot carry (NaN or "
                            "infinity, or a 16-bit float); ask for binary data",
                            output.name, OipName(output.type)));
  }
  out += "]}";
  return {};
}

}  // namespace

Result<HttpResponse> RenderHttpInfer(InferResponse response, const HttpAnswerFormat& format,
                                     const EdgeStamps& stamps) {
  HttpResponse answer;
  std::string& out = answer.text;
  out += "{\"model_name\":";
  AppendString(out, response.model);
  out += ",\"model_version\":";
  AppendString(out, response.version);
  if (!response.id.empty()) {
    out += ",\"id\":";
    AppendString(out, response.id);
  }
  if (format.stages) AppendStages(out, stamps, response.job);
  out += ",\"outputs\":[";
  bool first = true;
  for (OutputTensor& output : response.outputs) {
    if (!first) out += ',';
    first = false;
    LAGOON_RETURN_IF_ERROR(AppendOutput(out, output, IsBinary(format, output.name), answer.blobs));
  }
  out += "]}";
  if (!answer.blobs.empty()) {
    answer.content_type = kBinaryType;
    answer.fields = fmt::format("Inference-Header-Content-Length: {}\r\n", out.size());
  }
  return answer;
}

}  // namespace lagoon

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/compress/deflate.h"
#include "base/json.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"
#include "server/http/http_infer_codec.h"
#include "serving/core/parameters.h"

namespace lagoon {
namespace {

template <typename T>
void AppendNumber(std::string& out, T value) {
  if constexpr (std::floating_point<T>) {
    // No JSON, but what Triton writes and most parsers read.
    if (std::isnan(value)) {
      out += "NaN";
      return;
    }
    if (std::isinf(value)) {
      out += value < 0 ? "-Infinity" : "Infinity";
      return;
    }
    if (value == 0 && std::signbit(value)) {
      out += "-0.0";  // many readers take -0 for an integer, which has no sign
      return;
    }
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  out.append(text, end.ptr);
}

template <typename T>
void AppendNumbers(std::string& out, std::span<const std::byte> data) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    if (at != 0) out += ',';
    AppendNumber(out, value);
  }
}

void AppendBools(std::string& out, std::span<const std::byte> data) {
  for (std::size_t at = 0; at < data.size(); ++at) {
    if (at != 0) out += ',';
    out += data[at] == std::byte{0} ? "false" : "true";
  }
}

// Finding the largest elements among so many bytes takes about as long as to write one as text.
constexpr std::size_t kClassBytes = 64;

/// The elements of BYTES as strings. Whoever has made the output has checked them.
void AppendTexts(std::string& out, const OutputTensor& output) {
  bool first = true;
  const auto append = [&](std::string_view text) {
    if (!std::exchange(first, false)) out += ',';
    out += JsonString(text);
  };
  (void)VisitBytesElements(output.data, static_cast<std::size_t>(ElementCount(output.dims)),
                           append);
}

bool IsBinary(const HttpAnswerFormat& format, const std::string& name) {
  for (const JsonOutput& output : format.outputs) {
    if (output.name == name) return output.binary.value_or(format.binary);
  }
  return format.binary;
}

/// Those that a program has set, and the stages if `stamps` are there.
void AppendParameters(std::string& out, const EdgeStamps* stamps, const InferResponse& response) {
  if (stamps == nullptr && response.parameters.empty()) return;
  std::string members = ParameterMembers(response.parameters);
  if (stamps != nullptr) {
    for (const Stage& stage : Stages(*stamps, response, Now())) {
      fmt::format_to(std::back_inserter(members), ",\"{}\":{:.3f}", stage.name, stage.us);
    }
  }
  // Without the first comma.
  out += fmt::format(",\"parameters\":{{{}}}", std::string_view(members).substr(1));
}

// The output lies in shared memory.
void AppendPart(std::string& out, const RegionPart& part) {
  fmt::format_to(std::back_inserter(out),
                 ",\"parameters\":{{\"shared_memory_region\":{},\"shared_memory_byte_size\":{}",
                 JsonString(part.region), part.bytes);
  if (part.offset != 0) {
    fmt::format_to(std::back_inserter(out), ",\"shared_memory_offset\":{}", part.offset);
  }
  out += "}}";
}

// If `binary`, the data of `output` is moved to `blobs`. `part`: null unless the data is there.
void AppendOutput(std::string& out, OutputTensor& output, bool binary, const RegionPart* part,
                  std::vector<UnfilledBytes>& blobs) {
  out += "{\"name\":";
  out += JsonString(output.name);
  fmt::format_to(std::back_inserter(out), ",\"datatype\":\"{}\",\"shape\":[{}]",
                 OipName(output.type), fmt::join(output.dims, ","));
  if (part != nullptr) return AppendPart(out, *part);
  if (binary) {
    fmt::format_to(std::back_inserter(out), ",\"parameters\":{{\"binary_data_size\":{}}}}}",
                   output.data.size());
    blobs.push_back(std::move(output.data));
    return;
  }
  out += ",\"data\":[";
  AppendElements(out, output);
  out += "]}";
}

}  // namespace

HttpCoding CodingFor(std::string_view accept) {
  const auto is = [&](std::string_view name) {
    return boost::beast::iequals({accept.data(), accept.size()}, {name.data(), name.size()});
  };
  if (is("gzip") || is("x-gzip")) return HttpCoding::kGzip;
  return is("deflate") ? HttpCoding::kDeflate : HttpCoding::kNone;
}

void Compress(HttpResponse& response, HttpCoding coding) {
  if (coding == HttpCoding::kNone) return;
  const bool gzip = coding == HttpCoding::kGzip;
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(response.text))};
  for (const UnfilledBytes& blob : response.blobs) parts.emplace_back(blob.data(), blob.size());
  std::vector<UnfilledBytes> compressed = Deflate(parts, gzip);
  response.blobs = std::move(compressed);
  response.text.clear();
  response.text.shrink_to_fit();
  response.fields +=
      fmt::format("Content-Encoding: {}\r\nVary: Accept-Encoding\r\n", gzip ? "gzip" : "deflate");
}

void AppendElements(std::string& out, const OutputTensor& output) {
  if (output.type == DataType::kString) return AppendTexts(out, output);
  const auto append = [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      AppendBools(out, output.data);
    } else {
      AppendNumbers<T>(out, output.data);
    }
  };
  // The core refused other types before it computed (OutputForm::kText).
  WithNativeType(output.type, append, [] {});
}

std::size_t TextElements(const InferResponse& response, const HttpAnswerFormat& format) {
  std::size_t elements = 0;
  for (const OutputTensor& output : response.outputs) {
    if (output.classes) {
      elements += output.data.size() / kClassBytes;
      continue;
    }
    const bool text = !IsBinary(format, output.name) && format.regions.Find(output.name) == nullptr;
    const std::size_t element =
        output.type == DataType::kString ? kBytesLengthSize : SizeOf(output.type);
    if (text) elements += output.data.size() / std::max(element, sizeof(std::uint32_t));
  }
  return elements;
}

HttpResponse RenderHttpInfer(InferResponse response, const HttpAnswerFormat& format,
                             const EdgeStamps& stamps) {
  HttpResponse answer;
  std::string& out = answer.text;
  out += "{\"model_name\":";
  out += JsonString(response.model);
  out += ",\"model_version\":";
  out += JsonString(response.version);
  if (!response.id.empty()) {
    out += ",\"id\":";
    out += JsonString(response.id);
  }
  AppendParameters(out, format.stages ? &stamps : nullptr, response);
  out += ",\"outputs\":[";
  bool first = true;
  for (OutputTensor& output : response.outputs) {
    if (!first) out += ',';
    first = false;
    AppendOutput(out, output, IsBinary(format, output.name), format.regions.Find(output.name),
                 answer.blobs);
  }
  out += "]}";
  if (!answer.blobs.empty()) {
    answer.content_type = kBinaryType;
    answer.fields = fmt::format("Inference-Header-Content-Length: {}\r\n", out.size());
  }
  return answer;
}

}  // namespace lagoon

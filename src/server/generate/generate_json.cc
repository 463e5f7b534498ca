#include "server/generate/generate_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/text.h"
#include "server/http/json_lane.h"
#include "serving/core/parameters.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

/// The lengths of the nested lists, taken from the first of each.
Dims NestingOf(const Json& value) {
  Dims nesting;
  for (const Json* list = &value; list->is_array(); list = &list->front()) {
    nesting.push_back(static_cast<std::int64_t>(list->size()));
    if (list->empty()) break;
  }
  return nesting;
}

/// The declared dims for `count` elements: the last open dim follows from the others, of which the
/// open ones are 1, as Triton has it. Empty: there are no such.
Dims DeclaredFor(Dims dims, std::int64_t count) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& dim : dims) {
    if (dim >= 0) {
      known *= dim;
    } else {
      if (open != nullptr) *open = 1;
      open = &dim;
    }
  }
  if (open != nullptr && known > 0) {
    *open = count / known;
    known *= *open;
  }
  return known == count ? dims : Dims{};
}

Dims ShapeFor(const TensorSpec& input, std::int64_t max_batch, const Json& value) {
  Dims nesting = NestingOf(value);
  if (nesting.size() > 1) return nesting;
  Dims declared = input.dims;
  if (max_batch > 0 && !declared.empty()) declared.front() = 1;
  const Dims fitting = DeclaredFor(std::move(declared), nesting.front());
  return fitting.empty() ? nesting : fitting;
}

/// Looks into the body, then into its `parameters`.
const Json* Member(const Json& body, std::string_view name) {
  const auto own = body.find(name);
  if (own != body.end()) return &*own;
  const auto parameters = body.find("parameters");
  if (parameters == body.end() || !parameters->is_object()) return nullptr;
  const auto inner = parameters->find(name);
  return inner == parameters->end() ? nullptr : &*inner;
}

/// The inputs that are named, as the infer protocol writes them.
Result<Json> InputsOf(const Json& body, const ModelMetadata& model) {
  Json inputs = Json::array();
  for (const TensorSpec& input : model.inputs) {
    const Json* const value = Member(body, input.name);
    if (value == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("the body has no {}, an input of the model", Quoted(input.name)));
    }
    const Json data = value->is_array() ? *value : Json::array({*value});
    inputs.push_back({{"name", input.name},
                      {"datatype", OipName(input.type)},
                      {"shape", ShapeFor(input, model.max_batch, data)},
                      {"data", data}});
  }
  return inputs;
}

/// Whether a body of generate may name this parameter: not those of tensors and of forms.
bool IsParameterOfGenerate(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kOfServer = {
      "priority", "timeout", "sequence_id", "sequence_start", "sequence_end", "lagoon_tenant"};
  return !IsServerParameter(name) || std::ranges::find(kOfServer, name) != kOfServer.end();
}

/// Of the members that are no input; the last one counts where a name is there twice.
void KeepParameters(const Json& members, const ModelMetadata& model, Json& request) {
  for (const auto& [name, value] : members.items()) {
    const bool input =
        std::ranges::find(model.inputs, name, &TensorSpec::name) != model.inputs.end();
    if (input || name == "id" || name == "parameters" || !IsParameterOfGenerate(name)) continue;
    request["parameters"][name] = value;
  }
}

}  // namespace

Result<HttpInfer> ParseGenerate(std::string_view body, const ModelMetadata& model) {
  const Result<Json> parsed = ParseJson(body);
  if (!parsed) return Annotate("the body", Error(parsed.error()));
  if (!parsed->is_object()) {
    return Fail(ErrorCode::kInvalidArgument, "the body is no JSON object");
  }
  Json request = Json::object();
  LAGOON_ASSIGN_OR_RETURN(request["inputs"], InputsOf(*parsed, model));
  if (const auto id = parsed->find("id"); id != parsed->end()) {
    request["id"] = id->is_string() ? *id : Json(DumpJson(*id));
  }
  if (const auto given = parsed->find("parameters"); given != parsed->end()) {
    if (!given->is_object() && !given->is_null()) {
      return Fail(ErrorCode::kInvalidArgument, "the body: 'parameters' is no JSON object");
    }
    KeepParameters(*given, model, request);
  }
  KeepParameters(*parsed, model, request);
  // The parser of infer requests checks names, types, ranges and nesting.
  const auto text = std::make_shared<std::string>(DumpJson(request));
  return ParseHttpInfer(std::as_bytes(std::span(*text)), std::nullopt, text);
}

Result<std::string> RenderGenerate(const InferResponse& response) {
  std::string out = fmt::format("{{\"model_name\":{},\"model_version\":{}",
                                JsonString(response.model), JsonString(response.version));
  if (!response.id.empty()) out += fmt::format(",\"id\":{}", JsonString(response.id));
  out += ParameterMembers(response.parameters);
  std::size_t elements = 0;
  for (const OutputTensor& output : response.outputs) {
    const auto count = static_cast<std::size_t>(ElementCount(output.dims));
    elements += count;
    if (elements > kMaxEdgeElements) {
      return Fail(
          ErrorCode::kUnimplemented,
          fmt::format("the outputs have more than {} elements: use infer, or ModelStreamInfer of "
                      "gRPC where the model is decoupled",
                      kMaxEdgeElements));
    }
    out += fmt::format(",{}:", JsonString(output.name));
    if (count != 1) out += '[';
    AppendElements(out, output);
    if (count != 1) out += ']';
  }
  out += '}';
  return out;
}

}  // namespace lagoon

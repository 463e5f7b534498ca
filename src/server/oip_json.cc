#include "server/oip_json.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::array<std::string_view, 8> kExtensions = {
    "binary_tensor_data", "classification",  "logging",  "model_configuration",
    "parameters",         "schedule_policy", "sequence", "statistics"};

std::string Dump(const Json& json) { return DumpJson(json); }

Json Tensors(std::span<const TensorSpec> specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name}, {"datatype", OipName(spec.type)}, {"shape", spec.dims}});
  }
  return list;
}

Json Duration(const StageStatistics& stage) { return {{"count", stage.count}, {"ns", stage.ns}}; }

Json BatchesOf(const ModelStatistics& model) {
  Json list = Json::array();
  for (const BatchStatistics& batch : model.batches) {
    list.push_back({{"batch_size", batch.batch_size},
                    {"compute_input", Duration(batch.compute_input)},
                    {"compute_infer", Duration(batch.compute_infer)},
                    {"compute_output", Duration(batch.compute_output)}});
  }
  return list;
}

Json ModelStatisticsOf(const ModelStatistics& model) {
  return {{"name", model.name},
          {"version", model.version},
          {"last_inference", model.last_inference_ms},
          {"inference_count", model.inference_count},
          {"execution_count", model.execution_count},
          {"inference_stats",
           {{"success", Duration(model.success)},
            {"fail", Duration(model.fail)},
            {"queue", Duration(model.queue)},
            {"compute_input", Duration(model.compute_input)},
            {"compute_infer", Duration(model.compute_infer)},
            {"compute_output", Duration(model.compute_output)},
            {"cache_hit", Duration({})},
            {"cache_miss", Duration({})}}},
          {"batch_stats", BatchesOf(model)},
          // Triton's clients look for them; Lagoon has neither.
          {"memory_usage", Json::array()},
          {"response_stats", Json::object()}};
}

bool Is64Bit(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

Json NumberOf(const Json& text) {
  // protobuf writes 64-bit integers as whole numbers in quotes.
  return text.is_string() ? Json::parse(text.get_ref<const std::string&>()) : text;
}

void UnquoteIntegers(Json& json, const Descriptor& message);

void UnquoteValue(Json& value, const FieldDescriptor& field) {
  if (Is64Bit(field)) {
    value = NumberOf(value);
  } else if (field.message_type() != nullptr && value.is_object()) {
    UnquoteIntegers(value, *field.message_type());
  }
}

// Recursion is as deep as the type of the message: ModelConfig's is fixed and shallow.
void UnquoteIntegers(Json& json, const Descriptor& message) {
  for (auto& [name, value] : json.items()) {
    const FieldDescriptor* field = message.FindFieldByName(name);
    if (field == nullptr) continue;
    if (field->is_map()) {
      const FieldDescriptor& mapped = *field->message_type()->map_value();
      for (auto& entry : value.items()) UnquoteValue(entry.value(), mapped);
    } else if (field->is_repeated()) {
      for (Json& element : value) UnquoteValue(element, *field);
    } else {
      UnquoteValue(value, *field);
    }
  }
}

}  // namespace

std::string_view ServerVersion() { return LAGOON_VERSION; }

std::vector<std::string_view> ServerExtensions(const ServedExtensions& served) {
  std::vector<std::string_view> names(kExtensions.begin(), kExtensions.end());
  if (served.model_control) names.push_back("model_repository");
  if (served.shared_memory) names.push_back("system_shared_memory");
  return names;
}

std::string ServerMetadataJson(const ServedExtensions& served) {
  Json extensions = Json::array();
  for (const std::string_view name : ServerExtensions(served)) extensions.push_back(name);
  return Dump(
      {{"name", kServerName}, {"version", ServerVersion()}, {"extensions", std::move(extensions)}});
}

std::string ModelMetadataJson(const ModelMetadata& model) {
  return Dump({{"name", model.name},
               {"versions", model.versions},
               {"platform", model.platform},
               {"inputs", Tensors(model.inputs)},
               {"outputs", Tensors(model.outputs)}});
}

std::string StatisticsJson(std::span<const ModelStatistics> models) {
  Json list = Json::array();
  for (const ModelStatistics& model : models) list.push_back(ModelStatisticsOf(model));
  return Dump({{"model_stats", std::move(list)}});
}

Result<std::string> ModelConfigJson(const inference::ModelConfig& config) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;  // clients rely on max_batch_size
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(config, &text, options);
  if (!status.ok()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("model '{}': its configuration has no JSON form: {}", config.name(),
                            status.ToString()));
  }
  Json json = Json::parse(text);
  UnquoteIntegers(json, *config.GetDescriptor());
  return Dump(json);
}

}  // namespace lagoon

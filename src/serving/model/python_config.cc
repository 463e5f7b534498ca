#include "serving/model/python_config.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "base/text.h"

namespace lagoon {
namespace {

tl::unexpected<Error> NotCompleted(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "auto_complete_config(): " + what);
}

/// Adds the tensors of `list` to a side of the config that has none.
template <typename Tensors>
Status AddTensors(const nlohmann::json& list, Tensors& tensors) {
  if (!list.is_array()) return NotCompleted("gives no list of tensors");
  if (!tensors.empty()) return {};
  for (const nlohmann::json& entry : list) {
    const bool fits = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                      entry.contains("data_type") && entry["data_type"].is_string() &&
                      entry.contains("dims") && entry["dims"].is_array();
    if (!fits) return NotCompleted("a tensor takes 'name', 'data_type' and 'dims'");
    auto& tensor = *tensors.Add();
    tensor.set_name(entry["name"].template get<std::string>());
    inference::DataType type = inference::TYPE_INVALID;
    const auto word = entry["data_type"].template get<std::string>();
    if (!inference::DataType_Parse(word, &type)) {
      return NotCompleted(
          fmt::format("tensor {} has data_type {}", Quoted(tensor.name()), Quoted(word)));
    }
    tensor.set_data_type(type);
    for (const nlohmann::json& dim : entry["dims"]) {
      if (!dim.is_number_integer()) {
        return NotCompleted(
            fmt::format("tensor {} has dims that are no numbers", Quoted(tensor.name())));
      }
      tensor.add_dims(dim.template get<std::int64_t>());
    }
  }
  return {};
}

}  // namespace

nlohmann::json ProgramLoad(const ProgramPlace& place, const inference::ModelConfig& config,
                           std::uint32_t index) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(config, &text, options);
  return {{"op", "load"},
          {"path", place.path},
          {"folder", place.folder},
          {"name", place.name},
          {"version", place.version},
          {"instance", fmt::format("{}_{}", place.name, index)},
          {"decoupled", config.model_transaction_policy().decoupled()},
          {"config", text}};
}

Status TakeCompletion(const nlohmann::json& ready, inference::ModelConfig& config) {
  const auto found = ready.find("completed");
  if (found == ready.end()) return {};
  const nlohmann::json& completed = *found;
  if (!completed.is_object()) return NotCompleted("gives no configuration");
  if (completed.contains("input")) {
    LAGOON_RETURN_IF_ERROR(AddTensors(completed["input"], *config.mutable_input()));
  }
  if (completed.contains("output")) {
    LAGOON_RETURN_IF_ERROR(AddTensors(completed["output"], *config.mutable_output()));
  }
  if (const auto rows = completed.find("max_batch_size");
      rows != completed.end() && config.max_batch_size() == 0) {
    if (!rows->is_number_integer()) return NotCompleted("max_batch_size is no number");
    const auto value = rows->get<std::int64_t>();
    if (value < 0 || value > INT32_MAX)
      return NotCompleted(fmt::format("max_batch_size is {}", value));
    config.set_max_batch_size(static_cast<std::int32_t>(value));
  }
  if (completed.contains("dynamic_batching") && !config.has_sequence_batching()) {
    config.mutable_dynamic_batching();
  }
  if (const auto decoupled = completed.find("decoupled");
      decoupled != completed.end() && decoupled->is_boolean() && decoupled->get<bool>()) {
    config.mutable_model_transaction_policy()->set_decoupled(true);
  }
  return {};
}

}  // namespace lagoon

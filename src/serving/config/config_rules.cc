#include "serving/config/config_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace lagoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Locations = google::protobuf::TextFormat::ParseInfoTree;
using enum FieldVerdict;

constexpr std::string_view kOneDevice = "one device serves all models; --device chooses the device";
constexpr std::string_view kOwnMemory = "the device places the memory of tensors itself";

constexpr FieldRule kRules[] = {
    {"name", kServed, "must equal the name of the folder"},
    {"platform", kServed,
     "`onnxruntime_onnx` or `lagoon_plan`; `lagoon_job` or `python` with that backend; `ensemble`"},
    {"backend", kServed,
     "`onnxruntime` or `lagoon`; `lagoon_job` or `python` for a job program; none for an ensemble"},
    {"runtime", kIgnored, "there is one runtime"},
    {"version_policy", kServed, "the versions that are served; the highest one if it is left out"},
    {"max_batch_size", kServed,
     "the most rows of a request or a batch, 0 to 4096; above 0, dims lack the batch"},
    {"input", kInside, ""},
    {"input.name", kServed, "must be a name of the model"},
    {"input.data_type", kServed, "the model's own"},
    {"input.format", kServed, "a note about the layout, without effect"},
    {"input.dims", kServed, "the model's own; -1: any size"},
    {"input.reshape", kServed, "the model's own shape; dims is what clients send"},
    {"input.is_shape_tensor", kRefused, "shape tensors exist in TensorRT only"},
    {"input.allow_ragged_batch", kRefused, "there are no ragged batches"},
    {"input.optional", kRefused, "every input must be sent"},
    {"input.is_non_linear_format_io", kRefused, "tensors are dense and row-major"},
    {"output", kInside, ""},
    {"output.name", kServed,
     "must be a name of the model; outputs that are not named are not served"},
    {"output.data_type", kServed, "the model's own"},
    {"output.dims", kServed, "the model's own; -1: any size"},
    {"output.reshape", kServed, "the model's own shape; dims is what clients get"},
    {"output.label_filename", kServed,
     "a file beside config.pbtxt, a class a line, for the parameter `classification`"},
    {"output.is_shape_tensor", kRefused, "shape tensors exist in TensorRT only"},
    {"output.is_non_linear_format_io", kRefused, "tensors are dense and row-major"},
    {"batch_input", kRefused, "only clients provide inputs"},
    {"batch_output", kRefused, "outputs are returned whole"},
    {"optimization", kInside, ""},
    {"optimization.graph", kIgnored, "the graph is always fully optimized"},
    {"optimization.priority", kServed, "`PRIORITY_MAX`: real-time; all others: best-effort"},
    {"optimization.cuda", kIgnored, kOneDevice},
    {"optimization.execution_accelerators", kIgnored, "Lagoon runs its own kernels"},
    {"optimization.input_pinned_memory", kIgnored, kOwnMemory},
    {"optimization.output_pinned_memory", kIgnored, kOwnMemory},
    {"optimization.gather_kernel_buffer_threshold", kIgnored, kOwnMemory},
    {"optimization.eager_batching", kIgnored, "dynamic_batching says when a batch is posted"},
    {"dynamic_batching", kInside, ""},
    {"dynamic_batching.preferred_batch_size", kServed, "rows of a batch that is posted at once"},
    {"dynamic_batching.max_queue_delay_microseconds", kServed,
     "how long a request waits for others"},
    {"dynamic_batching.preserve_ordering", kServed, "answers leave in the order of the requests"},
    {"dynamic_batching.priority_levels", kServed, "number of levels; requests of level 1 go first"},
    {"dynamic_batching.default_priority_level", kServed, "the level of a request that names none"},
    {"dynamic_batching.default_queue_policy", kInside, ""},
    {"dynamic_batching.default_queue_policy.timeout_action", kServed,
     "a request that has waited too long is refused (`REJECT`) or goes behind all others "
     "(`DELAY`)"},
    {"dynamic_batching.default_queue_policy.default_timeout_microseconds", kServed,
     "the longest wait for a batch; 0: no limit"},
    {"dynamic_batching.default_queue_policy.allow_timeout_override", kServed,
     "a request's own `timeout` replaces the longest wait"},
    {"dynamic_batching.default_queue_policy.max_queue_size", kServed,
     "requests that may wait; 0: the default"},
    {"dynamic_batching.priority_queue_policy", kServed, "a queue policy for a level of its own"},
    {"sequence_batching", kInside, ""},
    {"sequence_batching.direct", kInside, ""},
    {"sequence_batching.direct.max_queue_delay_microseconds", kServed,
     "how long a request waits for those of other sequences"},
    {"sequence_batching.direct.minimum_slot_utilization", kIgnored,
     "a batch need not be of all sequences"},
    {"sequence_batching.oldest", kInside, ""},
    {"sequence_batching.oldest.max_candidate_sequences", kServed,
     "sequences that an instance has at a time; more wait"},
    {"sequence_batching.oldest.preferred_batch_size", kServed,
     "rows of a batch that is posted at once"},
    {"sequence_batching.oldest.max_queue_delay_microseconds", kServed,
     "how long a request waits for those of other sequences"},
    {"sequence_batching.oldest.preserve_ordering", kServed,
     "always so: a sequence has one request at a time"},
    {"sequence_batching.max_sequence_idle_microseconds", kServed,
     "a sequence without a request for so long has ended; 1 s"},
    {"sequence_batching.control_input", kServed,
     "inputs that tell the model the start, end, readiness and id of the sequence"},
    {"sequence_batching.state", kInside, ""},
    {"sequence_batching.state.input_name", kServed, "an input that clients do not send"},
    {"sequence_batching.state.output_name", kServed, "the output that it gets the next time"},
    {"sequence_batching.state.data_type", kServed, "the model's own"},
    {"sequence_batching.state.dims", kServed, "the model's own"},
    {"sequence_batching.state.initial_state", kServed,
     "zeros, or a file of the folder `initial_state`; with the sizes of open dims"},
    {"sequence_batching.state.use_same_buffer_for_input_output", kIgnored,
     "the server places the memory of states itself"},
    {"sequence_batching.state.use_growable_memory", kIgnored,
     "the server places the memory of states itself"},
    {"sequence_batching.iterative_sequence", kRefused,
     "a model is not called again by itself; a job program can do so"},
    {"ensemble_scheduling", kInside, ""},
    {"ensemble_scheduling.step", kInside, ""},
    {"ensemble_scheduling.step.model_name", kServed, "a model of the ensemble's class"},
    {"ensemble_scheduling.step.model_version", kServed, "-1: the latest"},
    {"ensemble_scheduling.step.input_map", kServed, "the model's names, and the ensemble's"},
    {"ensemble_scheduling.step.output_map", kServed, "the model's names, and the ensemble's"},
    {"ensemble_scheduling.step.model_namespace", kRefused, "models have one name each"},
    {"ensemble_scheduling.max_inflight_requests", kIgnored, "the queues of the models are bounded"},
    {"instance_group", kInside, ""},
    {"instance_group.name", kServed, "a name, without effect"},
    {"instance_group.kind", kIgnored, kOneDevice, inference::ModelInstanceGroup::KIND_CPU},
    {"instance_group.count", kServed, "requests that run at once; groups add up, to at most 64"},
    {"instance_group.rate_limiter", kIgnored, "the scheduler decides what runs"},
    {"instance_group.gpus", kIgnored, kOneDevice},
    {"instance_group.secondary_devices", kIgnored, kOneDevice},
    {"instance_group.profile", kIgnored, "profiles exist in TensorRT only"},
    {"instance_group.passive", kIgnored, "every instance serves"},
    {"instance_group.host_policy", kIgnored, "all instances share the workers"},
    {"default_model_filename", kServed,
     "the file in the version's folder, or a folder with `model.onnx`; `model.onnx` if it is left "
     "out"},
    {"cc_model_filenames", kIgnored, "one file serves on all devices"},
    {"metric_tags", kIgnored, "metrics carry model and version only"},
    {"parameters", kServed, "see below"},
    {"model_warmup", kServed,
     "requests that a job program gets before it is ready; other models are profiled, and so warm"},
    {"model_operations", kIgnored, "custom operators cannot be loaded"},
    {"model_transaction_policy", kInside, ""},
    {"model_transaction_policy.decoupled", kServed,
     "a job program that has any number of answers to a request"},
    {"model_repository_agents", kInside, ""},
    {"model_repository_agents.agents", kRefused, "files are served as they lie in the repository"},
    {"response_cache", kInside, ""},
    {"response_cache.enable", kIgnored, "every request is computed"},
    {"model_metrics", kIgnored, "histogram buckets cannot be chosen"},
};

/// One walk over a config, with the warnings found so far.
class RuleWalk {
 public:
  explicit RuleWalk(std::string_view file) : file_(file) {}

  /// `rule_path` and `shown_path`: path of `message`, ending in '.' unless empty; `shown_path` has
  /// indexes.
  Status Visit(const Message& message, const Locations* locations, const std::string& rule_path,
               const std::string& shown_path) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string path = rule_path + field->name();
      const FieldRule* rule = FindFieldRule(path);
      LAGOON_CHECK(rule != nullptr);  // a test walks the whole descriptor
      const std::string shown = shown_path + field->name();
      LAGOON_RETURN_IF_ERROR(Judge(message, *field, *rule, Place(locations, *field) + shown));
      if (HasInnerRules(path)) {
        LAGOON_RETURN_IF_ERROR(VisitInside(message, *field, locations, {path + ".", shown}));
      }
    }
    return {};
  }

  std::vector<std::string> TakeWarnings() { return std::move(warnings_); }

 private:
  struct Paths {
    std::string rule;
    std::string shown;  // without index and '.'
  };

  static bool HasInnerRules(std::string_view path) {
    return std::ranges::any_of(kRules, [path](const FieldRule& rule) {
      return rule.path.size() > path.size() && rule.path.starts_with(path) &&
             rule.path[path.size()] == '.';
    });
  }

  Status VisitInside(const Message& message, const FieldDescriptor& field,
                     const Locations* locations, const Paths& paths) {
    const Reflection& reflection = *message.GetReflection();
    const auto nested = [&](int index) {
      return locations == nullptr ? nullptr : locations->GetTreeForNested(&field, index);
    };
    if (!field.is_repeated()) {
      return Visit(reflection.GetMessage(message, &field), nested(-1), paths.rule,
                   paths.shown + ".");
    }
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      LAGOON_RETURN_IF_ERROR(Visit(reflection.GetRepeatedMessage(message, &field, i), nested(i),
                                   paths.rule, fmt::format("{}[{}].", paths.shown, i)));
    }
    return {};
  }

  Status Judge(const Message& message, const FieldDescriptor& field, const FieldRule& rule,
               const std::string& place) {
    if (rule.verdict == kServed || rule.verdict == kInside) return {};
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !field.is_repeated() &&
        message.GetReflection()->GetEnumValue(message, &field) == rule.accepted) {
      return {};
    }
    std::string text = fmt::format("{} is not implemented: {}", place, rule.text);
    if (rule.verdict == kRefused) return Fail(ErrorCode::kUnimplemented, std::move(text));
    warnings_.push_back(std::move(text));
    return {};
  }

  /// "FILE:LINE: ", or "FILE: " if the parser kept no line.
  std::string Place(const Locations* locations, const FieldDescriptor& field) const {
    if (locations == nullptr) return fmt::format("{}: ", file_);
    const auto location = locations->GetLocation(&field, field.is_repeated() ? 0 : -1);
    if (location.line < 0) return fmt::format("{}: ", file_);
    return fmt::format("{}:{}: ", file_, location.line + 1);
  }

  std::string_view file_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::span<const FieldRule> FieldRules() { return kRules; }

const FieldRule* FindFieldRule(std::string_view path) {
  const auto* rule = std::ranges::find(kRules, path, &FieldRule::path);
  return rule == std::end(kRules) ? nullptr : rule;
}

Result<std::vector<std::string>> ApplyFieldRules(const inference::ModelConfig& config,
                                                 const Locations& locations,
                                                 std::string_view file) {
  RuleWalk walk(file);
  LAGOON_RETURN_IF_ERROR(walk.Visit(config, &locations, "", ""));
  return walk.TakeWarnings();
}

}  // namespace lagoon

#include "serving/model/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/check.h"
#include "base/text.h"
#include "serving/config/model_settings.h"
#include "serving/config/sequence_settings.h"

namespace lagoon {
namespace {

/// Whether the first dim of `spec` can be a batch of 1 to `max_batch_size`.
bool IsBatch(const TensorSpec& spec, int max_batch_size) {
  if (spec.dims.empty()) return false;
  return spec.dims.front() == -1 || (spec.dims.front() == 1 && max_batch_size == 1);
}

/// The dims that the config declares: those of `spec` without the batch dimension, if any.
Result<Dims> ConfigDims(const char* kind, const TensorSpec& spec, int max_batch_size) {
  if (max_batch_size == 0) return spec.dims;
  if (!IsBatch(spec, max_batch_size)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("max_batch_size is {}, so the first dim of {} '{}' must be the batch, "
                            "but the model has {} (-1: open); max_batch_size 0 makes dims complete",
                            max_batch_size, kind, spec.name, ToString(spec.dims)));
  }
  return Dims(spec.dims.begin() + 1, spec.dims.end());
}

/// One side of the model, inputs or outputs: the same rules hold for both.
template <typename Tensors>
class Side {
 public:
  /// Narrows `specs` to the sizes that the config declares.
  /// `hidden`: names of tensors that are not for clients.
  Side(const char* kind, std::vector<TensorSpec>& specs, std::vector<std::string> hidden,
       int max_batch_size, std::vector<std::string>& warnings)
      : kind_(kind),
        specs_(specs),
        hidden_(std::move(hidden)),
        max_batch_size_(max_batch_size),
        warnings_(warnings),
        reshapes_(specs.size()) {}

  /// Checks and completes each declared tensor. If none is declared, declares all.
  Status Complete(Tensors& declared) {
    if (declared.empty()) {
      for (const TensorSpec& spec : specs_) {
        if (!IsHidden(spec.name)) declared.Add()->set_name(spec.name);
      }
    }
    for (int i = 0; i < declared.size(); ++i) {
      for (int j = 0; j < i; ++j) {
        if (declared[i].name() == declared[j].name()) {
          return Fail(ErrorCode::kInvalidArgument,
                      fmt::format("{} '{}' is declared twice", kind_, declared[i].name()));
        }
      }
      LAGOON_RETURN_IF_ERROR(CompleteTensor(declared[i]));
    }
    return {};
  }

  bool IsHidden(const std::string& name) const {
    return std::ranges::find(hidden_, name) != hidden_.end();
  }
  /// For each of the tensors.
  std::vector<std::optional<Reshape>> TakeReshapes() { return std::move(reshapes_); }

 private:
  template <typename Tensor>
  Status CompleteTensor(Tensor& tensor) {
    if (IsHidden(tensor.name())) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} '{}' is declared, and sequence_batching gives it to the model too", kind_,
                      tensor.name()));
    }
    const auto spec = std::ranges::find(specs_, tensor.name(), &TensorSpec::name);
    if (spec == specs_.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} '{}' is not in the model, which has {}", kind_, tensor.name(),
                              QuotedNames(specs_)));
    }
    if (tensor.data_type() != inference::TYPE_INVALID &&
        tensor.data_type() != ConfigType(spec->type)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} '{}' has data_type {}, the model has {}", kind_, tensor.name(),
                              inference::DataType_Name(tensor.data_type()),
                              inference::DataType_Name(ConfigType(spec->type))));
    }
    tensor.set_data_type(ConfigType(spec->type));
    LAGOON_ASSIGN_OR_RETURN(Dims dims, ConfigDims(kind_, *spec, max_batch_size_));
    const Dims declared(tensor.dims().begin(), tensor.dims().end());
    const bool number = !tensor.has_reshape() && dims.empty() && declared == Dims{1};
    if (!tensor.has_reshape() && !number) {
      if (!declared.empty()) LAGOON_RETURN_IF_ERROR(Narrow(tensor.name(), "dims", declared, dims));
      tensor.mutable_dims()->Assign(dims.begin(), dims.end());
      std::copy(dims.rbegin(), dims.rend(), spec->dims.rbegin());
      return {};
    }
    const auto& shape = tensor.reshape().shape();  // empty for a number
    const Dims reshape(shape.begin(), shape.end());
    LAGOON_RETURN_IF_ERROR(CheckReshape(tensor.name(), declared, reshape));
    LAGOON_RETURN_IF_ERROR(Narrow(tensor.name(), "the reshape", reshape, dims));
    const Dims seen = Fixed(declared, reshape, dims);
    tensor.mutable_dims()->Assign(seen.begin(), seen.end());
    Dims client = seen, model = dims;
    if (max_batch_size_ > 0) {
      client.insert(client.begin(), spec->dims.front());
      model.insert(model.begin(), spec->dims.front());
    }
    spec->dims = client;
    reshapes_[static_cast<std::size_t>(spec - specs_.begin())] =
        Reshape{std::move(client), std::move(model)};
    return {};
  }

  /// Whether clients' `declared` and the model's `reshape` have the same elements in the same
  /// order: as many open dims, and as many elements before, between and behind them.
  Status CheckReshape(const std::string& name, const Dims& declared, const Dims& reshape) const {
    const std::vector<std::int64_t> runs = Runs(declared);
    if (!declared.empty() && runs.front() > 0 && runs == Runs(reshape)) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} '{}' has dims {} and a reshape to {}; both must be given, with as "
                            "many elements before, between and behind the open dims (-1)",
                            kind_, name, ToString(declared), ToString(reshape)));
  }

  /// The elements of `dims` before, between and behind its open dims. A dim that is neither open
  /// nor positive, or too many elements, give a number below 0.
  static std::vector<std::int64_t> Runs(const Dims& dims) {
    std::vector<std::int64_t> runs = {1};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == -1) {
        runs.push_back(1);
      } else if (dims[i] < 1 || __builtin_mul_overflow(runs.back(), dims[i], &runs.back())) {
        return {-static_cast<std::int64_t>(i) - 1};
      }
    }
    return runs;
  }

  /// `declared` with the sizes that the model fixes where `reshape` says -1.
  static Dims Fixed(Dims declared, const Dims& reshape, const Dims& dims) {
    auto open = declared.begin();
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (reshape[i] != -1) continue;
      open = std::find(open, declared.end(), -1);
      *open++ = dims[i];
    }
    return declared;
  }

  /// Checks `declared`, the sizes that `field` of the config gives, against those of the model, and
  /// sets open ones to what is declared.
  Status Narrow(const std::string& name, std::string_view field, const Dims& declared, Dims& dims) {
    bool same = declared.size() == dims.size();
    bool fixed = false;
    for (std::size_t i = 0; same && i < dims.size(); ++i) {
      fixed = fixed || (declared[i] == -1 && dims[i] != -1);
      same = declared[i] == dims[i] || declared[i] == -1 || (dims[i] == -1 && declared[i] > 0);
    }
    if (!same) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} '{}' has {} {}, the model has {}{}", kind_, name, field,
                              ToString(declared), ToString(dims),
                              max_batch_size_ > 0 ? " behind the batch dimension" : ""));
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == -1) dims[i] = declared[i];
    }
    if (fixed) {
      warnings_.push_back(fmt::format("{} '{}' has {} {} and is served as {}: the model fixes them",
                                      kind_, name, field, ToString(declared), ToString(dims)));
    }
    return {};
  }

  const char* kind_;
  std::vector<TensorSpec>& specs_;
  std::vector<std::string> hidden_;
  int max_batch_size_;
  std::vector<std::string>& warnings_;
  std::vector<std::optional<Reshape>> reshapes_;
};

/// Fills in the fields of a complete configuration other than the tensors.
void FillRest(inference::ModelConfig& config) {
  config.mutable_optimization();
  // Clients take the presence of these fields as a sign that the feature is there.
  config.clear_response_cache();
  if (!config.model_transaction_policy().decoupled()) config.clear_model_transaction_policy();
  if (config.version_policy().policy_choice_case() ==
      inference::ModelVersionPolicy::POLICY_CHOICE_NOT_SET) {
    config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  }
  if (config.has_ensemble_scheduling()) {
    config.set_platform(std::string(kEnsemblePlatform));
    return;
  }
  const bool program = config.backend() == kProgramBackend;
  const bool python = config.backend() == kPythonBackend;
  config.set_platform(program || python ? config.backend() : "lagoon_plan");
  if (!program && !python) config.set_backend("lagoon");
  if (config.default_model_filename().empty()) {
    config.set_default_model_filename(program ? "job.so" : python ? "model.py" : "model.onnx");
  }
  if (config.instance_group().empty()) {
    config.add_instance_group()->set_count(program ? kDefaultCoroutines : 1);
  }
  int index = 0;
  for (auto& group : *config.mutable_instance_group()) {
    if (group.name().empty()) group.set_name(fmt::format("{}_{}", config.name(), index));
    group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
    group.set_count(std::max(group.count(), 1));
    ++index;
  }
}

// ---- Job programs, whose tensors only the configuration declares

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16,
                               DataType::kFloat64, DataType::kInt8,    DataType::kInt16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kUInt8,
                               DataType::kUInt16,  DataType::kUInt32,  DataType::kUInt64,
                               DataType::kBool,    DataType::kString};
/// Types of job programs: all but strings.
constexpr std::span<const DataType> kNumbers{kTypes, std::size(kTypes) - 1};

template <typename Tensors>
Result<std::vector<TensorSpec>> Declared(const char* kind, const Tensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& tensor : tensors) {
    TensorSpec& spec = specs.emplace_back();
    spec.name = tensor.name();
    const auto& dims = tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims();
    spec.dims.assign(dims.begin(), dims.end());
    const auto type = std::ranges::find(kNumbers, tensor.data_type(), ConfigType);
    std::int64_t elements = 1;
    for (const std::int64_t dim : spec.dims) {
      elements = dim > 0 && elements <= kMaxElements / dim ? elements * dim : 0;
      if (elements == 0) break;
    }
    if (spec.name.empty() || type == kNumbers.end() || elements == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} '{}' is {} {}; a job program's tensors have a name, a type of "
                              "numbers and positive dims, of at most {} elements",
                              kind, spec.name, inference::DataType_Name(tensor.data_type()),
                              ToString(spec.dims), kMaxElements));
    }
    spec.type = *type;
  }
  return specs;
}

// ---- Ensembles

/// Adds one side of an ensemble, with the batch in front of the dims.
template <typename Tensors>
Status AddDeclared(const char* kind, const Tensors& tensors, bool batches,
                   std::vector<TensorSpec>& specs) {
  for (const auto& tensor : tensors) {
    const std::string name = fmt::format("{} {}", kind, Quoted(tensor.name()));
    const auto type = std::ranges::find(kTypes, tensor.data_type(), ConfigType);
    Dims dims(tensor.dims().begin(), tensor.dims().end());
    const bool sizes = std::ranges::all_of(dims, [](auto dim) { return dim == -1 || dim > 0; });
    if (tensor.name().empty() || type == std::end(kTypes) || !sizes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is {} {}; a tensor of an ensemble has a name, a data_type, and "
                              "dims that are positive or -1",
                              name, inference::DataType_Name(tensor.data_type()), ToString(dims)));
    }
    if (tensor.has_reshape()) {
      return Fail(
          ErrorCode::kUnimplemented,
          fmt::format("{} has a reshape, which an ensemble does not take: the models of its "
                      "steps do",
                      name));
    }
    if (batches) dims.insert(dims.begin(), -1);
    specs.push_back({tensor.name(), *type, std::move(dims)});
  }
  return {};
}

// ---- Models of Python

/// Adds one side of the model, as the program sees it, with the batch in front of the dims.
template <typename Tensors>
Status AddOfPython(const char* kind, const Tensors& tensors, bool batches,
                   std::vector<TensorSpec>& specs) {
  for (const auto& tensor : tensors) {
    const auto& shape = tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims();
    Dims dims(shape.begin(), shape.end());
    const auto type = std::ranges::find(kTypes, tensor.data_type(), ConfigType);
    const bool sizes = std::ranges::all_of(dims, [](auto dim) { return dim == -1 || dim > 0; });
    if (tensor.name().empty() || type == std::end(kTypes) || !sizes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} {} is {} {}; a tensor of a model of Python has a name, a "
                              "data_type, and dims that are positive or -1",
                              kind, Quoted(tensor.name()),
                              inference::DataType_Name(tensor.data_type()), ToString(dims)));
    }
    if (batches) dims.insert(dims.begin(), -1);
    specs.push_back({tensor.name(), *type, std::move(dims)});
  }
  return {};
}

}  // namespace

std::optional<Dims> Reshaped(const Dims& dims, const Dims& from, const Dims& to) {
  if (dims.size() != from.size()) return std::nullopt;
  Dims sizes = to;
  auto open = sizes.begin();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (from[i] != -1 && from[i] != dims[i]) return std::nullopt;
    if (from[i] != -1) continue;
    open = std::find(open, sizes.end(), -1);
    LAGOON_CHECK(open != sizes.end());
    *open++ = dims[i];
  }
  return sizes;
}

std::vector<TensorSpec> Visible(const std::vector<TensorSpec>& specs,
                                const std::vector<bool>& hidden) {
  std::vector<TensorSpec> visible;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i >= hidden.size() || !hidden[i]) visible.push_back(specs[i]);
  }
  return visible;
}

std::string QuotedNames(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& spec : specs) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", Quoted(spec.name));
  }
  return names;
}

inference::DataType ConfigType(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return inference::TYPE_FP32;
    case DataType::kFloat16:
      return inference::TYPE_FP16;
    case DataType::kBFloat16:
      return inference::TYPE_BF16;
    case DataType::kFloat64:
      return inference::TYPE_FP64;
    case DataType::kInt8:
      return inference::TYPE_INT8;
    case DataType::kInt16:
      return inference::TYPE_INT16;
    case DataType::kInt32:
      return inference::TYPE_INT32;
    case DataType::kInt64:
      return inference::TYPE_INT64;
    case DataType::kUInt8:
      return inference::TYPE_UINT8;
    case DataType::kUInt16:
      return inference::TYPE_UINT16;
    case DataType::kUInt32:
      return inference::TYPE_UINT32;
    case DataType::kUInt64:
      return inference::TYPE_UINT64;
    case DataType::kBool:
      return inference::TYPE_BOOL;
    case DataType::kString:
      return inference::TYPE_STRING;
  }
  CheckFailed("a known DataType", __FILE__, __LINE__);
}

Result<DeclaredTensors> TensorsOf(const inference::ModelConfig& config) {
  DeclaredTensors tensors;
  LAGOON_ASSIGN_OR_RETURN(tensors.inputs, Declared("input", config.input()));
  LAGOON_ASSIGN_OR_RETURN(tensors.outputs, Declared("output", config.output()));
  if (tensors.outputs.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "config.pbtxt declares no output of the job program");
  }
  return tensors;
}

Result<DeclaredTensors> TensorsOfEnsemble(const inference::ModelConfig& config) {
  DeclaredTensors tensors;
  const bool batches = config.max_batch_size() > 0;
  LAGOON_RETURN_IF_ERROR(AddDeclared("input", config.input(), batches, tensors.inputs));
  LAGOON_RETURN_IF_ERROR(AddDeclared("output", config.output(), batches, tensors.outputs));
  return tensors;
}

Result<DeclaredTensors> TensorsOfPython(const inference::ModelConfig& config) {
  DeclaredTensors tensors;
  const bool batches = config.max_batch_size() > 0;
  LAGOON_RETURN_IF_ERROR(AddOfPython("input", config.input(), batches, tensors.inputs));
  LAGOON_RETURN_IF_ERROR(AddOfPython("output", config.output(), batches, tensors.outputs));
  if (tensors.outputs.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a model of Python has the tensors that config.pbtxt or auto_complete_config() "
                "declares; neither declares an output");
  }
  return tensors;
}

Result<Signature> CompleteConfig(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                                 inference::ModelConfig& config,
                                 std::vector<std::string>& warnings) {
  const int max_batch_size = config.max_batch_size();
  if (max_batch_size > 0 && inputs.empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("max_batch_size is {}, but the model has no input whose first dim could "
                    "be the batch; leave max_batch_size out",
                    max_batch_size));
  }
  using google::protobuf::RepeatedPtrField;
  SequenceTensors hidden = HiddenTensors(config);
  Side<RepeatedPtrField<inference::ModelInput>> in("input", inputs, std::move(hidden.inputs),
                                                   max_batch_size, warnings);
  LAGOON_RETURN_IF_ERROR(in.Complete(*config.mutable_input()));
  Side<RepeatedPtrField<inference::ModelOutput>> out("output", outputs, std::move(hidden.outputs),
                                                     max_batch_size, warnings);
  LAGOON_RETURN_IF_ERROR(out.Complete(*config.mutable_output()));

  Signature signature;
  signature.inputs = inputs;
  signature.input_reshape = in.TakeReshapes();
  std::vector<std::optional<Reshape>> output_reshape = out.TakeReshapes();
  signature.max_batch = max_batch_size;
  for (const TensorSpec& input : inputs) {
    signature.hidden_inputs.push_back(in.IsHidden(input.name));
    if (signature.hidden_inputs.back()) continue;
    if (std::ranges::find(config.input(), input.name, &inference::ModelInput::name) ==
        config.input().end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' of the model is not declared", input.name));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool of_sequence = out.IsHidden(outputs[i].name);
    if (!of_sequence && std::ranges::find(config.output(), outputs[i].name,
                                          &inference::ModelOutput::name) == config.output().end()) {
      continue;
    }
    signature.hidden_outputs.push_back(of_sequence);
    signature.outputs.push_back(outputs[i]);
    signature.output_index.push_back(i);
    signature.output_reshape.push_back(std::move(output_reshape[i]));
  }
  FillRest(config);
  return signature;
}

}  // namespace lagoon

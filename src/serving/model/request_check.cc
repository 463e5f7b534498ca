#include "serving/model/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace lagoon {

namespace {

tl::unexpected<Error> Bad(const InferRequest& request, std::string_view kind,
                          std::string_view tensor, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {}: {} {} {}", Quoted(request.model), kind, Quoted(tensor), what));
}

bool IsHidden(const std::vector<bool>& hidden, std::size_t index) {
  return index < hidden.size() && hidden[index];
}

/// About one of the inputs, where there are too few or too many. Triton's clients compare how the
/// message begins.
tl::unexpected<Error> WrongInput(const InferRequest& request, const Signature& signature,
                                 const std::string& input, const std::string& what) {
  const std::size_t expected = Visible(signature.inputs, signature.hidden_inputs).size();
  if (request.inputs.size() == expected) return Bad(request, "input", input, what);
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("expected {} inputs but got {} inputs for model {}: input {} {}", expected,
                  request.inputs.size(), Quoted(request.model), Quoted(input), what));
}

/// The tensor of this name that clients see; the number of all tensors if there is none.
std::size_t IndexOf(const std::vector<TensorSpec>& specs, const std::vector<bool>& hidden,
                    std::string_view name) {
  const auto index =
      static_cast<std::size_t>(std::ranges::find(specs, name, &TensorSpec::name) - specs.begin());
  return IsHidden(hidden, index) ? specs.size() : index;
}

constexpr std::size_t kMostBytes = std::size_t{1} << 40;

/// Nothing above kMostBytes. `dims`: from 0 on. A size of 0 makes no other one right: the product
/// of any of the dims is at most kMostBytes too.
std::optional<std::size_t> BytesOf(const Dims& dims, DataType type) {
  std::size_t bytes = SizeOf(type);
  for (const std::int64_t dim : dims) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(dim, 1));
    if (bytes > kMostBytes / size) return std::nullopt;
    bytes *= size;
  }
  return std::ranges::find(dims, 0) == dims.end() ? bytes : 0;
}

/// Whether `dims` are what `spec` takes. -1 in `spec` takes any size.
bool Fits(const Dims& dims, const Dims& spec) {
  if (dims.size() != spec.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || (spec[i] != -1 && spec[i] != dims[i])) return false;
  }
  return true;
}

/// `max_batch`: 0, or the largest first dim.
Status CheckShape(const InferRequest& request, const InputTensor& input, const TensorSpec& spec,
                  std::int64_t max_batch) {
  if (!Fits(input.dims, spec.dims)) {
    return Bad(
        request, "input", spec.name,
        fmt::format(
            "has shape {}, the model takes {}{}", ShownShape(input.dims), ToString(spec.dims),
            max_batch > 0 ? fmt::format(" with a batch of 1 to {}", max_batch) : std::string()));
  }
  if (max_batch == 0 || (input.dims[0] >= 1 && input.dims[0] <= max_batch)) return {};
  return Bad(request, "input", spec.name,
             fmt::format("has shape {}, a batch of {}; the model takes 1 to {}",
                         ToString(input.dims), input.dims[0], max_batch));
}

Status CheckInput(const InferRequest& request, const InputTensor& input, const TensorSpec& spec,
                  std::int64_t max_batch) {
  if (input.type != spec.type) {
    return Bad(
        request, "input", spec.name,
        fmt::format("has type {}, the model takes {}", OipName(input.type), OipName(spec.type)));
  }
  LAGOON_RETURN_IF_ERROR(CheckShape(request, input, spec, max_batch));
  const std::optional<std::size_t> bytes = BytesOf(input.dims, input.type);
  if (!bytes) {
    return Bad(request, "input", spec.name,
               fmt::format("has shape {}, more than {} bytes", ToString(input.dims), kMostBytes));
  }
  // BindInputs() counts strings.
  if (input.type == DataType::kString || input.data.size() == *bytes) return {};
  return Bad(request, "input", spec.name,
             fmt::format("got unexpected byte size {}, expected {} for {} of shape {}",
                         input.data.size(), *bytes, OipName(spec.type), ToString(input.dims)));
}

/// The bytes of a tensor of the plan for an input that CheckInput() has found right.
Result<std::span<const std::byte>> BindBytes(const InferRequest& request, const InputTensor& input,
                                             RequestBinding& binding) {
  if (input.type != DataType::kString) return input.data;
  if (ElementCount(input.dims) > kMaxStrings) {
    return Bad(request, "input", input.name,
               fmt::format("has {} strings, at most {} are allowed", ElementCount(input.dims),
                           kMaxStrings));
  }
  auto strings = StringsOf(input.data, static_cast<std::size_t>(ElementCount(input.dims)));
  if (!strings) return Bad(request, "input", input.name, strings.error().message);
  binding.strings.push_back(*std::move(strings));
  return std::as_bytes(std::span(binding.strings.back()));
}

/// With batches: checks that input `index` has as many rows as the first input.
Status CheckSameBatch(const InferRequest& request, const Signature& signature, std::size_t index) {
  if (signature.max_batch == 0) return {};
  const std::int64_t batch = request.inputs[index].dims[0], first = request.inputs[0].dims[0];
  if (batch == first) return {};
  return Bad(request, "input", request.inputs[index].name,
             fmt::format("has a batch of {}, input {} one of {}", batch,
                         Quoted(request.inputs[0].name), first));
}

Status BindInputs(const InferRequest& request, const Signature& signature,
                  RequestBinding& binding) {
  binding.inputs.resize(signature.inputs.size());
  binding.dims.resize(signature.inputs.size());
  std::vector<bool> seen = signature.hidden_inputs;  // those that the sequence gives
  seen.resize(signature.inputs.size());
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const InputTensor& input = request.inputs[i];
    const std::size_t index = IndexOf(signature.inputs, signature.hidden_inputs, input.name);
    if (index == signature.inputs.size()) {
      return WrongInput(
          request, signature, input.name,
          fmt::format("is unknown; the model takes {}",
                      QuotedNames(Visible(signature.inputs, signature.hidden_inputs))));
    }
    if (seen[index]) return Bad(request, "input", input.name, "is there twice");
    seen[index] = true;
    LAGOON_RETURN_IF_ERROR(
        CheckInput(request, input, signature.inputs[index], signature.max_batch));
    LAGOON_RETURN_IF_ERROR(CheckSameBatch(request, signature, i));
    LAGOON_ASSIGN_OR_RETURN(binding.inputs[index], BindBytes(request, input, binding));
    const std::optional<Reshape>& reshape = signature.input_reshape[index];
    // CheckInput() has found that the dims fit.
    binding.dims[index] =
        reshape ? *Reshaped(input.dims, reshape->client, reshape->model) : input.dims;
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end()) {
    const auto index = static_cast<std::size_t>(missing - seen.begin());
    return WrongInput(request, signature, signature.inputs[index].name, "is missing");
  }
  return {};
}

/// `at`: the index of the output in the answer.
std::uint32_t ClassesOf(const InferRequest& request, std::size_t at) {
  return at < request.classes.size() ? request.classes[at] : 0;
}

/// The same. Classes always travel as text.
Status CheckForm(const InferRequest& request, std::size_t at, const TensorSpec& spec) {
  if (ClassesOf(request, at) != 0) return {};
  const OutputForm form = at < request.forms.size() ? request.forms[at] : request.form;
  const bool has_text = spec.type != DataType::kFloat16 && spec.type != DataType::kBFloat16;
  if (form == OutputForm::kBytes || has_text) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("model {}: output {} has type {}, which cannot travel as JSON; ask for "
                          "binary data with the output's parameter 'binary_data': true",
                          Quoted(request.model), Quoted(spec.name), OipName(spec.type)));
}

Status BindOutputs(const InferRequest& request, const Signature& signature,
                   RequestBinding& binding) {
  for (const std::string& name : request.outputs) {
    const std::size_t index = IndexOf(signature.outputs, signature.hidden_outputs, name);
    if (index == signature.outputs.size()) {
      return Bad(request, "output", name,
                 fmt::format("is unknown; the model gives {}",
                             QuotedNames(Visible(signature.outputs, signature.hidden_outputs))));
    }
    if (std::ranges::find(binding.outputs, index) != binding.outputs.end()) {
      return Bad(request, "output", name, "is asked for twice");
    }
    binding.outputs.push_back(index);
  }
  if (request.outputs.empty()) {
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      if (!IsHidden(signature.hidden_outputs, i)) binding.outputs.push_back(i);
    }
  }
  for (std::size_t i = 0; i < binding.outputs.size(); ++i) {
    LAGOON_RETURN_IF_ERROR(CheckForm(request, i, signature.outputs[binding.outputs[i]]));
    binding.classes.push_back(ClassesOf(request, i));
  }
  binding.answered = binding.outputs.size();
  return {};
}

}  // namespace

Result<RequestBinding> BindRequest(const InferRequest& request, const Signature& signature) {
  RequestBinding binding;
  LAGOON_RETURN_IF_ERROR(BindInputs(request, signature, binding));
  LAGOON_RETURN_IF_ERROR(BindOutputs(request, signature, binding));
  return binding;
}

}  // namespace lagoon

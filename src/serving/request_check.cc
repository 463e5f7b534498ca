#include "serving/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace lagoon {

std::string ShownShape(const Dims& dims) {
  constexpr std::size_t kMaxDims = 16;
  if (dims.size() <= kMaxDims) return ToString(dims);
  return fmt::format("of {} dimensions", dims.size());
}

namespace {

tl::unexpected<Error> Bad(const InferRequest& request, std::string_view kind,
                          std::string_view tensor, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {}: {} {} {}", Quoted(request.model), kind, Quoted(tensor), what));
}

std::size_t IndexOf(const std::vector<TensorSpec>& specs, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(specs, name, &TensorSpec::name) -
                                  specs.begin());
}

bool SameRows(const Dims& a, const Dims& b) {
  return !a.empty() && a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

/// The number of rows of `input`. `spec`: the input's spec for one row.
Result<std::int64_t> BatchOf(const InferRequest& request, const InputTensor& input,
                             const TensorSpec& spec, std::int64_t max_batch) {
  if (max_batch == 0) {
    if (input.dims == spec.dims) return 1;
    return Bad(request, "input", spec.name,
               fmt::format("has shape {}, the model takes {}", ShownShape(input.dims),
                           ToString(spec.dims)));
  }
  Dims any = spec.dims;
  any.front() = -1;
  if (!SameRows(input.dims, spec.dims)) {
    return Bad(request, "input", spec.name,
               fmt::format("has shape {}, the model takes {} with a batch of 1 to {}",
                           ShownShape(input.dims), ToString(any), max_batch));
  }
  const std::int64_t batch = input.dims.front();
  if (batch >= 1 && batch <= max_batch) return batch;
  return Bad(request, "input", spec.name,
             fmt::format("has shape {}, a batch of {}; the model takes 1 to {}",
                         ToString(input.dims), batch, max_batch));
}

/// Returns the number of rows of the input.
Result<std::int64_t> CheckInput(const InferRequest& request, const InputTensor& input,
                                const TensorSpec& spec, std::int64_t max_batch) {
  if (input.type != spec.type) {
    return Bad(
        request, "input", spec.name,
        fmt::format("has type {}, the model takes {}", OipName(input.type), OipName(spec.type)));
  }
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t batch, BatchOf(request, input, spec, max_batch));
  const std::size_t bytes = spec.bytes() * static_cast<std::size_t>(batch);
  if (input.data.size() != bytes) {
    return Bad(request, "input", spec.name,
               fmt::format("has {} bytes, shape {} of {} takes {}", input.data.size(),
                           ToString(input.dims), OipName(spec.type), bytes));
  }
  return batch;
}

/// Checks that input `index` has as many rows as the first input.
Status CheckSameBatch(const InferRequest& request, std::int64_t batch, std::int64_t first,
                      std::size_t index) {
  if (batch == first) return {};
  return Bad(request, "input", request.inputs[index].name,
             fmt::format("has a batch of {}, input {} one of {}", batch,
                         Quoted(request.inputs[0].name), first));
}

Status BindInputs(const InferRequest& request, const Signature& signature,
                  RequestBinding& binding) {
  binding.inputs.assign(signature.inputs.size(), nullptr);
  std::vector<bool> seen(signature.inputs.size());
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const InputTensor& input = request.inputs[i];
    const std::size_t index = IndexOf(signature.inputs, input.name);
    if (index == signature.inputs.size()) {
      return Bad(request, "input", input.name,
                 fmt::format("is unknown; the model takes {}", QuotedNames(signature.inputs)));
    }
    if (seen[index]) return Bad(request, "input", input.name, "is there twice");
    seen[index] = true;
    LAGOON_ASSIGN_OR_RETURN(
        const std::int64_t batch,
        CheckInput(request, input, signature.inputs[index], signature.max_batch));
    if (i == 0) binding.batch = batch;
    LAGOON_RETURN_IF_ERROR(CheckSameBatch(request, batch, binding.batch, i));
    binding.inputs[index] = input.data.data();
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end()) {
    const auto index = static_cast<std::size_t>(missing - seen.begin());
    return Bad(request, "input", signature.inputs[index].name, "is missing");
  }
  return {};
}

/// `at`: the index of the output in the answer.
Status CheckForm(const InferRequest& request, std::size_t at, const TensorSpec& spec) {
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
    const std::size_t index = IndexOf(signature.outputs, name);
    if (index == signature.outputs.size()) {
      return Bad(request, "output", name,
                 fmt::format("is unknown; the model gives {}", QuotedNames(signature.outputs)));
    }
    if (std::ranges::find(binding.outputs, index) != binding.outputs.end()) {
      return Bad(request, "output", name, "is asked for twice");
    }
    binding.outputs.push_back(index);
  }
  if (request.outputs.empty()) {
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) binding.outputs.push_back(i);
  }
  for (std::size_t i = 0; i < binding.outputs.size(); ++i) {
    LAGOON_RETURN_IF_ERROR(CheckForm(request, i, signature.outputs[binding.outputs[i]]));
  }
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

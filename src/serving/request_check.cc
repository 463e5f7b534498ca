#include "serving/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/text.h"

namespace lagoon {
namespace {

std::string ShownShape(const Dims& dims) {
  constexpr std::size_t kMaxDims = 16;
  if (dims.size() <= kMaxDims) return ToString(dims);
  return fmt::format("of {} dimensions", dims.size());
}

tl::unexpected<Error> Bad(const InferRequest& request, std::string_view kind,
                          std::string_view tensor, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {}: {} {} {}", Quoted(request.model), kind, Quoted(tensor), what));
}

std::size_t IndexOf(const std::vector<TensorSpec>& specs, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(specs, name, &TensorSpec::name) -
                                  specs.begin());
}

Status CheckInput(const InferRequest& request, const InputTensor& input, const TensorSpec& spec,
                  bool batch_dimension) {
  if (input.type != spec.type) {
    return Bad(
        request, "input", spec.name,
        fmt::format("has type {}, the model takes {}", OipName(input.type), OipName(spec.type)));
  }
  if (input.dims != spec.dims) {
    const bool batched =
        batch_dimension && input.dims.size() == spec.dims.size() && input.dims.front() > 1 &&
        std::equal(input.dims.begin() + 1, input.dims.end(), spec.dims.begin() + 1);
    return Bad(request, "input", spec.name,
               fmt::format("has shape {}, the model takes {}{}", ShownShape(input.dims),
                           ToString(spec.dims), batched ? "; batching is not implemented" : ""));
  }
  if (input.data.size() != spec.bytes()) {
    return Bad(request, "input", spec.name,
               fmt::format("has {} bytes, shape {} of {} takes {}", input.data.size(),
                           ToString(spec.dims), OipName(spec.type), spec.bytes()));
  }
  return {};
}

Status BindInputs(const InferRequest& request, const Signature& signature,
                  RequestBinding& binding) {
  binding.inputs.assign(signature.inputs.size(), nullptr);
  std::vector<bool> seen(signature.inputs.size());
  for (const InputTensor& input : request.inputs) {
    const std::size_t index = IndexOf(signature.inputs, input.name);
    if (index == signature.inputs.size()) {
      return Bad(request, "input", input.name,
                 fmt::format("is unknown; the model takes {}", QuotedNames(signature.inputs)));
    }
    if (seen[index]) return Bad(request, "input", input.name, "is there twice");
    seen[index] = true;
    LAGOON_RETURN_IF_ERROR(
        CheckInput(request, input, signature.inputs[index], signature.batch_dimension));
    binding.inputs[index] = input.data.data();
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end()) {
    const auto index = static_cast<std::size_t>(missing - seen.begin());
    return Bad(request, "input", signature.inputs[index].name, "is missing");
  }
  return {};
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

#include "serving/model/sequence_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "serving/model/model_folder.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxStateBytes = std::size_t{64} << 20;

tl::unexpected<Error> Wrong(std::string_view kind, const std::string& name,
                            const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("sequence_batching: {} {} {}", kind, Quoted(name), why));
}

Result<std::size_t> Find(std::string_view kind, const std::vector<TensorSpec>& specs,
                         const std::string& name) {
  const auto found = std::ranges::find(specs, name, &TensorSpec::name);
  if (found != specs.end()) return static_cast<std::size_t>(found - specs.begin());
  return Wrong(kind, name, fmt::format("is not in the model, which has {}", QuotedNames(specs)));
}

/// The dims of a request of one row, where those behind the batch are `inner`.
Dims WithBatch(const Signature& signature, Dims inner) {
  if (signature.max_batch > 0) inner.insert(inner.begin(), 1);
  return inner;
}

Dims Inner(const Signature& signature, const Dims& dims) {
  return {dims.begin() + (signature.max_batch > 0 ? 1 : 0), dims.end()};
}

bool Fits(const Dims& dims, const Dims& spec) {
  return std::ranges::equal(dims, spec, [](std::int64_t dim, std::int64_t of_spec) {
    return of_spec == -1 || of_spec == dim;
  });
}

Result<SequencePlan::Control> PlanControl(const SequenceControl& control,
                                          const Signature& signature) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t input,
                          Find("control_input", signature.inputs, control.input));
  const TensorSpec& spec = signature.inputs[input];
  Dims dims = Inner(signature, spec.dims);
  std::ranges::replace(dims, -1, 1);
  if (spec.type != control.type || ElementCount(dims) != 1) {
    return Wrong("control_input", control.input,
                 fmt::format("is {} {} in the model; the control is one {} for each row",
                             OipName(spec.type), ToString(spec.dims), OipName(control.type)));
  }
  return SequencePlan::Control{input, WithBatch(signature, std::move(dims)), control};
}

Result<SequencePlan::State> PlanState(const SequenceState& state, const std::string& folder,
                                      const Signature& signature) {
  SequencePlan::State plan;
  LAGOON_ASSIGN_OR_RETURN(plan.input, Find("state", signature.inputs, state.input));
  LAGOON_ASSIGN_OR_RETURN(plan.output, Find("state", signature.outputs, state.output));
  const TensorSpec& input = signature.inputs[plan.input];
  const TensorSpec& output = signature.outputs[plan.output];
  if (input.type != output.type || input.type == DataType::kString) {
    return Wrong("state", state.input,
                 fmt::format("is {}, its output {} is {}; both must be of one type of numbers",
                             OipName(input.type), Quoted(output.name), OipName(output.type)));
  }
  if (signature.output_reshape[plan.output]) {
    return Wrong("state", state.input,
                 fmt::format("comes from output {}, which has a reshape", Quoted(output.name)));
  }
  const Dims inner = Inner(signature, input.dims);
  const Dims initial = state.initial_dims.value_or(inner);
  if (initial.size() != inner.size() || !Fits(initial, inner) ||
      std::ranges::find(initial, -1) != initial.end()) {
    return Wrong("state", state.input,
                 fmt::format("begins with the dims {}, the model takes {}; open dims (-1) need an "
                             "initial_state with sizes",
                             ToString(initial), ToString(inner)));
  }
  plan.dims = WithBatch(signature, initial);
  const std::size_t bytes = TensorSpec{"", input.type, plan.dims}.bytes();
  if (bytes > kMaxStateBytes) {
    return Wrong("state", state.input,
                 fmt::format("has {} bytes; at most {} are kept", bytes, kMaxStateBytes));
  }
  auto data = std::make_shared<std::vector<std::byte>>(bytes);
  if (!state.initial_file.empty()) {
    Result<std::string> file =
        ReadModelFile(folder, "initial_state/" + state.initial_file, kMaxStateBytes);
    if (!file) return Wrong("state", state.input, file.error().message);
    if (file->size() != bytes) {
      return Wrong("state", state.input,
                   fmt::format("has {} bytes, its file {}", bytes, file->size()));
    }
    std::memcpy(data->data(), file->data(), bytes);
  }
  plan.initial = std::move(data);
  return plan;
}

}  // namespace

Status BindSequence(const SequencePlan& plan, const Signature& signature, const SequencePart& part,
                    RequestBinding& binding) {
  if (part.text.size() > kMostIdBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("sequence_id {} has {} bytes; it takes at most {}", Quoted(part.text),
                            part.text.size(), kMostIdBytes));
  }
  for (std::size_t i = 0; i < signature.inputs.size() && signature.max_batch > 0; ++i) {
    if (signature.hidden_inputs[i] || binding.dims[i].front() == 1) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} has a batch of {}; a request of a sequence has one row",
                            Quoted(signature.inputs[i].name), binding.dims[i].front()));
  }
  for (const SequencePlan::Control& control : plan.controls) {
    binding.dims[control.input] = control.dims;
  }
  for (const SequencePlan::State& state : plan.states) {
    binding.dims[state.input] = state.dims;
    auto at = std::ranges::find(binding.outputs, state.output);
    if (at == binding.outputs.end()) {
      binding.classes.push_back(0);
      at = binding.outputs.insert(at, state.output);
    }
    binding.states.push_back(static_cast<std::size_t>(at - binding.outputs.begin()));
  }
  return {};
}

Result<SequencePlan> PlanSequences(const SequenceSettings& settings, const std::string& folder,
                                   const Signature& signature) {
  SequencePlan plan;
  for (const SequenceControl& control : settings.controls) {
    LAGOON_ASSIGN_OR_RETURN(auto planned, PlanControl(control, signature));
    plan.controls.push_back(std::move(planned));
  }
  for (const SequenceState& state : settings.states) {
    LAGOON_ASSIGN_OR_RETURN(auto planned, PlanState(state, folder, signature));
    plan.states.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace lagoon

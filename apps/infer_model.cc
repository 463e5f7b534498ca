#include "apps/infer_model.h"

#include <fmt/format.h>

#include <utility>

#include "plan/strings.h"

namespace lagoon {
namespace {

struct Compiled {
  CompiledPart part;
  std::vector<std::size_t> inputs;  // by input of the plan: its number among those of the model
};

Result<Compiled> CompileFor(ModelCompiler& compiler, const OnnxModel& model,
                            const std::vector<HostTensor>& tensors) {
  GraphInputs inputs;
  for (const HostTensor& tensor : tensors) inputs.dims.push_back(tensor.dims);
  while (true) {
    std::vector<std::size_t> deciding;
    Result<CompiledPart> part = compiler.CompilePart(model, inputs, &deciding);
    if (part) {
      Compiled compiled{*std::move(part), {}};
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!inputs.values.contains(i)) compiled.inputs.push_back(i);
      }
      return compiled;
    }
    bool more = false;
    for (const std::size_t input : deciding) {
      if (inputs.values.contains(input)) continue;
      inputs.values[input] = AsConstant(model.inputs()[input].type, tensors[input]);
      more = true;
    }
    if (!more) return tl::unexpected(std::move(part).error());
  }
}

}  // namespace

Result<BoundRequest> BoundRequest::Bind(ModelCompiler& compiler, Device& device,
                                        const std::vector<Constant>& inputs) {
  BoundRequest bound(device);
  bound.outputs_.resize(compiler.model().outputs().size());
  std::vector<HostTensor> tensors;
  for (const Constant& input : inputs) {
    std::span<const std::byte> bytes = *input.bytes;
    if (input.type == DataType::kString) {
      const auto elements = static_cast<std::size_t>(ElementCount(input.dims));
      LAGOON_ASSIGN_OR_RETURN(std::vector<StringElement> strings, StringsOf(bytes, elements));
      bound.strings_.push_back(std::move(strings));
      bytes = std::as_bytes(std::span(bound.strings_.back()));
    }
    tensors.push_back({input.dims, bytes});
  }
  LAGOON_RETURN_IF_ERROR(bound.AddPart(compiler, compiler.model(), std::move(tensors)));
  const OnnxModel* model = &compiler.model();
  while (true) {
    Part& part = *bound.parts_.back();
    const Plan& plan = part.loaded->plan;
    if (!part.links.next && !Assumes(plan)) return bound;
    const Status ran = bound.RunPart(part, {});
    if (!ran && Outdated(plan)) {
      // The next plan makes no assumption that has turned out wrong.
      tensors = std::move(part.inputs);
      bound.parts_.pop_back();
      LAGOON_RETURN_IF_ERROR(bound.AddPart(compiler, *model, std::move(tensors)));
      continue;
    }
    LAGOON_RETURN_IF_ERROR(ran);
    if (!part.links.next) return bound;
    model = part.links.next->model.get();
    LAGOON_ASSIGN_OR_RETURN(tensors, InputsOfNextPart(part.links, plan, part.inputs, part.run));
    LAGOON_RETURN_IF_ERROR(bound.AddPart(compiler, *model, std::move(tensors)));
  }
}

Status BoundRequest::AddPart(ModelCompiler& compiler, const OnnxModel& model,
                             std::vector<HostTensor> inputs) {
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(Compiled compiled, CompileFor(compiler, model, inputs));
  auto part = std::make_unique<Part>();
  part->loaded = std::move(compiled.part.loaded);
  part->links = std::move(compiled.part.links);
  part->input_numbers = std::move(compiled.inputs);
  SetInputs(*part, std::move(inputs));
  for (const PlanTensor& output : part->loaded->plan.outputs) {
    part->run.outputs.emplace_back(part->memory.emplace_back(output.spec.bytes()));
  }
  LAGOON_ASSIGN_OR_RETURN(part->instance, Instance::Create(part->loaded, *device_));
  compile_time_ += Now() - begin;
  parts_.push_back(std::move(part));
  return {};
}

void BoundRequest::SetInputs(Part& part, std::vector<HostTensor> inputs) {
  part.inputs = std::move(inputs);
  part.plan_inputs.clear();
  for (const std::size_t input : part.input_numbers) {
    part.plan_inputs.push_back(part.inputs[input].bytes.data());
  }
}

Status BoundRequest::RunPart(Part& part, RunOptions options) {
  std::vector<void*> to;
  options.made = &part.run.made;
  for (std::vector<std::byte>& output : part.memory) to.push_back(output.data());
  return RunPlan(*part.instance, *device_, part.plan_inputs, to, options);
}

Status BoundRequest::SetOutputs(const Part& part) {
  const Plan& plan = part.loaded->plan;
  for (std::size_t i = 0; i < part.links.results.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(const HostTensor tensor, PartOutput(part.links, plan, part.run, i));
    Output& output = outputs_[part.links.results[i]];
    output.spec = plan.outputs[i].spec;
    output.spec.dims = tensor.dims;
    output.bytes = tensor.bytes;
  }
  return {};
}

Status BoundRequest::Run(const RunOptions& options) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = *parts_[i];
    LAGOON_RETURN_IF_ERROR(RunPart(part, options));
    LAGOON_RETURN_IF_ERROR(SetOutputs(part));
    if (!part.links.next) continue;
    LAGOON_ASSIGN_OR_RETURN(std::vector<HostTensor> next,
                            InputsOfNextPart(part.links, part.loaded->plan, part.inputs, part.run));
    for (std::size_t input = 0; input < next.size(); ++input) {
      if (next[input].dims == parts_[i + 1]->inputs[input].dims) continue;
      return Fail(
          ErrorCode::kInternal,
          fmt::format("model '{}': an input of part {} had dims {} and now has {}",
                      part.loaded->plan.model, i + 2, ToString(parts_[i + 1]->inputs[input].dims),
                      ToString(next[input].dims)));
    }
    // Outputs for which an engine makes room lie elsewhere after each run.
    SetInputs(*parts_[i + 1], std::move(next));
  }
  return {};
}

std::vector<std::shared_ptr<const LoadedPlan>> BoundRequest::plans() const {
  std::vector<std::shared_ptr<const LoadedPlan>> plans;
  for (const std::unique_ptr<Part>& part : parts_) plans.push_back(part->loaded);
  return plans;
}

std::set<std::string> BoundRequest::opaque() const {
  std::set<std::string> ops;
  for (const std::unique_ptr<Part>& part : parts_) {
    for (const std::uint32_t index : part->loaded->plan.opaque) {
      const std::vector<std::string>& inside = part->loaded->plan.ops[index].opaque->ops();
      ops.insert(inside.begin(), inside.end());
    }
  }
  return ops;
}

}  // namespace lagoon

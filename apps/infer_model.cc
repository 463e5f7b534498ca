#include "apps/infer_model.h"

#include <algorithm>
#include <utility>

namespace lagoon {
namespace {

Result<std::shared_ptr<const LoadedPlan>> CompileFor(ModelCompiler& compiler,
                                                     const std::vector<Constant>& tensors) {
  GraphInputs inputs;
  for (const Constant& tensor : tensors) inputs.dims.push_back(tensor.dims);
  while (true) {
    std::vector<std::size_t> deciding;
    Result<std::shared_ptr<LoadedPlan>> loaded = compiler.Compile(inputs, &deciding);
    if (loaded) return *std::move(loaded);
    bool more = false;
    for (const std::size_t input : deciding) {
      more = inputs.values.emplace(input, tensors[input]).second || more;
    }
    if (!more) return tl::unexpected(std::move(loaded).error());
  }
}

}  // namespace

Result<BoundRequest> BoundRequest::Bind(ModelCompiler& compiler, Device& device,
                                        const std::vector<Constant>& inputs) {
  BoundRequest bound(device);
  LAGOON_ASSIGN_OR_RETURN(bound.loaded_, CompileFor(compiler, inputs));
  const std::vector<DeclaredTensor>& declared = compiler.model().inputs();
  for (const PlanTensor& input : bound.plan().inputs) {  // without those that became constants
    const auto at = std::ranges::find(declared, input.spec.name, &DeclaredTensor::name);
    bound.inputs_.push_back(inputs[static_cast<std::size_t>(at - declared.begin())].bytes->data());
  }
  for (const PlanTensor& output : bound.plan().outputs) {
    bound.outputs_.emplace_back(output.spec.bytes());
  }
  LAGOON_ASSIGN_OR_RETURN(bound.instance_, Instance::Create(bound.loaded_, device));
  return bound;
}

Status BoundRequest::Run(const RunOptions& options) {
  std::vector<void*> to;
  for (std::vector<std::byte>& output : outputs_) to.push_back(output.data());
  return RunPlan(*instance_, *device_, inputs_, to, options);
}

}  // namespace lagoon

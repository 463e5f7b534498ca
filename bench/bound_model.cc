#include "bench/bound_model.h"

#include <fmt/format.h>

#include <random>

#include "program/compile.h"
#include "program/versions.h"

namespace lagoon::bench {

Result<std::unique_ptr<BoundModel>> BoundModel::Load(const std::string& file,
                                                     const std::string& name, Device& device,
                                                     bool tune) {
  std::unique_ptr<BoundModel> model(new BoundModel);
  CompileOptions options;
  options.model = name;
  LAGOON_ASSIGN_OR_RETURN(model->loaded_, CompileModel(file, device, options));
  if (tune) LAGOON_RETURN_IF_ERROR(ProfileVersions(*model->loaded_, device, {}));
  LAGOON_ASSIGN_OR_RETURN(model->instance_, Instance::Create(model->loaded_, device));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const Plan& plan = model->loaded_->plan;
  for (const PlanTensor& input : plan.inputs) {
    if (input.spec.type != DataType::kFloat32) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("model '{}': input '{}' is {}, the benchmark makes FP32 only", name,
                              input.spec.name, OipName(input.spec.type)));
    }
    std::vector<float>& values = model->values_.emplace_back(ElementCount(input.spec.dims));
    for (float& value : values) value = normal(random);
    model->inputs_.push_back(values.data());
  }
  for (const PlanTensor& output : plan.outputs) {
    const std::size_t floats = (output.spec.bytes() + sizeof(float) - 1) / sizeof(float);
    model->outputs_.push_back(model->values_.emplace_back(floats).data());
  }
  return model;
}

Status BoundModel::Run(Device& device, const RunOptions& options) {
  return RunPlan(*instance_, device, inputs_, outputs_, options);
}

Status BoundModel::Profile(Device& device, int runs) { return ProfilePlan(*loaded_, device, runs); }

}  // namespace lagoon::bench

#include "bench/client/bound_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "program/compile.h"
#include "program/profile/versions.h"
#include "program/split/choose.h"

namespace lagoon::bench {

std::string ModelFile(const std::string& repository, const std::string& name) {
  return (std::filesystem::path(repository) / name / "1" / "model.onnx").string();
}

Status CheckZoo(const std::string& zoo, const std::vector<std::string>& models) {
  std::string missing, words;
  std::set<std::string> seen;
  for (const std::string& model : models) {
    if (!seen.insert(model).second || std::filesystem::exists(ModelFile(zoo, model))) continue;
    missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", model);
    words += " " + model;
  }
  if (missing.empty()) return {};
  const std::string out = zoo == "models/zoo" ? "" : " --out " + zoo;
  return Fail(ErrorCode::kNotFound,
              fmt::format("the zoo '{}' has no model {}: `./run models{}{}` makes what is missing, "
                          "if `./run models --list` lists it",
                          zoo, missing, words, out));
}

Result<std::unique_ptr<BoundModel>> BoundModel::Load(const std::string& file,
                                                     const std::string& name,
                                                     const ComputeDevice& on,
                                                     const BoundModelOptions& options) {
  if (!std::filesystem::exists(file)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("'{}' is not there; ./run models {} makes it", file, name));
  }
  std::unique_ptr<BoundModel> model(new BoundModel);
  CompileOptions compile;
  compile.model = name;
  compile.kernels = on.kernels.get();
  compile.import.dimensions = {{"batch", options.batch}};
  compile.precision = options.precision;
  LAGOON_ASSIGN_OR_RETURN(model->loaded_, CompileModel(file, *on.device, compile));
  if (options.tune) LAGOON_RETURN_IF_ERROR(ProfileVersions(*model->loaded_, *on.device, {}));
  LAGOON_ASSIGN_OR_RETURN(model->instance_, Instance::Create(model->loaded_, *on.device));
  model->host_.emplace(model->loaded_->plan);
  return model;
}

Result<std::unique_ptr<BoundModel>> BoundModel::Twin(Device& device) const {
  std::unique_ptr<BoundModel> twin(new BoundModel);
  twin->loaded_ = loaded_;
  LAGOON_ASSIGN_OR_RETURN(twin->instance_, Instance::Create(loaded_, device));
  twin->host_.emplace(loaded_->plan);
  return twin;
}

Status BoundModel::Run(Device& device, const RunOptions& options) {
  return RunPlan(*instance_, device, inputs(), outputs(), options);
}

Status BoundModel::Profile(Device& device, int runs) { return ProfilePlan(*loaded_, device, runs); }

Status BoundModel::SetParts(std::uint32_t parts) { return lagoon::SetParts(loaded_->plan, parts); }

}  // namespace lagoon::bench

#include "bench/robot/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>

#include "base/random.h"
#include "graph/onnx_model.h"

namespace lagoon::bench {
namespace {

constexpr std::int64_t kImageRows = 480, kImageColumns = 640, kTokens = 64;
constexpr int kBurstEvery = 20;

std::string FreeName(const std::string& file, std::set<std::string>& taken) {
  const std::filesystem::path path(file);
  // A model of a repository is REPOSITORY/NAME/VERSION/model.onnx.
  const std::string stem = path.stem() == "model" && path.has_parent_path()
                               ? path.parent_path().parent_path().filename().string()
                               : path.stem().string();
  std::string name = stem;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", stem, i);
  return name;
}

// The sizes of an input where nothing says others.
Dims LikelyDims(Dims dims) {
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] >= 0) continue;
    const std::size_t from_end = dims.size() - axis;
    dims[axis] = dims.size() == 2 && from_end == 1   ? kTokens
                 : dims.size() >= 3 && from_end == 1 ? kImageColumns
                 : dims.size() >= 3 && from_end == 2 ? kImageRows
                                                     : 1;
  }
  return dims;
}

Result<Dims> DimsOf(const DeclaredTensor& input, const std::string& model,
                    const std::map<std::string, Dims>& shapes) {
  auto said = shapes.find(model + "/" + input.name);
  if (said == shapes.end()) said = shapes.find(input.name);
  if (said == shapes.end()) return LikelyDims(input.dims);
  const bool fits = !input.shape_known ||
                    std::ranges::equal(said->second, input.dims, [](auto size, auto declared) {
                      return declared < 0 || size == declared;
                    });
  if (fits) return said->second;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("model '{}': input '{}' has the shape [{}], -1 being open; it cannot be {}",
                  model, input.name, fmt::join(input.dims, ","), fmt::join(said->second, "x")));
}

// Ones for integers, which are valid ids and masks; floats from 0 to 1, as images have.
std::vector<char> ValuesOf(const InputFile& input, Random& random) {
  std::vector<char> bytes(static_cast<std::size_t>(ElementCount(input.dims)) * SizeOf(input.type));
  for (std::size_t at = 0; at < bytes.size(); at += SizeOf(input.type)) {
    const auto value = static_cast<float>(random.Uniform());
    const auto* const from = reinterpret_cast<const char*>(&value);
    if (input.type == DataType::kFloat32) std::copy_n(from, sizeof(value), &bytes[at]);
    if (!IsFloat(input.type)) bytes[at] = 1;  // little-endian
  }
  return bytes;
}

// A shape for INPUT or MODEL/INPUT must be of some model.
Status CheckNamesInput(const std::string& name, const RobotLoad& load) {
  std::vector<std::string> known;
  for (const RobotModel& model : load.models) {
    for (const InputFile& input : model.inputs) {
      known.push_back(model.name + "/" + input.name);
      if (name == input.name || name == known.back()) return {};
    }
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--shape: no model has an input '{}'; there are {}", name,
                          fmt::join(known, ", ")));
}

Result<RobotModel> MakeModel(const std::string& file, const std::string& name,
                             const RobotOptions& options, const std::string& folder) {
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> model, OnnxModel::Read(file));
  RobotModel made{name, file, {}};
  Random random(options.seed);
  for (const DeclaredTensor& declared : model->inputs()) {
    LAGOON_ASSIGN_OR_RETURN(Dims dims, DimsOf(declared, name, options.shapes));
    InputFile input{declared.name, declared.type, std::move(dims),
                    fmt::format("{}/{}-{}", folder, name, made.inputs.size())};
    if (input.type == DataType::kString) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("model '{}': input '{}' is of strings, which have no random values",
                              name, input.name));
    }
    const std::vector<char> values = ValuesOf(input, random);
    std::ofstream out(input.file, std::ios::binary);
    out.write(values.data(), static_cast<std::streamsize>(values.size()));
    out.close();
    if (!out) return Fail(ErrorCode::kInternal, fmt::format("cannot write '{}'", input.file));
    made.inputs.push_back(std::move(input));
  }
  return made;
}

}  // namespace

const std::vector<RobotCase>& RobotCases() {
  static const std::string kDetector = "ssdlite";
  static const std::vector<RobotCase> kCases = {
      {"camera", "a camera: 20 requests a second, deadline 50 ms", kDetector},
      {"cameras", "two cameras with 10 requests a second each", kDetector, 10, 50, 2},
      {"controller", "a control loop of a tiny model: 500 requests a second, deadline 2 ms",
       "models/repository/digits/1/model.onnx", 500, 2},
      {"burst", "a camera that sends three requests at once now and then, deadline 100 ms",
       kDetector, 20, 100, 1, 3}};
  return kCases;
}

std::vector<std::vector<double>> RobotLoad::Arrivals(double seconds, std::uint32_t seed) const {
  Random random(seed);
  const double period_us = 1e6 / scenario.rate;
  std::vector<std::vector<double>> all(clients());
  for (std::vector<double>& arrivals : all) {
    double at = random.Uniform(0, period_us);
    for (int i = 0; at < seconds * 1e6; ++i, at += period_us) {
      const int requests = i % kBurstEvery == 0 ? scenario.burst : 1;
      arrivals.insert(arrivals.end(), static_cast<std::size_t>(requests), at);
    }
  }
  return all;
}

Result<RobotLoad> MakeLoad(const RobotOptions& options, const std::string& folder) {
  RobotLoad load{{}, options.scenario};
  std::vector<std::string> files = options.background;
  files.insert(files.begin(), options.scenario.model);
  std::set<std::string> taken;
  for (const std::string& file : files) {
    LAGOON_ASSIGN_OR_RETURN(RobotModel model,
                            MakeModel(file, FreeName(file, taken), options, folder));
    load.models.push_back(std::move(model));
  }
  for (const auto& [input, dims] : options.shapes) {
    LAGOON_RETURN_IF_ERROR(CheckNamesInput(input, load));
  }
  return load;
}

}  // namespace lagoon::bench

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "apps/command.h"
#include "apps/load.h"
#include "apps/tensor_file.h"
#include "plan/element.h"
#include "program/compile.h"

namespace lagoon {
namespace {

struct InferWords {
  std::string model;
  std::vector<std::string> inputs;     // NAME=FILE, or FILE for a model with one input
  std::vector<std::string> constants;  // NAME=FILE: inputs that are fixed when the model is loaded
  std::string output_dir;
  Normalization normalization = Normalization::kUnit;
  DeviceChoice device;
  Precision precision = Precision::kFp32;
};

using Tensors = std::vector<std::vector<std::byte>>;

std::string InputNames(const Plan& plan) {
  std::string names;
  for (const PlanTensor& input : plan.inputs) {
    names += fmt::format("{}'{}' {}", names.empty() ? "" : ", ", input.spec.name,
                         ToString(input.spec.dims));
  }
  return names;
}

std::map<std::string, std::string> FilesByInput(const Plan& plan, const InferWords& words) {
  std::map<std::string, std::string> files;
  for (const std::string& word : words.inputs) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      files[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (plan.inputs.size() == 1) {
      files[plan.inputs.front().spec.name] = word;
    } else {
      Die(fmt::format("--input {}: say NAME=FILE, the model takes {}", word, InputNames(plan)));
    }
  }
  return files;
}

/// The batch size of the request. A .npy file holds a batch if its array has the dims of the
/// model's input except for a larger first dim, and that first dim is the batch size. 1 if no file
/// holds a batch. `plan` is the plan for batch size 1.
std::int64_t BatchOf(const Plan& plan, const InferWords& words) {
  const std::map<std::string, std::string> files = FilesByInput(plan, words);
  for (const PlanTensor& input : plan.inputs) {
    const auto file = files.find(input.spec.name);
    if (file == files.end() || !file->second.ends_with(".npy")) continue;
    const Result<Constant> array = ReadNpy(file->second);
    if (!array || array->dims.empty() || array->dims.front() < 2) continue;
    Dims one = array->dims;
    one.front() = 1;
    if (one == input.spec.dims) return array->dims.front();
  }
  return 1;
}

std::map<std::string, Constant> ReadConstants(const InferWords& words) {
  std::map<std::string, Constant> constants;
  for (const std::string& word : words.constants) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) Die(fmt::format("--constant {}: say NAME=FILE.npy", word));
    Result<Constant> constant = ReadNpy(word.substr(equals + 1));
    if (!constant) Die(constant.error().message);
    constants[word.substr(0, equals)] = *std::move(constant);
  }
  return constants;
}

/// Compiles the model for as many rows as the input files have.
std::shared_ptr<const LoadedPlan> CompileForInputs(const InferWords& words,
                                                   const ComputeDevice& on) {
  CompileWords compile{.precision = words.precision, .constants = ReadConstants(words)};
  std::shared_ptr<const LoadedPlan> loaded = Compile(words.model, on, compile);
  const std::int64_t batch = BatchOf(loaded->plan, words);
  if (batch == 1) return loaded;
  loaded.reset();
  compile.batches = {batch};
  return Compile(words.model, on, compile);
}

Tensors ReadInputs(const Plan& plan, const InferWords& words) {
  std::map<std::string, std::string> files = FilesByInput(plan, words);
  Tensors tensors;
  for (const PlanTensor& input : plan.inputs) {
    const auto file = files.find(input.spec.name);
    if (file == files.end()) {
      Die(fmt::format("no --input for '{}'; the model takes {}", input.spec.name,
                      InputNames(plan)));
    }
    Result<std::vector<std::byte>> values =
        ReadTensor(file->second, input.spec, words.normalization);
    if (!values) Die(values.error().message);
    tensors.push_back(*std::move(values));
    files.erase(file);
  }
  if (!files.empty()) {
    Die(fmt::format("there is no input '{}'; the model takes {}", files.begin()->first,
                    InputNames(plan)));
  }
  return tensors;
}

void PrintTop(const TensorSpec& spec, const std::vector<std::byte>& bytes) {
  constexpr std::size_t kTop = 5;
  std::vector<double> values;
  for (std::int64_t i = 0; i < ElementCount(spec.dims); ++i) {
    values.push_back(ElementAsDouble(spec.type, bytes.data(), static_cast<std::size_t>(i)));
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t top = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  std::printf("%s %s, largest first:\n", spec.name.c_str(), ToString(spec.dims).c_str());
  for (std::size_t i = 0; i < top; ++i) std::printf("  [%zu] %g\n", order[i], values[order[i]]);
}

std::string FileNameFor(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npy";
}

void WriteOutputs(const Plan& plan, const Tensors& outputs, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) Die(fmt::format("cannot create '{}': {}", folder, error.message()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorSpec& spec = plan.outputs[i].spec;
    const std::string path = (std::filesystem::path(folder) / FileNameFor(spec.name)).string();
    if (const Status status = WriteNpy(path, spec, outputs[i].data()); !status) {
      Die(status.error().message);
    }
    std::printf("%s %s -> %s\n", spec.name.c_str(), ToString(spec.dims).c_str(), path.c_str());
  }
}

void RunInfer(const InferWords& words) {
  const ComputeDevice on = Open(words.device);
  Device& device = *on.device;
  const std::shared_ptr<const LoadedPlan> loaded = CompileForInputs(words, on);
  const Plan& plan = loaded->plan;
  const Tensors inputs = ReadInputs(plan, words);
  Tensors outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const std::vector<std::byte>& input : inputs) in.push_back(input.data());
  for (const PlanTensor& output : plan.outputs) outputs.emplace_back(output.spec.bytes());
  for (std::vector<std::byte>& output : outputs) out.push_back(output.data());

  Result<std::unique_ptr<Instance>> instance = Instance::Create(loaded, device);
  if (!instance) Die(instance.error().message);
  if (const Status status = RunOnce(**instance, device, in, out); !status)
    Die(status.error().message);
  if (!words.output_dir.empty()) return WriteOutputs(plan, outputs, words.output_dir);
  for (std::size_t i = 0; i < outputs.size(); ++i) PrintTop(plan.outputs[i].spec, outputs[i]);
}

}  // namespace

void AddInfer(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("infer", "Run one inference on files (.npy, .json, image)");
  auto words = std::make_shared<InferWords>();
  command->add_option("MODEL", words->model, "An .onnx file or a model's folder in a repository")
      ->required();
  command->add_option(
      "--input", words->inputs,
      "NAME=FILE for each input (FILE alone if there is only one); the first dim of a "
      ".npy may be a batch");
  command->add_option(
      "--constant", words->constants,
      "NAME=FILE.npy: an input that is fixed when the model is loaded (a shape, axes)");
  command->add_option("--output-dir", words->output_dir,
                      "Write every output to DIR/NAME.npy instead of printing its largest values");
  const std::map<std::string, Normalization> names = {{"unit", Normalization::kUnit},
                                                      {"imagenet", Normalization::kImageNet},
                                                      {"raw", Normalization::kRaw}};
  command
      ->add_option(
          "--normalize", words->normalization,
          "Pixels of an image become: unit (0..1), imagenet (mean and deviation), raw (0..255)")
      ->transform(CLI::CheckedTransformer(names))
      ->default_str("unit");
  AddPrecision(*command, words->precision);
  AddDevice(*command, words->device);
  command->callback([words] { RunInfer(*words); });
}

}  // namespace lagoon

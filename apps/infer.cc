#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "apps/command.h"
#include "apps/infer_model.h"
#include "apps/infer_requests.h"
#include "apps/load.h"
#include "apps/tensor_file.h"
#include "base/text.h"
#include "plan/element.h"
#include "plan/strings.h"
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
  std::string engine;
  RequestWords requests;
};

std::string InputNames(const OnnxModel& model) {
  std::string names;
  for (const DeclaredTensor& input : model.inputs()) {
    names += fmt::format("{}'{}' {}", names.empty() ? "" : ", ", input.name,
                         input.shape_known ? ToString(input.dims) : "of any shape");
  }
  return names;
}

std::map<std::string, std::string> FilesByInput(const OnnxModel& model, const InferWords& words) {
  std::map<std::string, std::string> files;
  for (const std::string& word : words.inputs) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      files[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (model.inputs().size() == 1) {
      files[model.inputs().front().name] = word;
    } else {
      Die(fmt::format("--input {}: say NAME=FILE, the model takes {}", word, InputNames(model)));
    }
  }
  return files;
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

/// By input of the model.
std::vector<Constant> ReadInputs(const OnnxModel& model, const InferWords& words) {
  std::map<std::string, std::string> files = FilesByInput(model, words);
  std::vector<Constant> tensors;
  for (const DeclaredTensor& input : model.inputs()) {
    const auto file = files.find(input.name);
    if (file == files.end()) {
      Die(fmt::format("no --input for '{}'; the model takes {}", input.name, InputNames(model)));
    }
    Result<Constant> tensor = ReadInput(file->second, input, words.normalization);
    if (!tensor) Die(tensor.error().message);
    tensors.push_back(*std::move(tensor));
    files.erase(file);
  }
  if (!files.empty()) {
    Die(fmt::format("there is no input '{}'; the model takes {}", files.begin()->first,
                    InputNames(model)));
  }
  return tensors;
}

void PrintTop(const TensorSpec& spec, std::span<const std::byte> bytes) {
  constexpr std::size_t kTop = 5;
  if (spec.type == DataType::kString) {
    std::printf("%s %s, the first:\n", spec.name.c_str(), ToString(spec.dims).c_str());
    for (std::size_t i = 0; i < std::min(kTop, bytes.size() / sizeof(StringElement)); ++i) {
      std::printf("  [%zu] %s\n", i, Quoted(StringAt(bytes.data(), i).text()).c_str());
    }
    return;
  }
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

void WriteOutputs(const std::vector<BoundRequest::Output>& outputs, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) Die(fmt::format("cannot create '{}': {}", folder, error.message()));
  for (const auto& [spec, bytes] : outputs) {
    const std::string path = (std::filesystem::path(folder) / FileNameFor(spec.name)).string();
    if (const Status status = WriteNpy(path, spec, bytes.data()); !status) {
      Die(status.error().message);
    }
    std::printf("%s %s -> %s\n", spec.name.c_str(), ToString(spec.dims).c_str(), path.c_str());
  }
}

void RunInfer(const InferWords& words) {
  const ComputeDevice on = Open(words.device);
  const std::unique_ptr<ModelCompiler> compiler =
      ReadModel(words.model, on,
                {.many_shapes = !words.requests.folder.empty(),
                 .precision = words.precision,
                 .constants = ReadConstants(words),
                 .engine = words.engine});
  if (!words.requests.folder.empty()) return RunRequests(words.requests, *compiler, *on.device);
  const std::vector<Constant> inputs = ReadInputs(compiler->model(), words);
  Result<BoundRequest> request = BoundRequest::Bind(*compiler, *on.device, inputs);
  if (!request) Die(request.error().message);
  if (const Status status = request->Run(); !status) Die(status.error().message);
  if (!words.output_dir.empty()) return WriteOutputs(request->outputs(), words.output_dir);
  for (const auto& [spec, bytes] : request->outputs()) PrintTop(spec, bytes);
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
      "NAME=FILE for each input (FILE alone if there is only one); where the model leaves sizes "
      "open, the files decide");
  command->add_option(
      "--constant", words->constants,
      "NAME=FILE.npy: an input that is fixed when the model is loaded (a shape, axes)");
  command->add_option("--output-dir", words->output_dir,
                      "Write every output to DIR/NAME.npy instead of printing its largest values");
  const std::map<std::string, Normalization> names = {{"unit", Normalization::kUnit},
                                                      {"imagenet", Normalization::kImageNet},
                                                      {"raw", Normalization::kRaw}};
  CLI::Option* normalize = command->add_option(
      "--normalize", words->normalization,
      "Pixels of an image become: unit (0..1), imagenet (mean and deviation), raw (0..255)");
  TakeNames(normalize, names)->default_str("unit");
  command->add_option("--requests", words->requests.folder,
                      "Instead of --input: runs each sub-folder of DIR (NAME.npy for each input), "
                      "writes its `outputs`, and prints a line of JSON with times");
  command->add_option("--seconds", words->requests.seconds,
                      "With --requests: repeats each request for so long, to measure it");
  command->add_option("--revocations", words->requests.revocations,
                      "With --requests: revokes each request so often at random moments, and "
                      "compares the bits of its outputs");
  AddEngine(*command, words->engine);
  AddPrecision(*command, words->precision);
  AddDevice(*command, words->device);
  command->callback([words] { RunInfer(*words); });
}

}  // namespace lagoon

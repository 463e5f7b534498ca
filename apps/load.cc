#include "apps/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <optional>

#include "apps/command.h"
#include "apps/version.h"
#include "engine/engine_host.h"
#include "policies/registry.h"
#include "program/compile.h"
#include "serving/model/repository.h"

namespace lagoon {
namespace fs = std::filesystem;

std::string HowToMake(const std::string& path) {
  const fs::path parts = fs::path(path).lexically_normal();
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (*part != "models" || std::next(part) == parts.end() || *std::next(part) != "zoo") continue;
    const auto name = std::next(part, 2);
    if (name == parts.end() || name->empty()) return "; ./run models makes some";
    return fmt::format("; ./run models {} makes it", name->string());
  }
  return "";
}

std::string FindModelFile(const std::string& model) {
  if (fs::is_regular_file(model)) return model;
  if (!fs::is_directory(model)) {
    Die(fmt::format("'{}' is neither a file nor a folder{}", model, HowToMake(model)));
  }
  long best = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
    const std::string name = entry.path().filename();
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (number && name.size() < 18 && fs::exists(entry.path() / "model.onnx")) {
      best = std::max(best, std::stol(name));
    }
  }
  if (best < 0) Die(fmt::format("'{}' has no VERSION/model.onnx", model));
  return ModelPath(fs::path(model) / std::to_string(best), "model.onnx");
}

std::string Build() { return fmt::format("{} {}", kVersion, kCommit); }

std::string ModelName(const std::string& model) {
  const fs::path path = fs::path(model).lexically_normal();
  if (path.extension() == ".onnx" && path.stem() != "model") return path.stem();
  if (path.extension() == ".onnx") {  // NAME/VERSION/model.onnx or NAME/model.onnx
    const fs::path folder = path.parent_path();
    const std::string last = folder.filename();
    const bool version = last.find_first_not_of("0123456789") == std::string::npos;
    const fs::path name = version ? folder.parent_path().filename() : folder.filename();
    return name.empty() ? "model" : name.string();
  }
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

void AddDeviceName(CLI::App& command, DeviceChoice& choice) {
  command
      .add_option("--device", choice.name,
                  "Device to run on: cpu, or cuda:N (see `lagoon devices`)")
      ->capture_default_str();
  AddCudaDriver(command, choice);
}

void AddDevice(CLI::App& command, DeviceChoice& choice) {
  AddDeviceName(command, choice);
  AddWorkers(command, choice.workers);
}

void AddWorkers(CLI::App& command, std::uint32_t& workers) {
  command.add_option("--workers", workers, "Worker threads of device cpu (0: one per core)")
      ->capture_default_str();
}

void AddCudaDriver(CLI::App& command, DeviceChoice& choice) {
  command.add_option("--cuda-driver", choice.cuda_driver, "File name or path of the CUDA driver")
      ->capture_default_str();
}

CLI::Validator CheckSchedulers() {
  const auto check = [](const std::string& word) -> std::string {
    for (const std::string& scheduler : SplitSchedulers(word)) {
      const Result<Scheduler> made = MakeScheduler(scheduler);
      if (!made) return made.error().message;
    }
    return "";
  };
  return {check, fmt::format("{{{}}}", fmt::join(SchedulerNames(), ",")), "scheduler"};
}

void AddScheduler(CLI::App& command, std::string& scheduler) {
  command
      .add_option("--scheduler", scheduler,
                  "How models share the device: NAME or NAME:PARAMETER=NUMBER,PARAMETER=NUMBER "
                  "(`lagoon schedulers` explains them)")
      ->check(CheckSchedulers())
      ->capture_default_str();
}

ComputeDevice Open(const DeviceChoice& choice) {
  Result<ComputeDevice> opened = OpenDevice(choice);
  if (!opened) Die(opened.error().message);
  return *std::move(opened);
}

CLI::Option* AddPrecision(CLI::App& command, Precision& precision) {
  const std::map<std::string, Precision> names = {{"fp32", Precision::kFp32},
                                                  {"bf16", Precision::kBf16}};
  CLI::Option* option = command.add_option(
      "--precision", precision,
      "Type for convolutions and products with weights: fp32, or bf16 with sums in fp32");
  return TakeNames(option, names)->default_str("fp32");
}

void AddEngine(CLI::App& command, std::string& engine) {
  command.add_option("--engine", engine,
                     "ONNX Runtime's library (libonnxruntime.so), which runs the ops that Lagoon "
                     "does not have; none: refuse them (default: the library in .venv, if there is "
                     "one)");
}

void AddModelsPython(CLI::App& command, std::string& python) {
  command
      .add_option("--python", python,
                  "The interpreter of models in Python (backend \"python\"), which has numpy: a "
                  "path, or a name that PATH has")
      ->capture_default_str();
}

void AddShapes(CLI::App& command, CompileWords& words) {
  command.add_option("--shape", words.shapes,
                     "NAME=1x3x640x640: the shape of an input whose sizes the model leaves open");
  command
      .add_option("--batch", words.batch,
                  "Size of the first dim of all inputs, where the model leaves it open")
      ->check(CLI::Range(1, 1024));
}

std::unique_ptr<ModelCompiler> ReadModel(const std::string& model, const ComputeDevice& on,
                                         const CompileWords& words) {
  CompileOptions options;
  options.in_place = words.in_place;
  options.many_shapes = words.many_shapes;
  options.precision = words.precision;
  options.kernels = on.kernels.get();
  options.import.inputs = words.constants;
  auto engine = ChooseEngine(words.engine);
  if (!engine) Die(engine.error().message);
  options.import.engine = *std::move(engine);
  options.model = ModelName(model);
  auto compiler = ModelCompiler::Read(FindModelFile(model), *on.device, options);
  if (!compiler) Die(compiler.error().message);
  return *std::move(compiler);
}

std::vector<GraphInputs> InputsFor(const OnnxModel& model, const CompileWords& words) {
  std::map<std::string, Dims> shapes;
  for (const std::string& word : words.shapes) {
    const std::size_t equals = word.find('=');
    const std::optional<Dims> dims =
        equals == std::string::npos ? std::nullopt : ParseDims(word.substr(equals + 1));
    if (!dims) Die(fmt::format("--shape {}: say NAME=SIZExSIZE, like images=1x3x640x640", word));
    shapes[word.substr(0, equals)] = *dims;
  }
  if (shapes.empty() && words.batch == 0) return model.Guesses();
  Result<GraphInputs> inputs =
      words.batch == 0 ? model.DefaultInputs() : model.BatchInputs(words.batch);
  if (inputs && !shapes.empty()) inputs = model.WithShapes(*std::move(inputs), shapes);
  if (!inputs) Die(inputs.error().message);
  return {*std::move(inputs)};
}

CompiledPart CompileFirst(ModelCompiler& compiler, const CompileWords& words, GraphInputs& inputs) {
  std::string first_error;
  for (GraphInputs& likely : InputsFor(compiler.model(), words)) {
    Result<CompiledPart> part = compiler.Compile(likely);
    if (part) {
      inputs = std::move(likely);
      return *std::move(part);
    }
    if (first_error.empty()) first_error = part.error().message;
  }
  if (compiler.model().open()) first_error += "; --shape says for which shapes to compile";
  Die(first_error);
}

std::shared_ptr<LoadedPlan> Compile(const std::string& model, const ComputeDevice& on,
                                    const CompileWords& words) {
  const std::unique_ptr<ModelCompiler> compiler = ReadModel(model, on, words);
  GraphInputs inputs;
  CompiledPart part = CompileFirst(*compiler, words, inputs);
  if (part.links.next) {
    std::fprintf(stderr,
                 "%s: shapes depend on data, so the model runs in parts, each compiled when its "
                 "shapes are known; this is the first part\n",
                 model.c_str());
  }
  return std::move(part.loaded);
}

}  // namespace lagoon

#include "apps/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/command.h"
#include "apps/version.h"
#include "program/compile.h"

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
  return (fs::path(model) / std::to_string(best) / "model.onnx").string();
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
                  "Device to run on: cpu, or cuda:N (see `lagoon devices`; not measured yet)")
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

ComputeDevice Open(const DeviceChoice& choice) {
  Result<ComputeDevice> opened = OpenDevice(choice);
  if (!opened) Die(opened.error().message);
  return *std::move(opened);
}

CLI::Option* AddPrecision(CLI::App& command, Precision& precision) {
  const std::map<std::string, Precision> names = {{"fp32", Precision::kFp32},
                                                  {"bf16", Precision::kBf16}};
  return command
      .add_option(
          "--precision", precision,
          "Type for convolutions and products with weights: fp32, or bf16 with sums in fp32")
      ->transform(CLI::CheckedTransformer(names))
      ->default_str("fp32");
}

std::shared_ptr<LoadedPlan> Compile(const std::string& model, const ComputeDevice& on,
                                    const CompileWords& words) {
  CompileOptions options;
  options.in_place = words.in_place;
  options.batches = words.batches;
  options.precision = words.precision;
  options.kernels = on.kernels.get();
  options.import.inputs = words.constants;
  options.model = ModelName(model);
  Result<std::shared_ptr<LoadedPlan>> loaded =
      CompileModel(FindModelFile(model), *on.device, options);
  if (!loaded) Die(loaded.error().message);
  return *std::move(loaded);
}

}  // namespace lagoon

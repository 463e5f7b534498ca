#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "plan/precision.h"
#include "program/compile.h"
#include "program/open_device.h"

namespace lagoon {

/// The file behind MODEL on a command line: an .onnx file itself, or the highest version in a
/// model's folder of a repository. Dies if there is none, with a message that names the path.
std::string FindModelFile(const std::string& model);

/// How to make the missing model at `path`, to end a message: "; ./run models NAME makes it". Empty
/// if `path` is not in models/zoo, the folder that ./run models fills.
std::string HowToMake(const std::string& path);

/// Version and commit. Profiles of another build are stale.
std::string Build();

/// The model's name for messages: the name of its folder, or of its file.
std::string ModelName(const std::string& model);

/// Adds --device and --cuda-driver.
void AddDeviceName(CLI::App& command, DeviceChoice& choice);
/// Adds --device, --cuda-driver and --workers.
void AddDevice(CLI::App& command, DeviceChoice& choice);
/// Adds --workers.
void AddWorkers(CLI::App& command, std::uint32_t& workers);
/// Adds --cuda-driver.
void AddCudaDriver(CLI::App& command, DeviceChoice& choice);

/// Checks a word of a command line: a list of schedulers that MakeScheduler() makes, or one.
CLI::Validator CheckSchedulers();
/// Adds --scheduler.
void AddScheduler(CLI::App& command, std::string& scheduler);

/// Opens the chosen device. Dies on failure.
ComputeDevice Open(const DeviceChoice& choice);

struct CompileWords {
  bool in_place = false;
  bool many_shapes = false;  // CompileOptions::many_shapes
  Precision precision = Precision::kFp32;
  std::map<std::string, Constant> constants = {};  // inputs that are fixed when the model is loaded
  std::int64_t batch = 0;                          // 0: not said
  std::vector<std::string> shapes = {};            // NAME=AxBxC, for inputs with open dims
  std::string engine = {};                         // ChooseEngine()
};

/// Adds --shape and --batch.
void AddShapes(CLI::App& command, CompileWords& words);

/// Adds --engine.
void AddEngine(CLI::App& command, std::string& engine);

/// Adds --python.
void AddModelsPython(CLI::App& command, std::string& python);

/// Adds --precision.
CLI::Option* AddPrecision(CLI::App& command, Precision& precision);

/// Reads the model for the device. Dies on failure.
std::unique_ptr<ModelCompiler> ReadModel(const std::string& model, const ComputeDevice& on,
                                         const CompileWords& words = {});

/// The inputs that the words say, and else likely ones (OnnxModel::Guesses). Dies on failure.
std::vector<GraphInputs> InputsFor(const OnnxModel& model, const CompileWords& words);

/// Compiles the model for the first inputs of InputsFor() that it takes, and sets `inputs` to them.
/// Dies on failure.
CompiledPart CompileFirst(ModelCompiler& compiler, const CompileWords& words, GraphInputs& inputs);

/// Compiles the model for the shapes that the words say; if they say none and the model leaves
/// sizes open, for the first likely ones that it takes. Dies on failure.
std::shared_ptr<LoadedPlan> Compile(const std::string& model, const ComputeDevice& on,
                                    const CompileWords& words = {});

}  // namespace lagoon

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
#include "program/open_device.h"

namespace lagoon {

/// MODEL on a command line: an .onnx file, or a model's folder in a repository (its highest
/// version). Returns the file; dies naming what it looked for.
std::string FindModelFile(const std::string& model);

/// How to make what is missing at `path`, when that is in a folder of models from ./run models
/// (models/zoo): "; ./run models NAME makes it". Else empty.
std::string HowToMake(const std::string& path);

/// Version and commit: profiles of another build are stale.
std::string Build();

/// The model's name for messages: the folder's or the file's.
std::string ModelName(const std::string& model);

/// Adds --device and --cuda-driver.
void AddDeviceName(CLI::App& command, DeviceChoice& choice);
/// Those, and --workers.
void AddDevice(CLI::App& command, DeviceChoice& choice);
void AddCudaDriver(CLI::App& command, DeviceChoice& choice);

/// The device chosen, or dies.
ComputeDevice Open(const DeviceChoice& choice);

struct CompileWords {
  bool in_place = false;
  Precision precision = Precision::kFp32;
  std::vector<std::int64_t> batches = {1};         // see CompileOptions
  std::map<std::string, Constant> constants = {};  // inputs that are fixed when the model is loaded
};

/// Adds --precision.
CLI::Option* AddPrecision(CLI::App& command, Precision& precision);

/// Compiled for the device, or dies.
std::shared_ptr<LoadedPlan> Compile(const std::string& model, const ComputeDevice& on,
                                    const CompileWords& words = {});

}  // namespace lagoon

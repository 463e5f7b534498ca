#pragma once

// For tests: compiles a TestGraph for a CPU device, runs it and compares its outputs with the
// reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "program/compile.h"
#include "program/link/check_plan.h"
#include "program/testing/reference.h"

namespace lagoon::testing {

inline std::unique_ptr<Device> MakeDevice(std::uint32_t workers, CheckProbe* probe = nullptr) {
  CpuDeviceOptions options;
  options.workers = workers;
  options.probe = probe;
  auto device = CreateCpuDevice(options);
  LAGOON_CHECK(device.has_value());
  return *std::move(device);
}

/// Returns null and reports a test failure if the graph does not compile.
inline std::shared_ptr<LoadedPlan> Compile(const Graph& graph, Device& device) {
  CompileOptions options;
  options.model = "test";
  auto loaded = CompileGraph(graph, device, options);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message;
    return nullptr;
  }
  const Status checked = CheckPlan((*loaded)->plan, (*loaded)->weights);
  EXPECT_TRUE(checked) << checked.error().message;
  return *std::move(loaded);
}

/// The outputs of one run on the inputs of `graph`.
inline std::vector<std::vector<float>> RunOn(Instance& instance, Device& device,
                                             const TestGraph& graph) {
  std::vector<const void*> inputs;
  for (const ValueId id : graph.graph().inputs) inputs.push_back(graph.value(id).data.data());
  std::vector<std::vector<float>> results;
  for (const ValueId id : graph.graph().outputs) {
    results.emplace_back(graph.value(id).data.size(), -12345.0F);
  }
  std::vector<void*> outputs;
  for (auto& result : results) outputs.push_back(result.data());
  const Status run = RunOnce(instance, device, inputs, outputs);
  EXPECT_TRUE(run) << run.error().message;
  return results;
}

/// The largest difference between two tensors, relative to the largest value of `expected`.
inline double RelativeError(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, scale = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(difference <= error)) error = difference;  // a NaN stays a NaN
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return error / scale;
}

inline void ExpectOutputs(const TestGraph& graph, const std::vector<std::vector<float>>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const HostTensor& expected = graph.value(graph.graph().outputs[i]);
    EXPECT_LT(RelativeError(got[i], expected.data), 2e-5) << "output " << i;
  }
}

/// Compiles and runs `graph` twice in one instance; returns the plan.
inline std::shared_ptr<LoadedPlan> ExpectSameAsReference(const TestGraph& graph) {
  const auto device = MakeDevice(2);
  std::shared_ptr<LoadedPlan> loaded = Compile(graph.graph(), *device);
  if (loaded == nullptr) return nullptr;
  auto instance = Instance::Create(loaded, *device);
  LAGOON_CHECK(instance.has_value());
  for (int run = 0; run < 2; ++run) ExpectOutputs(graph, RunOn(**instance, *device, graph));
  return loaded;
}

}  // namespace lagoon::testing

// Models compiled for a GPU: the same lowering as for the CPU, with CUDA bodies, run on the
// emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/paths.h"
#include "device/cuda/driver/source_program.h"
#include "graph/testing/model_builder.h"
#include "program/run.h"
#include "program/testing/emulated_gpu.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::EmulatedDriver;
using ::testing::HasSubstr;
using testing::TestGraph;

/// An emulated GPU with the maker of its kernels.
class Gpu {
 public:
  explicit Gpu(int multiprocessors = 4) : Gpu(testing::StartEmulatedGpu(multiprocessors)) {}
  explicit Gpu(const DeviceChoice& choice) {
    auto opened = OpenDevice(choice);
    LAGOON_CHECK(opened.has_value());
    opened_ = *std::move(opened);
  }

  Device& device() { return *opened_.device; }
  const KernelMaker* kernels() const { return opened_.kernels.get(); }

  Result<std::shared_ptr<LoadedPlan>> Compile(const Graph& graph,
                                              Precision precision = Precision::kFp32) {
    CompileOptions options;
    options.model = "test";
    options.precision = precision;
    options.kernels = kernels();
    return CompileGraph(graph, device(), options);
  }

  /// Compiles `graph` and runs it twice in one instance; returns the outputs of the second run.
  std::vector<std::vector<float>> Run(const TestGraph& graph,
                                      Precision precision = Precision::kFp32) {
    const auto loaded = Compile(graph.graph(), precision);
    if (!loaded) {
      ADD_FAILURE() << loaded.error().message;
      return {};
    }
    for (const PlanOp& op : (*loaded)->plan.ops) names_.push_back(op.kernel_name);
    auto instance = Instance::Create(*loaded, device());
    LAGOON_CHECK(instance.has_value());
    testing::RunOn(**instance, device(), graph);
    auto outputs = testing::RunOn(**instance, device(), graph);
    EXPECT_EQ(EmulatedDriver().fault(), "");
    return outputs;
  }
  /// Names of the kernels of the last model.
  const std::vector<std::string>& names() const { return names_; }

 private:
  ComputeDevice opened_;
  std::vector<std::string> names_;
};

TEST(CudaProgram, AConvolutionalNetGivesTheReferencesOutputs) {
  TestGraph g;
  const ValueId x = g.Conv(g.Input({1, 3, 12, 12}), 8, {}, 1, true, testing::FusedRelu());
  const ValueId depthwise = g.Conv(x, 8, {}, 8);
  const ValueId grouped = g.Conv(x, 8, {}, 2);
  const ValueId pooled = g.Pool("MaxPool", x, {});
  Fused fused = testing::FusedRelu();
  fused.residual = g.Op("Add", {g.Op("Mul", {depthwise, grouped}), pooled});
  const ValueId y = g.Conv(x, 8, {}, 1, true, fused);
  const ValueId flat = g.View("Flatten", y, {1, 8 * 12 * 12});
  const ValueId logits = g.Op("MatMul", {flat, g.Constant({8 * 12 * 12, 10})});
  g.Output(g.Op("Softmax", {logits}, {{"axis", std::int64_t{1}}}));
  Gpu gpu;
  testing::ExpectOutputs(g, gpu.Run(g));
}

TEST(CudaProgram, ASplitDepthIsAProductAndASum) {
  TestGraph g;
  const ValueId x = g.Input({3, 1000});
  const ValueId y = g.Op("Gemm", {x, g.Constant({1000, 20}), g.Constant({20})});
  g.Output(g.Op("Relu", {y}));
  Gpu gpu(16);
  testing::ExpectOutputs(g, gpu.Run(g));
  EXPECT_THAT(gpu.names(), ::testing::Contains("split_sum"));
}

TEST(CudaProgram, WhatOnlyReadsConstantsRunsOnTheHostAtLoad) {
  TestGraph g;
  const ValueId table =
      g.Op("Exp",
           {g.Op("Transpose", {g.Constant({6, 4})}, {{"perm", std::vector<std::int64_t>{1, 0}}})});
  g.Output(g.Op("Add", {g.Input({4, 6}), table}));
  Gpu gpu;
  testing::ExpectOutputs(g, gpu.Run(g));
  EXPECT_EQ(gpu.names(), std::vector<std::string>{"binary"});
}

// A table of bytes that stands for floats stays bytes (graph/fuse/fuse_quantize.cc).
TEST(CudaProgram, RowsOfATableOfBytesBecomeFloats) {
  constexpr std::size_t kRows = 64, kColumns = 1024;
  std::vector<std::uint8_t> levels(kRows * kColumns);
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<std::uint8_t>(i % 251);
  testing::ModelBuilder m;
  m.Input("i", {2}, onnx::TensorProto::INT64).Output("y").Floats("s", {}, {0.5F});
  *m.graph().add_initializer() =
      testing::RawTensor<std::uint8_t>("t", onnx::TensorProto::UINT8, {kRows, kColumns}, levels);
  *m.graph().add_initializer() =
      testing::RawTensor<std::uint8_t>("z", onnx::TensorProto::UINT8, {}, {7});
  m.Add("DequantizeLinear", {"t", "s", "z"}, {"f"});
  m.Add("Gather", {"f", "i"}, {"y"});
  const auto graph = m.Load();
  ASSERT_TRUE(graph) << graph.error().message;
  Gpu gpu;
  const auto loaded = gpu.Compile(*graph);
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto instance = Instance::Create(*loaded, gpu.device());
  ASSERT_TRUE(instance);
  const std::int64_t rows[] = {5, 63};
  const void* const input = rows;
  std::vector<float> y(2 * kColumns);
  void* const output = y.data();
  ASSERT_TRUE(RunOnce(**instance, gpu.device(), {&input, 1}, {&output, 1}));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(rows[i / kColumns]) * kColumns + i % kColumns;
    ASSERT_EQ(y[i], (static_cast<float>(levels[at]) - 7) * 0.5F) << i;
  }
}

TEST(CudaProgram, Bf16RoundsTheOperandsOfProducts) {
  TestGraph g;
  g.Output(g.Conv(g.Input({1, 8, 9, 9}), 24, {}));
  Gpu gpu;
  const auto outputs = gpu.Run(g, Precision::kBf16);
  ASSERT_EQ(outputs.size(), 1u);
  const double error = testing::RelativeError(outputs[0], g.value(g.graph().outputs[0]).data);
  EXPECT_LT(error, 1e-2);
  EXPECT_GT(error, 1e-5) << "computed in fp32";
  EXPECT_THAT(gpu.names(), ::testing::Not(::testing::Contains("cast")))
      << "bodies round x themselves";
}

TEST(CudaProgram, WeightsAreUploadedOnce) {
  TestGraph g;
  g.Output(g.Conv(g.Conv(g.Input({1, 3, 8, 8}), 8, {}), 8, {}));
  Gpu gpu;
  EmulatedDriver().TakeLog();
  const auto loaded = gpu.Compile(g.graph());
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::vector<std::uint64_t> bytes;
  for (const auto& call : EmulatedDriver().TakeLog()) {
    if (call.name == "cuMemcpyHtoD") bytes.push_back(call.value);
  }
  EXPECT_EQ(bytes, std::vector<std::uint64_t>{(*loaded)->plan.weight_bytes});
}

TEST(CudaProgram, AnUploadThatFailsIsAnErrorOfTheModel) {
  TestGraph g;
  g.Output(g.Conv(g.Input({1, 3, 8, 8}), 8, {}));
  for (const char* const call : {"cuMemcpyHtoD", "cuStreamSynchronize"}) {
    Gpu gpu;
    EmulatedDriver().FailCall(1, 700, call);
    const auto loaded = gpu.Compile(g.graph());
    ASSERT_FALSE(loaded.has_value());
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("model 'test'"), HasSubstr(call),
                                              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
  }
}

TEST(CudaProgram, AnOpWithoutABodyIsNamedWithItsNodeAndType) {
  TestGraph g;
  const ValueId least = g.Op("Min", {g.Input({4, 6}), g.Input({4, 6})});
  Graph graph = g.graph();
  graph.nodes.back().op = "CumSum";
  graph.nodes.back().name = "running";
  graph.nodes.back().inputs.resize(1);
  graph.nodes.back().attributes["axis"] = std::int64_t{1};
  graph.outputs = {least};
  Gpu gpu;
  const auto loaded = gpu.Compile(graph);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("node 'running' (CumSum"),
                    HasSubstr("Scan of FP32 has no CUDA body yet; run it with --device cpu")));
}

TEST(CudaProgram, WithoutNvrtcTheModelSaysWhatToInstall) {
  const cuda::SourceProgram program({{"ops.cu", ""}, {}, {{"lagoon_Unary"}}}, cuda::ImageCache({}),
                                    {"libno-such-nvrtc.so"});
  TestGraph g;
  g.Output(g.Op("Relu", {g.Input({4})}));
  DeviceChoice choice = testing::StartEmulatedGpu(1);
  choice.cuda_program = &program;
  Gpu gpu(choice);
  const auto loaded = gpu.Compile(g.graph());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("model 'test'"), HasSubstr("libno-such-nvrtc.so"),
                    HasSubstr("install the nvrtc package")));
}

/// The model that ships with Lagoon, on random inputs.
class Digits : public ::testing::Test {
 protected:
  static std::shared_ptr<LoadedPlan> Load(Device& device, const KernelMaker* kernels) {
    CompileOptions options;
    options.model = "digits";
    options.kernels = kernels;
    const std::string file = SourceFolder() + "/models/repository/digits/1/model.onnx";
    auto loaded = CompileModel(file, device, options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? *std::move(loaded) : nullptr;
  }

  /// The output of one run on the input of `seed`.
  static std::vector<float> Run(Instance& instance, Device& device, std::uint32_t seed,
                                const RunOptions& options = {}) {
    const TensorSpec& input = instance.plan().inputs.at(0).spec;
    const std::vector<float> x = testing::RandomTensor(input.dims, seed).data;
    const auto count = ElementCount(instance.plan().outputs.at(0).spec.dims);
    std::vector<float> y(static_cast<std::size_t>(count), -12345.0F);
    const void* const inputs[] = {x.data()};
    void* const outputs[] = {y.data()};
    const Status run = RunPlan(instance, device, inputs, outputs, options);
    EXPECT_TRUE(run) << run.error().message;
    return y;
  }
};

TEST_F(Digits, GivesTheCpusOutputs) {
  const auto cpu = testing::MakeDevice(1);
  const auto on_cpu = *Instance::Create(Load(*cpu, nullptr), *cpu);
  Gpu gpu;
  const auto on_gpu = *Instance::Create(Load(gpu.device(), gpu.kernels()), gpu.device());
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    const std::vector<float> want = Run(*on_cpu, *cpu, seed);
    EXPECT_LT(testing::RelativeError(Run(*on_gpu, gpu.device(), seed), want), 2e-5);
  }
  EXPECT_EQ(EmulatedDriver().fault(), "");
}

TEST_F(Digits, RevokedAtRandomGivesTheSameBits) {
  Gpu gpu;
  Device& device = gpu.device();
  const auto instance = *Instance::Create(Load(device, gpu.kernels()), device);
  const TimePoint start = device.Now();
  const std::vector<float> want = Run(*instance, device, 1);
  const Nanoseconds alone = device.Now() - start;
  std::mt19937_64 random(1);
  std::size_t revoked = 0;
  RunOptions options;
  options.guard = *device.CreateGuard();
  options.revoked = &revoked;
  for (int run = 0; run < 8; ++run) {
    int left = 5;  // so that the run finishes
    options.revoke_after = [&]() -> std::optional<Nanoseconds> {
      if (left-- == 0) return std::nullopt;
      return Nanoseconds(random() % static_cast<std::uint64_t>(alone.count() / 4));
    };
    ASSERT_EQ(Run(*instance, device, 1, options), want) << "run " << run;
  }
  EXPECT_GT(revoked, 8u);
  EXPECT_EQ(EmulatedDriver().fault(), "");
}

}  // namespace
}  // namespace lagoon

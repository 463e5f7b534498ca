// Layers of the five CNNs, one thread: the time of all blocks, and of the median block.

#include <benchmark/benchmark.h>

#include <string>

#include "kernels/conv/conv2d_tiling.h"
#include "kernels/testing/conv2d.h"

namespace lagoon {
namespace {

using testing::ConvProblem;

struct Layer {
  const char* name;
  std::uint32_t in, size, out, kernel, stride, pad;
};

struct Gemm {
  const char* name;
  std::uint32_t rows, depth, columns;
};

// Names: network, stage, place in the block. ResNet's residual inputs are left out.
constexpr Layer kLayers[] = {
    {"r.stem", 3, 224, 64, 7, 2, 3},     {"r18.l1", 64, 56, 64, 3, 1, 1},
    {"r18.l2a", 64, 56, 128, 3, 2, 1},   {"r18.l2d", 64, 56, 128, 1, 2, 0},
    {"r18.l2", 128, 28, 128, 3, 1, 1},   {"r18.l3a", 128, 28, 256, 3, 2, 1},
    {"r18.l3d", 128, 28, 256, 1, 2, 0},  {"r18.l3", 256, 14, 256, 3, 1, 1},
    {"r18.l4a", 256, 14, 512, 3, 2, 1},  {"r18.l4d", 256, 14, 512, 1, 2, 0},
    {"r18.l4", 512, 7, 512, 3, 1, 1},    {"r50.1a", 64, 56, 64, 1, 1, 0},
    {"r50.1b", 64, 56, 256, 1, 1, 0},    {"r50.1c", 256, 56, 64, 1, 1, 0},
    {"r50.2a", 256, 56, 128, 1, 1, 0},   {"r50.2s", 128, 56, 128, 3, 2, 1},
    {"r50.2b", 128, 28, 512, 1, 1, 0},   {"r50.2c", 512, 28, 128, 1, 1, 0},
    {"r50.2d", 256, 56, 512, 1, 2, 0},   {"r50.3a", 512, 28, 256, 1, 1, 0},
    {"r50.3s", 256, 28, 256, 3, 2, 1},   {"r50.3b", 256, 14, 1024, 1, 1, 0},
    {"r50.3c", 1024, 14, 256, 1, 1, 0},  {"r50.3d", 512, 28, 1024, 1, 2, 0},
    {"r50.4a", 1024, 14, 512, 1, 1, 0},  {"r50.4s", 512, 14, 512, 3, 2, 1},
    {"r50.4b", 512, 7, 2048, 1, 1, 0},   {"r50.4c", 2048, 7, 512, 1, 1, 0},
    {"r50.4d", 1024, 14, 2048, 1, 2, 0}, {"v.1", 3, 224, 64, 3, 1, 1},
    {"v.2", 64, 224, 64, 3, 1, 1},       {"v.3", 64, 112, 128, 3, 1, 1},
    {"v.4", 128, 112, 128, 3, 1, 1},     {"v.5", 128, 56, 256, 3, 1, 1},
    {"v.6", 256, 56, 256, 3, 1, 1},      {"v.7", 256, 28, 512, 3, 1, 1},
    {"v.8", 512, 28, 512, 3, 1, 1},      {"v.9", 512, 14, 512, 3, 1, 1},
    {"s.1", 3, 224, 64, 3, 2, 0},        {"s.2s", 64, 55, 16, 1, 1, 0},
    {"s.2e1", 16, 55, 64, 1, 1, 0},      {"s.2e3", 16, 55, 64, 3, 1, 1},
    {"s.3s", 128, 55, 16, 1, 1, 0},      {"s.4s", 128, 27, 32, 1, 1, 0},
    {"s.4e1", 32, 27, 128, 1, 1, 0},     {"s.4e3", 32, 27, 128, 3, 1, 1},
    {"s.5s", 256, 27, 32, 1, 1, 0},      {"s.6s", 256, 13, 48, 1, 1, 0},
    {"s.6e1", 48, 13, 192, 1, 1, 0},     {"s.6e3", 48, 13, 192, 3, 1, 1},
    {"s.8s", 384, 13, 64, 1, 1, 0},      {"s.8e1", 64, 13, 256, 1, 1, 0},
    {"s.8e3", 64, 13, 256, 3, 1, 1},     {"s.9s", 512, 13, 64, 1, 1, 0},
    {"s.10", 512, 13, 1000, 1, 1, 0},    {"m.1", 3, 224, 32, 3, 2, 1},
    {"m.2p", 32, 112, 16, 1, 1, 0},      {"m.3e", 16, 112, 96, 1, 1, 0},
    {"m.3p", 96, 56, 24, 1, 1, 0},       {"m.4e", 24, 56, 144, 1, 1, 0},
    {"m.4p", 144, 56, 24, 1, 1, 0},      {"m.5p", 144, 28, 32, 1, 1, 0},
    {"m.6e", 32, 28, 192, 1, 1, 0},      {"m.6p", 192, 28, 32, 1, 1, 0},
    {"m.7p", 192, 14, 64, 1, 1, 0},      {"m.8e", 64, 14, 384, 1, 1, 0},
    {"m.8p", 384, 14, 64, 1, 1, 0},      {"m.11p", 384, 14, 96, 1, 1, 0},
    {"m.12e", 96, 14, 576, 1, 1, 0},     {"m.12p", 576, 14, 96, 1, 1, 0},
    {"m.14p", 576, 7, 160, 1, 1, 0},     {"m.15e", 160, 7, 960, 1, 1, 0},
    {"m.15p", 960, 7, 160, 1, 1, 0},     {"m.17p", 960, 7, 320, 1, 1, 0},
    {"m.18", 320, 7, 1280, 1, 1, 0},     {"fc.r18", 512, 1, 1000, 1, 1, 0},
    {"fc.r50", 2048, 1, 1000, 1, 1, 0},  {"fc.m", 1280, 1, 1000, 1, 1, 0},
    {"fc.v1", 25088, 1, 4096, 1, 1, 0},  {"fc.v2", 4096, 1, 4096, 1, 1, 0},
    {"fc.v3", 4096, 1, 1000, 1, 1, 0},   {"n.2p", 16, 112, 8, 1, 1, 0},
    {"n.3e", 8, 112, 48, 1, 1, 0},
};

// Products of BERT-base at sequence length 128.
constexpr Gemm kGemms[] = {
    {"b.qkv", 128, 768, 768}, {"b.up", 128, 768, 3072}, {"b.down", 128, 3072, 768}};

Conv2dSpec SpecOf(const Layer& layer) {
  return testing::SquareConv(layer.in, layer.size, layer.out, layer.kernel, layer.stride,
                             layer.pad);
}

Conv2dSpec SpecOf(const Gemm& gemm) {
  Conv2dSpec s;
  s.window.height = s.window.out_height = gemm.rows;
  s.in_channels = gemm.depth;
  s.out_channels = gemm.columns;
  s.bias = true;
  return s;
}

// `unit`: null for fp32.
void RunSpec(benchmark::State& state, Conv2dSpec spec, const Bf16Unit* unit) {
  if (unit != nullptr) spec.precision = Precision::kBf16;
  ConvProblem problem(spec, IsGemv(spec) ? nullptr : unit);
  problem.RunAll();
  for (auto _ : state) problem.RunAll();
  state.counters["GFLOP/s"] = benchmark::Counter(problem.kernel.flops * 1e-9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.counters["blocks"] = problem.kernel.blocks;
}

template <typename Shapes>
void Register(const Shapes& shapes, const std::string& body, const Bf16Unit* unit) {
  for (const auto& shape : shapes) {
    benchmark::RegisterBenchmark((body + "/" + shape.name).c_str(), RunSpec, SpecOf(shape), unit)
        ->Unit(benchmark::kMicrosecond)
        ->MeasureProcessCPUTime();
  }
}

const bool kRegistered = [] {
  Register(kLayers, "conv2d", nullptr);
  Register(kGemms, "conv2d", nullptr);
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    Register(kLayers, unit->kernel_name, unit);
    Register(kGemms, unit->kernel_name, unit);
  }
  return true;
}();

}  // namespace
}  // namespace lagoon

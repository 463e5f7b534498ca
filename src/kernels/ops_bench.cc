// Time of whole ops on one thread: every block in order, operands as a model leaves them (hot where
// they fit). lagoon_kernels_bench --benchmark_filter=Depthwise

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "kernels/ops.h"

namespace lagoon {
namespace {

/// Memory for every operand of a kernel, bound into its argument image.
class Bound {
 public:
  Bound(Result<Kernel> kernel, const std::vector<std::size_t>& inputs, std::size_t output)
      : kernel_(*std::move(kernel)), scratch_(kernel_.scratch_bytes) {
    for (std::size_t i = 0; i < inputs.size(); ++i) Bind(kernel_.inputs[i], inputs[i]);
    Bind(kernel_.outputs[0], output);
  }

  void Run() {
    BlockContext context({}, scratch_);
    for (std::uint32_t block = 0; block < kernel_.blocks; ++block) {
      kernel_.body(kernel_.args.data(), block, context);
    }
  }

  /// Writes the first input, as the op before would have: in the cache where it fits.
  void ProduceInput() { std::fill(memory_[0].begin(), memory_[0].end(), 0.5f); }

  const Kernel& kernel() const { return kernel_; }

 private:
  void Bind(std::uint32_t offset, std::size_t elements) {
    memory_.emplace_back(elements + 16, 0.5f);
    float* data = memory_.back().data();
    auto address = reinterpret_cast<std::uintptr_t>(data);
    data += (64 - address % 64) % 64 / sizeof(float);
    std::memcpy(kernel_.args.data() + offset, &data, sizeof(data));
  }

  Kernel kernel_;
  std::vector<std::byte> scratch_;
  std::vector<std::vector<float>> memory_;
};

void Measure(benchmark::State& state, Bound& bound) {
  for (auto _ : state) {
    state.PauseTiming();
    bound.ProduceInput();
    state.ResumeTiming();
    bound.Run();
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["blocks"] = bound.kernel().blocks;
  state.counters["GB/s"] =
      benchmark::Counter(bound.kernel().bytes_moved * runs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(bound.kernel().flops * runs * 1e-9, benchmark::Counter::kIsRate);
}

/// Arguments: height = width, channels, stride. 3x3, padding 1, as in MobileNetV2.
void Depthwise(benchmark::State& state) {
  DepthwiseSpec spec;
  spec.height = spec.width = static_cast<std::uint32_t>(state.range(0));
  spec.channels = static_cast<std::uint32_t>(state.range(1));
  spec.stride_h = spec.stride_w = static_cast<std::uint32_t>(state.range(2));
  spec.out_height = spec.out_width = (spec.height - 1) / spec.stride_h + 1;
  spec.kernel_h = spec.kernel_w = 3;
  spec.pad_top = spec.pad_left = 1;
  spec.bias = true;
  spec.epilogue = {.activation = Activation::kClip, .low = 0, .high = 6};
  const std::size_t in = std::size_t{spec.height} * spec.width * spec.channels;
  const std::size_t out = std::size_t{spec.out_height} * spec.out_width * spec.channels;
  Bound bound(MakeDepthwise(spec), {in, spec.channels * 9, spec.channels}, out);
  Measure(state, bound);
}
BENCHMARK(Depthwise)
    ->Unit(benchmark::kMicrosecond)
    ->Args({112, 32, 1})
    ->Args({112, 96, 2})
    ->Args({56, 144, 1})
    ->Args({56, 144, 2})
    ->Args({28, 192, 1})
    ->Args({28, 192, 2})
    ->Args({14, 384, 1})
    ->Args({14, 576, 1})
    ->Args({14, 576, 2})
    ->Args({7, 960, 1});

}  // namespace
}  // namespace lagoon

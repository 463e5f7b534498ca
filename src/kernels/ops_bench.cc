// Time of whole ops on one thread: every block in order, with operands in the caches as in a model.
// lagoon_kernels_bench --benchmark_filter=Depthwise

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "kernels/ops.h"
#include "kernels/testing/image_window.h"

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

  /// Writes the first input, as the previous op would: it is in the cache if it fits.
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

/// The window of a benchmark whose arguments are height = width, channels, stride.
ImageWindow SquareOf(const benchmark::State& state, std::uint32_t kernel, std::uint32_t pad) {
  return testing::SquareWindow(static_cast<std::uint32_t>(state.range(0)), kernel,
                               static_cast<std::uint32_t>(state.range(2)), pad);
}

/// Arguments: height = width, channels, stride, kernel. Padded to keep the size, as in MobileNetV2.
void Depthwise(benchmark::State& state) {
  DepthwiseSpec spec;
  const auto kernel = static_cast<std::uint32_t>(state.range(3));
  spec.window = SquareOf(state, kernel, kernel / 2);
  spec.channels = static_cast<std::uint32_t>(state.range(1));
  spec.bias = true;
  spec.epilogue = {.activation = Activation::kClip, .low = 0, .high = 6};
  const std::size_t in = InputPixels(spec.window) * spec.channels;
  const std::size_t out = OutputPixels(spec.window) * spec.channels;
  Bound bound(MakeDepthwise(spec), {in, spec.channels * kernel * kernel, spec.channels}, out);
  Measure(state, bound);
}
BENCHMARK(Depthwise)
    ->Unit(benchmark::kMicrosecond)
    ->Args({112, 32, 1, 3})
    ->Args({112, 48, 2, 3})
    ->Args({112, 96, 2, 3})
    ->Args({56, 144, 1, 3})
    ->Args({56, 144, 2, 3})
    ->Args({28, 192, 1, 3})
    ->Args({28, 192, 2, 3})
    ->Args({14, 384, 1, 3})
    ->Args({14, 576, 1, 3})
    ->Args({14, 576, 2, 3})
    ->Args({7, 960, 1, 3})
    ->Args({56, 72, 2, 5})
    ->Args({28, 72, 1, 5})
    ->Args({28, 120, 1, 5})
    ->Args({14, 480, 1, 5})
    ->Args({14, 672, 2, 5})
    ->Args({7, 576, 1, 5})
    ->Args({56, 96, 1, 7});

/// Arguments: height = width, channels, stride. 3x3, padding 1, 32 groups, as in ResNeXt.
void GroupedConv(benchmark::State& state) {
  GroupedConvSpec spec;
  spec.window = SquareOf(state, 3, 1);
  spec.in_channels = spec.out_channels = static_cast<std::uint32_t>(state.range(1));
  spec.groups = 32;
  spec.bias = true;
  spec.epilogue.activation = Activation::kRelu;
  const std::size_t in = InputPixels(spec.window) * spec.in_channels;
  const std::size_t out = OutputPixels(spec.window) * spec.out_channels;
  const std::size_t weights = PackedGroupedConvWeightBytes(spec) / sizeof(float);
  Bound bound(MakeGroupedConv(spec), {in, weights, spec.out_channels}, out);
  Measure(state, bound);
}
BENCHMARK(GroupedConv)
    ->Unit(benchmark::kMicrosecond)
    ->Args({56, 128, 1})
    ->Args({56, 256, 2})
    ->Args({28, 256, 1})
    ->Args({28, 512, 2})
    ->Args({14, 512, 1})
    ->Args({14, 1024, 2})
    ->Args({7, 1024, 1});

/// Arguments: height = width, channels, kernel, padding. Stride 2, as in ResNet, SqueezeNet and
/// VGG.
void MaxPool(benchmark::State& state) {
  PoolSpec spec;
  const auto pad = static_cast<std::uint32_t>(state.range(3));
  spec.window = testing::SquareWindow(static_cast<std::uint32_t>(state.range(0)),
                                      static_cast<std::uint32_t>(state.range(2)), 2, pad);
  spec.channels = static_cast<std::uint32_t>(state.range(1));
  spec.pad_bottom = spec.pad_right = pad;
  const std::size_t in = InputPixels(spec.window) * spec.channels;
  const std::size_t out = OutputPixels(spec.window) * spec.channels;
  Bound bound(MakePool(spec), {in}, out);
  Measure(state, bound);
}
BENCHMARK(MaxPool)
    ->Unit(benchmark::kMicrosecond)
    ->Args({112, 64, 3, 1})
    ->Args({111, 64, 3, 0})
    ->Args({55, 128, 3, 0})
    ->Args({224, 64, 2, 0})
    ->Args({112, 128, 2, 0})
    ->Args({14, 512, 2, 0});

/// Argument: height * width. 1280 channels, as in MobileNetV2.
void GlobalAverage(benchmark::State& state) {
  const auto pixels = static_cast<std::size_t>(state.range(0));
  Bound bound(MakeReduce({.op = ReduceOp::kMean, .outer = 1, .axis = pixels, .inner = 1280}),
              {pixels * 1280}, 1280);
  Measure(state, bound);
}
BENCHMARK(GlobalAverage)->Unit(benchmark::kMicrosecond)->Arg(49);

/// Argument: elements.
void Add(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::vector<std::int64_t> shape = {state.range(0)};
  Bound bound(MakeBinary({.op = BinaryOp::kAdd, .a = shape, .b = shape, .out = shape}),
              {count, count}, count);
  Measure(state, bound);
}
BENCHMARK(Add)
    ->Unit(benchmark::kMicrosecond)
    ->Arg(56 * 56 * 24)
    ->Arg(56 * 56 * 64)
    ->Arg(56 * 56 * 256);

/// Arguments: channels, height = width. NCHW to NHWC, and back.
void ToNhwc(benchmark::State& state) {
  const std::vector<std::int64_t> dims = {1, state.range(0), state.range(1), state.range(1)};
  const std::vector<std::int64_t> permutation = {0, 2, 3, 1};
  const auto count = static_cast<std::size_t>(state.range(0) * state.range(1) * state.range(1));
  Bound bound(MakeTranspose(dims, permutation), {count}, count);
  Measure(state, bound);
}
void ToNchw(benchmark::State& state) {
  const std::vector<std::int64_t> dims = {1, state.range(1), state.range(1), state.range(0)};
  const std::vector<std::int64_t> permutation = {0, 3, 1, 2};
  const auto count = static_cast<std::size_t>(state.range(0) * state.range(1) * state.range(1));
  Bound bound(MakeTranspose(dims, permutation), {count}, count);
  Measure(state, bound);
}
BENCHMARK(ToNhwc)->Unit(benchmark::kMicrosecond)->Args({3, 224})->Args({64, 56})->Args({512, 7});
BENCHMARK(ToNchw)->Unit(benchmark::kMicrosecond)->Args({3, 224})->Args({64, 56})->Args({512, 7});

/// Argument: classes.
void Softmax(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  Bound bound(MakeSoftmax({.outer = 1, .axis = count, .inner = 1}), {count}, count);
  Measure(state, bound);
}
BENCHMARK(Softmax)->Unit(benchmark::kMicrosecond)->Arg(1000);

}  // namespace
}  // namespace lagoon

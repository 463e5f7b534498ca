#pragma once

// For conv2d's tests and benchmarks: operands, a plain reference, and a way to run a kernel.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/conv2d.h"
#include "kernels/testing/image_window.h"
#include "kernels/testing/target.h"

namespace lagoon::testing {

/// `count` floats, 64-byte aligned, uniform in [-1, 1] from `seed`.
class AlignedFloats {
 public:
  AlignedFloats() = default;
  explicit AlignedFloats(std::size_t count)
      : data_(hwy::AllocateAligned<float>(count)), count_(count) {}
  static AlignedFloats Random(std::size_t count, std::uint32_t seed) {
    AlignedFloats floats(count);
    std::minstd_rand random(seed);
    for (float& v : floats.span()) {
      v = static_cast<float>(random() % 65537) / 32768.0f - 1.0f;
    }
    return floats;
  }
  float* data() const { return data_.get(); }
  std::size_t size() const { return count_; }
  std::span<float> span() const { return {data_.get(), count_}; }

 private:
  hwy::AlignedFreeUniquePtr<float[]> data_;
  std::size_t count_ = 0;
};

/// A square convolution with bias and ReLU.
inline Conv2dSpec SquareConv(std::uint32_t in, std::uint32_t size, std::uint32_t out,
                             std::uint32_t kernel, std::uint32_t stride, std::uint32_t pad) {
  Conv2dSpec spec;
  spec.window = SquareWindow(size, kernel, stride, pad);
  spec.in_channels = in;
  spec.out_channels = out;
  spec.bias = true;
  spec.epilogue.activation = Activation::kRelu;
  return spec;
}

/// The operands of one convolution, its weights in ONNX's order and packed, and its kernel bound to
/// these operands.
class ConvProblem {
 public:
  /// `unit`: the unit to run on, for a bf16 spec that is not a matrix-vector product. Null: as
  /// MakeConv2d.
  explicit ConvProblem(const Conv2dSpec& s, const Bf16Unit* unit = nullptr)
      : spec(s),
        x(AlignedFloats::Random(InputPixels(s.window) * s.in_channels, 1)),
        weights(AlignedFloats::Random(WindowTaps(s.window) * s.in_channels * s.out_channels, 2)),
        bias(AlignedFloats::Random(s.out_channels, 3)),
        residual(AlignedFloats::Random(OutputCount(), 4)),
        y(OutputCount()),
        packed(PackedConv2dWeightBytes(s) / sizeof(float)),
        kernel(unit != nullptr ? *MakeBf16Conv2d(s, *unit) : *MakeConv2d(s)),
        scratch(hwy::AllocateAligned<std::byte>(kernel.scratch_bytes + 1)) {
    PackConv2dWeights(s, weights.data(), packed.data());
    Bind();
  }

  /// Cuts the kernel as in `version` from now on.
  void Use(const KernelVersion& version) {
    kernel.args = version.args;
    kernel.blocks = version.blocks;
    kernel.scratch_bytes = version.scratch_bytes;
    scratch = hwy::AllocateAligned<std::byte>(kernel.scratch_bytes + 1);
    Bind();
  }

  std::size_t OutputCount() const { return OutputPixels(spec.window) * spec.out_channels; }
  bool RunBlock(std::uint32_t block, CheckProbe* probe = nullptr) {
    BlockContext ctx({}, {scratch.get(), kernel.scratch_bytes}, probe);
    return kernel.body(kernel.args.data(), block, ctx);
  }
  bool RunAll() {
    for (std::uint32_t block = 0; block < kernel.blocks; ++block) {
      if (!RunBlock(block)) return false;
    }
    return true;
  }

  Conv2dSpec spec;
  AlignedFloats x, weights, bias, residual, y, packed;
  Kernel kernel;
  hwy::AlignedFreeUniquePtr<std::byte[]> scratch;

 private:
  void Bind() {
    std::vector<const float*> inputs = {x.data(), packed.data()};
    if (spec.bias) inputs.push_back(bias.data());
    if (spec.epilogue.residual) inputs.push_back(residual.data());
    for (std::size_t i = 0; i < inputs.size(); ++i) Set(kernel.inputs[i], inputs[i]);
    Set(kernel.outputs[0], y.data());
  }
  void Set(std::uint32_t offset, const float* pointer) {
    std::memcpy(kernel.args.data() + offset, &pointer, sizeof(pointer));
  }
};

}  // namespace lagoon::testing

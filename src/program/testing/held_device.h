#pragma once

// For tests: a CPU whose kernels run until the test lets them go, and whose plans can wait.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu_kernels.h"
#include "program/open_device.h"

namespace lagoon::testing {

/// Holds back who passes, while it is closed. Any thread.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Whether a thread waits now.
  bool HasWaiting() {
    const std::lock_guard lock(mutex_);
    return waiting_ > 0;
  }
  /// Returns false if `leave` said so before the gate was open.
  bool Pass(const std::function<bool()>& leave) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    bool leaves = leave();
    while (!open_ && !leaves) {
      changed_.wait_for(lock, std::chrono::microseconds(100));
      leaves = leave();
    }
    --waiting_;
    return !leaves;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

/// The gates of a device's kernels. Both are open at first, so that models load.
struct Gates {
  /// Blocks of the op Floor wait here: they leave as blocks of a long kernel do.
  Gate blocks;
  /// The kernel of each MatMul is made behind this gate: so the making of a plan takes as long as
  /// a test wants.
  Gate plans;
};

/// The CPU's kernels, but Floor waits at the gate, and copies x to y.
class HeldKernels final : public KernelMaker {
 public:
  explicit HeldKernels(std::shared_ptr<Gates> gates) : gates_(std::move(gates)) {}

  Status CheckPrecision(Precision precision) const override {
    return cpu_.CheckPrecision(precision);
  }
#define LAGOON_MAKER(name, Spec)                             \
  Result<Kernel> name(const Spec& spec) const override {     \
    if constexpr (std::is_same_v<Spec, MatmulSpec>) Delay(); \
    return cpu_.name(spec);                                  \
  }
  LAGOON_KERNELS(LAGOON_MAKER)
  LAGOON_CPU_KERNELS(LAGOON_MAKER)
#undef LAGOON_MAKER
  Result<Kernel> Unary(const UnarySpec& spec) const override {
    return spec.op == UnaryOp::kFloor ? Held(spec.count) : cpu_.Unary(spec);
  }
  Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const override {
    return cpu_.Cast(count, from, to);
  }
  Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) const override {
    return cpu_.Transpose(dims, permutation, element_bytes);
  }
  Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                        std::size_t element_bytes, const Epilogue& epilogue) const override {
    return cpu_.Concat(outer, axes, inner, element_bytes, epilogue);
  }
  Result<TakeKernel> Take(const TakeSpec& spec) const override { return cpu_.Take(spec); }
  Result<Kernel> ScatterTargets(const IndexSpec& spec) const override {
    return cpu_.ScatterTargets(spec);
  }
  Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const override {
    return cpu_.Scatter(spec, op);
  }
  Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const override {
    return cpu_.Fold(spec, op);
  }
  Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const override { return cpu_.Conv2d(spec); }
  Result<PackedKernel> Depthwise(const DepthwiseSpec& spec) const override {
    return cpu_.Depthwise(spec);
  }
  Result<PackedKernel> GroupedConv(const GroupedConvSpec& spec) const override {
    return cpu_.GroupedConv(spec);
  }

 private:
  static constexpr std::uint32_t kBlocks = 4;

  struct Args {
    const float* x = nullptr;
    float* y = nullptr;
    Gate* gate = nullptr;
    std::size_t count = 0;
  };

  static bool Block(const void* image, std::uint32_t block, BlockContext& context) {
    const Args& args = *static_cast<const Args*>(image);
    if (!args.gate->Pass([&] { return context.ShouldLeave(); })) return false;
    const std::size_t begin = args.count * block / kBlocks;
    const std::size_t end = args.count * (block + 1) / kBlocks;
    if (end > begin) std::memmove(args.y + begin, args.x + begin, (end - begin) * sizeof(float));
    return true;
  }

  Kernel Held(std::size_t count) const {
    Kernel kernel;
    kernel.name = "held";
    kernel.body = &Block;
    kernel.blocks = kBlocks;
    kernel.args = ArgsImage(Args{nullptr, nullptr, &gates_->blocks, count});
    kernel.inputs = {offsetof(Args, x)};
    kernel.outputs = {offsetof(Args, y)};
    kernel.in_place = {0};
    return kernel;
  }
  void Delay() const {
    gates_->plans.Pass([] { return false; });
  }

  const KernelMaker& cpu_ = CpuKernels();
  const std::shared_ptr<Gates> gates_;
};

/// The CPU with HeldKernels.
inline DeviceChoice HeldDevice(std::shared_ptr<Gates> gates, std::uint32_t workers) {
  DeviceChoice choice;
  choice.open = [gates = std::move(gates), workers]() -> Result<ComputeDevice> {
    CpuDeviceOptions options;
    options.workers = workers;
    ComputeDevice opened;
    opened.kernels = std::make_unique<HeldKernels>(gates);
    LAGOON_ASSIGN_OR_RETURN(opened.device, CreateCpuDevice(options));
    return opened;
  };
  return choice;
}

}  // namespace lagoon::testing

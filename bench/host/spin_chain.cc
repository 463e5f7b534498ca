#include "bench/host/spin_chain.h"

#include <fmt/format.h>
#include <time.h>

namespace lagoon::bench {
namespace {

struct SpinArgs {
  std::int64_t nanoseconds = 0;
  std::atomic<std::int64_t>* cpu_ns = nullptr;
};

std::int64_t ThreadCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool SpinBody(const void* args, std::uint32_t /*block*/, BlockContext& context) {
  if (context.ShouldLeave()) return false;
  const auto& spin = *static_cast<const SpinArgs*>(args);
  const std::int64_t before = spin.cpu_ns == nullptr ? 0 : ThreadCpuNs();
  const TimePoint end = Now() + Nanoseconds(spin.nanoseconds);
  while (Now() < end) {
  }
  if (spin.cpu_ns != nullptr) {
    spin.cpu_ns->fetch_add(ThreadCpuNs() - before, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace

Result<KernelHandle> LoadSpin(Device& device) { return device.Load({"spin", SpinBody}, {}); }

std::shared_ptr<const LoadedPlan> SpinChain(KernelHandle kernel, std::uint32_t kernels,
                                            Nanoseconds time, std::atomic<std::int64_t>* cpu_ns) {
  const SpinArgs args{time.count(), cpu_ns};
  const auto* image = reinterpret_cast<const std::byte*>(&args);
  auto loaded = std::make_shared<LoadedPlan>();
  Plan& plan = loaded->plan;
  plan.model = "chain";
  for (std::uint32_t i = 0; i < kernels; ++i) {
    PlanOp& op = plan.ops.emplace_back();
    op.name = fmt::format("spin{}", i);
    op.kernel_name = "spin";
    op.kernel = kernel;
    op.blocks = 1;
    op.args.assign(image, image + sizeof(args));
    op.cost = {time, time};
    if (i > 0) op.deps = {i - 1};
  }
  plan.arena_bytes = 128;
  plan.inputs.push_back(
      {{"x", DataType::kFloat32, {4}}, {Region::kArena, 0, kSpinTensorBytes}, {0}});
  plan.outputs.push_back(
      {{"y", DataType::kFloat32, {4}}, {Region::kArena, 64, kSpinTensorBytes}, {kernels - 1}});
  return loaded;
}

}  // namespace lagoon::bench

// Models compiled with precision bf16, compared with the same models in fp32.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kernels/conv/bf16/bf16_unit.h"
#include "program/compile.h"
#include "program/profile/profile_file.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::FusedRelu;
using ::testing::HasSubstr;
using testing::MakeDevice;
using testing::TestGraph;

/// A network with a convolution of every kind, a product with weights for many rows, and one for a
/// single row.
TestGraph Network() {
  TestGraph g;
  ValueId x = g.Conv(g.Input({1, 3, 40, 40}), 32, {7, 2, {3, 3, 3, 3}}, 1, true, FusedRelu());
  Fused residual = FusedRelu();
  residual.residual = x;
  x = g.Conv(g.Conv(x, 32, {}, 1, true, FusedRelu()), 32, {}, 1, true, residual);
  x = g.Conv(g.Conv(x, 32, {}, 32), 48, {}, 2);  // depthwise, then two groups (which stay fp32)
  const ValueId rows = g.View("Reshape", x, {48, 400});
  const ValueId product = g.Op("MatMul", {rows, g.Constant({400, 64})});
  const ValueId row = g.View("Reshape", product, {1, 3072});
  g.Output(
      g.Op("Gemm", {row, g.Constant({10, 3072}), g.Constant({10})}, {{"transB", std::int64_t{1}}}));
  g.Output(product);
  return g;
}

Result<std::shared_ptr<LoadedPlan>> CompileBf16(const TestGraph& g, Device& device) {
  CompileOptions options;
  options.model = "test";
  options.precision = Precision::kBf16;
  return CompileGraph(g.graph(), device, options);
}

using Outputs = std::vector<std::vector<float>>;

Outputs OutputsOf(const std::shared_ptr<LoadedPlan>& loaded, Device& device, const TestGraph& g) {
  auto instance = Instance::Create(loaded, device);
  LAGOON_CHECK(instance.has_value());
  return testing::RunOn(**instance, device, g);
}

class Bf16Model : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status able = CheckPrecision(Precision::kBf16);
    if (!able) GTEST_SKIP() << able.error().message;
    auto loaded = CompileBf16(graph_, *device_);
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *loaded;
  }

  static const TestGraph& Graph() {
    static const TestGraph graph = Network();  // its reference takes a second
    return graph;
  }

  const TestGraph& graph_ = Graph();
  std::unique_ptr<Device> device_ = MakeDevice(2);
  std::shared_ptr<LoadedPlan> loaded_;
};

TEST_F(Bf16Model, IsNearItsFp32) {
  const Outputs got = OutputsOf(loaded_, *device_, graph_);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto& expected = graph_.value(graph_.graph().outputs[i]).data;
    const double error = testing::RelativeError(got[i], expected);
    EXPECT_LT(error, 0.02) << "output " << i;  // five layers of 8 bits
    EXPECT_GT(error, 1e-5) << "output " << i << " looks like fp32";
  }
}

TEST_F(Bf16Model, EveryHeavyKernelIsBf16AndWeightsAreHalf) {
  std::size_t heavy = 0;
  for (const PlanOp& op : loaded_->plan.ops) {
    EXPECT_NE(op.kernel_name, "conv2d") << op.name;
    EXPECT_NE(op.kernel_name, "gemv") << op.name;  // grouped_conv is fp32 only
    heavy += op.kernel_name.find("bf16") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(heavy, 3 + 1 + 1U);
  const auto fp32 = testing::Compile(graph_.graph(), *device_);
  EXPECT_LT(static_cast<double>(loaded_->plan.weight_bytes),
            0.65 * static_cast<double>(fp32->plan.weight_bytes));
}

TEST_F(Bf16Model, GivesTheSameBitsOnAnyNumberOfWorkers) {
  const Outputs two = OutputsOf(loaded_, *device_, graph_);
  EXPECT_EQ(OutputsOf(loaded_, *device_, graph_), two);
  const auto single = MakeDevice(1);
  const auto loaded = CompileBf16(graph_, *single);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(OutputsOf(*loaded, *single, graph_), two);
}

TEST_F(Bf16Model, GivesTheSameBitsWhenItsBlocksLeave) {
  /// Two threads call this. Leaves rarely enough for blocks with many checks to finish.
  class LeaveAtTimes final : public CheckProbe {
   public:
    bool OnCheck() override {
      const bool leave = checks_.fetch_add(1, std::memory_order_relaxed) % 61 == 60;
      if (leave) left_.fetch_add(1, std::memory_order_relaxed);
      return leave;
    }
    int left() const { return left_; }

   private:
    std::atomic<int> checks_{0}, left_{0};
  };
  const Outputs undisturbed = OutputsOf(loaded_, *device_, graph_);
  LeaveAtTimes probe;
  const auto device = MakeDevice(2, &probe);
  const auto loaded = CompileBf16(graph_, *device);
  ASSERT_TRUE(loaded);
  for (int run = 0; run < 20; ++run) {
    ASSERT_EQ(OutputsOf(*loaded, *device, graph_), undisturbed);
  }
  EXPECT_GT(probe.left(), 5);
}

TEST_F(Bf16Model, HasAProfileOfItsOwn) {
  const auto fp32 = testing::Compile(graph_.graph(), *device_);
  EXPECT_NE(ProfileKey(loaded_->plan, device_->info(), "build"),
            ProfileKey(fp32->plan, device_->info(), "build"));
}

TEST(Bf16ModelRefused, NamesTheModelAndTheLevelThatTheCpuLacks) {
  if (CheckPrecision(Precision::kBf16)) GTEST_SKIP() << "this CPU has bf16";
  const auto device = MakeDevice(1);
  const auto loaded = CompileBf16(Network(), *device);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("model 'test'"),
                    HasSubstr("precision 'bf16' needs a CPU of level 'avx512bf16'")));
}

}  // namespace
}  // namespace lagoon

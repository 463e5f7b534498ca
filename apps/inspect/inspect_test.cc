#include "apps/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/cpu_level.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TestGraph;

std::shared_ptr<LoadedPlan> SmallPlan(Device& device) {
  TestGraph g;
  const ValueId x = g.Conv(g.Input({1, 3, 8, 8}), 4, {});
  g.Output(g.Op("Relu", {x}));
  return testing::Compile(g.graph(), device);
}

TEST(InspectJson, HoldsWhatThePlanHolds) {
  const auto device = testing::MakeDevice(1);
  const auto loaded = SmallPlan(*device);
  ASSERT_NE(loaded, nullptr);
  const Plan& plan = loaded->plan;
  const auto json = nlohmann::json::parse(InspectJson(*loaded));
  EXPECT_EQ(json["model"], "test");
  EXPECT_EQ(json["target"], NameOf(ActiveCpuLevel()));
  EXPECT_EQ(json["weight_bytes"], plan.weight_bytes);
  EXPECT_EQ(json["arena_bytes"], plan.arena_bytes);
  EXPECT_EQ(json["activation_bytes"], plan.activation_bytes);
  EXPECT_EQ(json["profiled"], false);
  EXPECT_EQ(json["inputs"][0]["shape"], (Dims{1, 3, 8, 8}));
  ASSERT_EQ(json["kernels"].size(), plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const auto& kernel = json["kernels"][i];
    EXPECT_EQ(kernel["name"], plan.ops[i].name);
    EXPECT_EQ(kernel["blocks"], plan.ops[i].blocks);
    EXPECT_EQ(kernel["deps"], plan.ops[i].deps);
    EXPECT_EQ(kernel["writes"][0]["offset"], plan.ops[i].writes[0].offset);
    EXPECT_EQ(kernel["reads"].size(), plan.ops[i].reads.size());
  }
  // At least two FLOPs for each of 27 weights and 4 * 8 * 8 outputs.
  EXPECT_GE(json["flops"], 2 * 27 * 256);
  EXPECT_EQ(json["buffers"].size(), plan.buffers.size());
}

TEST(InspectJson, SurvivesNamesThatAreNotUtf8) {
  const auto device = testing::MakeDevice(1);
  const auto loaded = SmallPlan(*device);
  ASSERT_NE(loaded, nullptr);
  loaded->plan.ops[0].name = "bad\xff";
  EXPECT_TRUE(nlohmann::json::accept(InspectJson(*loaded)));
}

TEST(InspectText, NamesKernelsAndSaysWhetherTimesAreMeasured) {
  const auto device = testing::MakeDevice(1);
  const auto loaded = SmallPlan(*device);
  ASSERT_NE(loaded, nullptr);
  const std::string before = InspectText(*loaded);
  EXPECT_THAT(before, HasSubstr("Conv_0"));
  EXPECT_THAT(before, HasSubstr("conv2d"));
  EXPECT_THAT(before, HasSubstr("times are estimates"));
  ASSERT_TRUE(ProfilePlan(*loaded, *device, 1).has_value());
  EXPECT_THAT(InspectText(*loaded), Not(HasSubstr("estimates")));
}

}  // namespace
}  // namespace lagoon

#include "apps/inspect/worst.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// 1 GFLOP/s, 1 GB/s from caches and 0.1 GB/s from memory.
constexpr MachineRates kRates{1e3, 1e3, 1e2, 1e4};

PlanOp Op(const char* name, double flops, double bytes, int us) {
  PlanOp op;
  op.name = name;
  op.kernel_name = "body";
  op.flops = flops;
  op.accessed_bytes = bytes;
  op.cost.kernel = Nanoseconds(us * 1000);
  return op;
}

TEST(BoundOf, IsTheLargestOfOperationsBytesAndAStart) {
  EXPECT_EQ(BoundOf(Op("start", 10, 10, 0), kRates), Nanoseconds(2'000));
  EXPECT_EQ(BoundOf(Op("flops", 50e3, 10, 0), kRates), Nanoseconds(50'000));
  EXPECT_EQ(BoundOf(Op("near", 10, 1e4, 0), kRates), Nanoseconds(10'000));
  EXPECT_EQ(BoundOf(Op("far", 10, 2e4, 0), kRates), Nanoseconds(200'000));
}

TEST(WorstKernels, HaveTheLargestExcessFirst) {
  Plan plan;
  plan.ops = {Op("at the bound", 50e3, 0, 51), Op("half", 50e3, 0, 100),
              Op("slow", 50e3, 0, 150),        Op("short", 0, 0, 4),
              Op("very slow", 1e3, 0, 900),    Op("short and slow", 0, 0, 9)};
  std::vector<std::uint32_t> order;
  for (const SlowKernel& kernel : WorstKernels(plan, kRates, 10)) order.push_back(kernel.op);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{4, 2, 5}));
  const std::vector<SlowKernel> one = WorstKernels(plan, kRates, 1);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].excess(), Nanoseconds(898'000));
  EXPECT_THAT(WorstText(plan, kRates, one), AllOf(HasSubstr("very slow"), HasSubstr("898.0"),
                                                  HasSubstr("1 GFLOP/s"), Not(HasSubstr("half"))));
  const auto json = nlohmann::json::parse(WorstJson(plan, kRates, one));
  EXPECT_EQ(json["worst"][0]["name"], "very slow");
  EXPECT_EQ(json["worst"][0]["bound_us"], 2);
}

TEST(WorstKernels, MayBeNone) {
  Plan plan;
  plan.ops = {Op("fast", 50e3, 0, 60)};
  EXPECT_TRUE(WorstKernels(plan, kRates, 10).empty());
  EXPECT_THAT(WorstText(plan, kRates, {}), HasSubstr("no kernel"));
}

TEST(MachineRates, AreMeasuredOnTheDevice) {
  const auto device = testing::MakeDevice(2);
  const Result<MachineRates> rates = MeasureRates(*device);
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_GT(rates->flops_per_us, 0);
  EXPECT_GT(rates->near_bytes_per_us, 0);
  EXPECT_GT(rates->far_bytes_per_us, 0);
  EXPECT_EQ(rates->near_bytes, 2 * (192 << 10));
}

}  // namespace
}  // namespace lagoon

#include "bench/sim/disb_sensitivity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DisbSensitivity, ChangesEachAssumedConstantAloneWithinItsBounds) {
  SimDisbOptions options;
  options.gpu = *LoadGpuModel("mi50");
  // The run varies only constants that are assumed or calibrated. Two of them are left here, so
  // that four runs would follow: each constant at half and at double its value. There are three:
  // the number of copy engines is 1, and half of 1 is no number of engines.
  for (std::string& source : options.gpu.sources) source = "data sheet";
  const auto index = [](std::string_view name) {
    return static_cast<std::size_t>(FindSimConstant(name) - SimConstantTable().data());
  };
  options.gpu.sources[index("stream_switch_ns")] = "paper, calibrated";
  options.gpu.sources[index("copy_engines")] = "assumed";
  options.gpu.constants.copy_engines = 1;
  options.workload = *NamedDisbWorkload("C", DisbScale::kSimulated, 1);
  options.schedulers = {"streams"};
  options.windows = 1;
  options.requests = 20;
  Report report("disb", {}, "test");
  std::string table;
  const Status status = RunDisbSensitivity(options, report, table);
  ASSERT_TRUE(status) << status.error().message;
  const nlohmann::json& list = report.json().at("sensitivity");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].at("constant"), "copy_engines");
  EXPECT_EQ(list[0].at("factor"), "double");
  EXPECT_EQ(list[1].at("value"), options.gpu.constants.stream_switch_ns / 2);
  const nlohmann::json& metrics = report.json().at("metrics");
  // With half of stream_switch_ns, kernels of different queues start half as far apart.
  EXPECT_GT(metrics.at("throughput_normalized.streams.stream_switch_ns.half"),
            metrics.at("throughput_normalized.streams").get<double>() * 1.1);
  EXPECT_THAT(table, HasSubstr("stream_switch_ns"));
  EXPECT_THAT(table, Not(HasSubstr("copy_latency_ns")));
}

}  // namespace
}  // namespace lagoon::bench

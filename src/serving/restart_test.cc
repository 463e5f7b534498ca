// How kernels of served models restart that were revoked (lagoon.restart).

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

using RestartTest = testing::CoreTest;

// "slow" is "x", negated, held and negated again. The held kernel lies in the place of the first.
TEST_F(RestartTest, AModelRestartsInTheWayThatItsConfigurationSays) {
  const std::map<std::string, std::uint64_t> repeated = {{"claims", 0}, {"group", 2}};
  for (const auto& [word, kernels] : repeated) {
    SCOPED_TRACE(word);
    core_ = nullptr;
    repository_.AddModel("small", SmallModel(), kRealTime);
    UseGates();
    repository_.AddModel("slow",
                         OnnxBuilder()
                             .Input("x", {kSlowRows, kSlowColumns})
                             .Node("Neg", {"x"}, "a")
                             .Node("Floor", {"a"}, "b")
                             .Node("Neg", {"b"}, "y")
                             .Output("y", {kSlowRows, kSlowColumns})
                             .Build(),
                         Parameter("lagoon.restart", word));
    Open();
    Sent running = SendRunning();
    EXPECT_EQ(CodeOf(Ask(SmallRequest())), std::nullopt);
    LetGo();
    const Answer answer = running.answer.get();
    ASSERT_EQ(CodeOf(answer), std::nullopt);
    EXPECT_EQ(answer->job.revocations, 1u);
    EXPECT_EQ(core_->schedulers()->SchedulerStatistics().reexecuted, kernels);
    EXPECT_EQ(StatisticsOf("slow").repeated_kernels, kernels);
    EXPECT_EQ(Floats(answer->outputs[0])[777], 777.0f);
  }
}

TEST_F(RestartTest, AModelThatMayOnlyWaitIsNotInterrupted) {
  UseGates();
  repository_.AddModel("small", SmallModel(), kRealTime);
  repository_.AddModel("slow", HeldModel(), Parameter("lagoon.restart", "wait"));
  Open();
  Sent running = SendRunning();
  Sent small = Send(SmallRequest());
  while (core_->schedulers()->SchedulerStatistics().revocations == 0) std::this_thread::yield();
  EXPECT_TRUE(gates_->blocks.HasWaiting());
  LetGo();
  EXPECT_EQ(CodeOf(small.answer.get()), std::nullopt);
  const Answer answer = running.answer.get();
  ASSERT_EQ(CodeOf(answer), std::nullopt);
  EXPECT_EQ(StatisticsOf("slow").repeated_kernels, 0u);
  EXPECT_EQ(Floats(answer->outputs[0])[777], 777.0f);
}

}  // namespace
}  // namespace lagoon

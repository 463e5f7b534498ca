#include "policies/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/registry.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Error ErrorOf(std::string_view text) {
  const Result<Scheduler> scheduler = MakeScheduler(text);
  return scheduler ? Error{ErrorCode::kInternal, "no error"} : scheduler.error();
}

TEST(SchedulerChoice, IsANameAndParametersInTheirOrder) {
  const Result<SchedulerChoice> choice = SchedulerChoice::Parse("paella:extra_blocks=4,depth=2");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->name, "paella");
  EXPECT_THAT(choice->parameters, ElementsAre(Pair("extra_blocks", 4), Pair("depth", 2)));
  EXPECT_EQ(choice->Text(), "paella:extra_blocks=4,depth=2");
  EXPECT_EQ(SchedulerChoice::Parse("reset")->Text(), "reset");
  EXPECT_EQ(SchedulerChoice::Parse("split:dense=0.25")->Text(), "split:dense=0.25");
}

TEST(SchedulerChoice, RefusesOtherForms) {
  for (const std::string_view text :
       {"", ":", "reset:", ":depth=2", "reset:depth", "reset:=2", "reset:depth=", "reset:depth=x",
        "reset:depth=2x", "reset:depth=2,", "reset:,depth=2", "reset:depth=2,,"}) {
    const Error error = ErrorOf(text);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(error.message, HasSubstr("NAME:PARAMETER=NUMBER")) << text;
  }
  EXPECT_THAT(ErrorOf("reset:depth=2,depth=3").message, HasSubstr("'depth' is set twice"));
}

TEST(SchedulerChoice, AListMayHoldParameters) {
  EXPECT_THAT(SplitSchedulers("fifo"), ElementsAre("fifo"));
  EXPECT_THAT(SplitSchedulers("fifo,paella:depth=2,extra_blocks=4,rr:quantum_us=5,edf"),
              ElementsAre("fifo", "paella:depth=2,extra_blocks=4", "rr:quantum_us=5", "edf"));
  EXPECT_THAT(SplitSchedulers("depth=2,fifo"), ElementsAre("depth=2", "fifo"));
}

TEST(SchedulerParameters, AnUnknownOneIsRefusedWithTheList) {
  EXPECT_EQ(ErrorOf("paella:dept=1").code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ErrorOf("paella:dept=1").message,
              AllOf(HasSubstr("'paella'"), HasSubstr("'dept'"),
                    HasSubstr("depth, extra_blocks, fairness_threshold")));
  EXPECT_THAT(ErrorOf("streams:depth=1").message, HasSubstr("it has: none"));
  EXPECT_THAT(ErrorOf("wait:slice_us=100").message,
              HasSubstr("'wait' has no parameter 'slice_us'"));
  EXPECT_EQ(ErrorOf("pella:depth=1").code, ErrorCode::kNotFound);
}

TEST(SchedulerParameters, AValueOutOfBoundsIsRefusedWithTheBounds) {
  EXPECT_THAT(ErrorOf("reset:depth=0").message,
              AllOf(HasSubstr("depth = 0"), HasSubstr("whole number from 1 to 64")));
  EXPECT_THAT(ErrorOf("reset:depth=65").message, HasSubstr("from 1 to 64"));
  EXPECT_THAT(ErrorOf("reset:depth=1.5").message, HasSubstr("whole number"));
  EXPECT_THAT(ErrorOf("reset:depth=nan").message, HasSubstr("depth = nan"));
  EXPECT_THAT(ErrorOf("split:dense=1e9").message, HasSubstr("a number from 0.1 to 100"));
  EXPECT_THAT(ErrorOf("tally:slice_us=-1").message,
              AllOf(HasSubstr("slice_us = -1"), HasSubstr("a number from 0 to 1000000")));
  EXPECT_THAT(ErrorOf("lithos:slice_us=nan").message, HasSubstr("slice_us = nan"));
}

// Every parameter of every scheduler: both bounds are taken, and the configuration has them.
TEST(SchedulerParameters, TakeEffectInEveryScheduler) {
  for (const std::string_view name : SchedulerNames()) {
    const SchedulerConfig plain = MakeScheduler(name)->config;
    for (const ParameterValue& value : ParametersOf(plain)) {
      const SchedulerParameter& parameter = *value.parameter;
      EXPECT_GE(value.value, parameter.least) << name << " " << parameter.name;
      EXPECT_LE(value.value, parameter.most) << name << " " << parameter.name;
      for (const double bound : {parameter.least, parameter.most}) {
        const SchedulerChoice choice{std::string(name), {{std::string(parameter.name), bound}}};
        const Result<Scheduler> made = MakeScheduler(choice.Text());
        ASSERT_TRUE(made) << choice.Text();
        for (const ParameterValue& now : ParametersOf(made->config)) {
          const bool set = now.parameter == &parameter;
          const double before = now.parameter->get(plain);
          EXPECT_EQ(now.value, set ? bound : before) << choice.Text() << " " << now.parameter->name;
        }
      }
    }
  }
}

TEST(SchedulerParameters, EachBelongsToAScheduler) {
  for (const SchedulerParameter& parameter : SchedulerParameterTable()) {
    int schedulers = 0;
    for (const std::string_view name : SchedulerNames()) {
      for (const ParameterValue& value : ParametersOf(MakeScheduler(name)->config)) {
        schedulers += value.parameter == &parameter ? 1 : 0;
      }
    }
    EXPECT_GT(schedulers, 0) << parameter.name;
  }
}

TEST(SchedulerParameters, DefaultsAreThoseOfTheGuide) {
  const SchedulerConfig paella = MakeScheduler("paella")->config;
  EXPECT_EQ(paella.depth, 1u);
  EXPECT_EQ(paella.extra_blocks, 8u);
  EXPECT_EQ(paella.policy.fairness_threshold, 1000);
  EXPECT_TRUE(MakeScheduler("clockwork")->config.admit_by_deadline);
  EXPECT_FALSE(MakeScheduler("clockwork:admit_by_deadline=0")->config.admit_by_deadline);
  EXPECT_TRUE(MakeScheduler("split")->config.policy.elastic);
}

}  // namespace
}  // namespace lagoon

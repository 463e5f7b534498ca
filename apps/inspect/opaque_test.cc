// What `lagoon inspect` says of kernels that an engine computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/inspect/idempotence.h"
#include "apps/inspect/inspect.h"
#include "engine/testing/test_engine.h"
#include "graph/testing/model_builder.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

/// A plan with the op Twice of the test engine.
class InspectOpaque : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ModelBuilder model;
    model.proto.add_opset_import()->set_domain("test");
    model.Input("x", {4}).Output("y").Add("Relu", {"x"}, {"a"});
    model.Add("Twice", {"a"}, {"y"}).proto().set_domain("test");
    CompileOptions options;
    options.model = "odd_model";
    options.import.engine = testing::HostOf(std::make_shared<testing::TestEngine>());
    auto loaded = CompileModel(model.Save(folder_), *device_, options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    loaded_ = *std::move(loaded);
  }

  testing::TempFolder folder_;
  std::unique_ptr<Device> device_ = testing::MakeDevice(1);
  std::shared_ptr<LoadedPlan> loaded_;
};

TEST_F(InspectOpaque, ItsKernelsAreIdempotent) {
  const IdempotenceSummary summary = Summarize(FindIdempotentGroups(AccessSetsOf(loaded_->plan)));
  EXPECT_EQ(summary.idempotent, loaded_->plan.ops.size());
}

TEST_F(InspectOpaque, NamesTheOps) {
  EXPECT_THAT(InspectText(*loaded_), HasSubstr("engine: test.Twice; cannot be interrupted"));
  EXPECT_THAT(InspectJson(*loaded_), HasSubstr("\"longest_us\""));
}

}  // namespace
}  // namespace lagoon
